"""The faults that the proxy can apply to a request, and the plans that choose them. Values only.

How a fault is carried out is in `proxy`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Cut(Enum):
    """How a connection ends: what the client's library makes of the two differs."""

    RESET = "reset"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class Pass:
    """Deliver the request and its answer."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Reset the connection before the request is read: the upstream never sees it."""


@dataclass(frozen=True, slots=True)
class LoseReply:
    """Deliver the request, wait for the whole answer (so the effect stands), and drop it."""

    cut: Cut = Cut.RESET


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Deliver the request on two connections, the second a moment later; answer with the first."""

    gap_s: float = 0.003


@dataclass(frozen=True, slots=True)
class Delay:
    """Hold the request back, also if the client gives up meanwhile; then deliver it."""

    seconds: float


@dataclass(frozen=True, slots=True)
class BlackHole:
    """Read the request and do nothing, until the client goes away."""


@dataclass(frozen=True, slots=True)
class CutAfter:
    """Deliver the request, and only the first `bytes_max` bytes of the answer."""

    bytes_max: int
    cut: Cut = Cut.CLOSE


Fault: TypeAlias = Pass | Refuse | LoseReply | Duplicate | Delay | BlackHole | CutAfter

PASS, REFUSE, LOSE_REPLY, DUPLICATE = Pass(), Refuse(), LoseReply(), Duplicate()
BLACK_HOLE = BlackHole()

Plan: TypeAlias = Callable[[int], Fault]
"""Chooses the fault of a request by its running number over all connections, from 0.

It is asked when a connection is accepted, and again when the next request on it begins: so that
REFUSE can come before anything was read.
"""


def scripted(*faults: Fault, then: Fault = PASS) -> Plan:
    """Return the plan that applies these faults in order, and `then` for the rest."""
    return lambda number: faults[number] if number < len(faults) else then


def shuffled(seed: int, deck: Sequence[Fault]) -> Plan:
    """Return the plan that deals `deck` in a random order, again and again.

    A deck rather than dice: every stretch of the length of the deck has its share of each fault.
    """

    def deal(number: int) -> Fault:
        deal_number, card = divmod(number, len(deck))
        order = random.Random(f"{seed}/{deal_number}").sample(range(len(deck)), len(deck))
        return deck[order[card]]

    return deal
