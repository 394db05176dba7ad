"""Keeps count of what the sender tells. What the ledger says is not known here, on purpose."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass

from messages import Kind, Message

CONFLICT = 409


@dataclass(frozen=True, slots=True)
class Tail:
    """Seconds from a payment's first attempt to the end of an attempt, over all attempts."""

    p50_s: float
    p90_s: float
    p99_s: float
    max_s: float


def tail(elapsed_s: Sequence[float]) -> Tail:
    """Return the percentiles by nearest rank: each is a value that was measured."""
    ordered = sorted(elapsed_s) or [0.0]

    def rank(share: float) -> float:
        return ordered[math.ceil(share * len(ordered)) - 1]

    return Tail(rank(0.50), rank(0.90), rank(0.99), ordered[-1])


class Tally:
    """The state of all payments, as far as the sender has told."""

    def __init__(self, payment_ids: Sequence[str]) -> None:
        self.total = len(payment_ids)
        self.answered: dict[str, Message] = {}
        self.failed: dict[str, str] = {}
        self.attempts = 0
        self.conflicts = 0
        self.elapsed_s: list[float] = []
        self._ids = tuple(payment_ids)
        self._news = asyncio.Event()

    def hear(self, message: Message) -> None:
        """Take in one message of the sender."""
        match message.kind:
            case Kind.STARTED:
                self.attempts += 1
            case Kind.ENDED:
                self.elapsed_s.append(message.elapsed_s)
                self.conflicts += message.status == CONFLICT
            case Kind.ANSWERED:
                self.answered.setdefault(message.payment_id, message)
                self.failed.pop(message.payment_id, None)
            case Kind.FAILED:
                self.failed[message.payment_id] = message.reason or f"status {message.status}"
        self._news.set()

    async def news(self) -> None:
        """Wait for the next message."""
        self._news.clear()
        await self._news.wait()

    @property
    def share(self) -> float:
        """How much of the payments is answered, from 0 to 1."""
        return len(self.answered) / self.total

    @property
    def unanswered(self) -> tuple[str, ...]:
        """The payments without an answer, in the order of the file."""
        return tuple(each for each in self._ids if each not in self.answered)

    @property
    def replayed(self) -> int:
        """How many payments got the stored answer of an attempt before."""
        return sum(message.replayed for message in self.answered.values())

    @property
    def resumed(self) -> int:
        """How many payments were begun by a sender that was killed."""
        return sum(message.resumed for message in self.answered.values())
