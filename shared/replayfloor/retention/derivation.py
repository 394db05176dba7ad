"""The formula: how long receipts have to be kept, and which figure decides it. Arithmetic only.

    floor = max(client retry budget, broker redelivery, automatic retry, manual resend)
            + reconciliation cadence + planned outage + safety margin

The maximum is over all senders of a handler: one receipt store answers to the most patient one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replayfloor.retention.durations import common_unit, exact_us, format_duration, seconds, to_us
from replayfloor.retention.errors import HorizonUnknown, PolicyError
from replayfloor.retention.parties import Sender
from replayfloor.retention.terms import UNKNOWN, Term, TermKind


@dataclass(frozen=True, slots=True)
class Horizon:
    """One answer to the question how late a legitimate retry can arrive.

    `sender` is None for a figure of the policy itself.
    """

    term: Term
    sender: Sender | None = None

    @property
    def label(self) -> str:
        """What it is, for people."""
        words = self.term.name.words
        return words if self.sender is None else f"{self.sender.name}: {words}"

    @property
    def seconds(self) -> float:
        """Its length; raises HorizonUnknown."""
        if self.term.seconds is None:
            raise refuse_unknown("this horizon", (self,))
        return self.term.seconds


@dataclass(frozen=True, slots=True)
class Derivation:
    """A floor, and how it came about.

    `horizons` are all candidates for the maximum and `driver` the longest of them; `additions` are
    the terms that were added to it, in the order of the formula.
    """

    floor_s: float
    driver: Horizon
    horizons: tuple[Horizon, ...]
    additions: tuple[Term, ...]

    @property
    def formula(self) -> str:
        """The computation in figures: "max(4 h, 0) + 1 h + 20 h = 24 h"."""
        candidates = [horizon.seconds for horizon in self.horizons]
        added = [addition.seconds or 0.0 for addition in self.additions]
        unit = common_unit([*added, self.floor_s])
        fits = common_unit([*candidates, *added, self.floor_s]) is unit
        shown = unit if fits else common_unit(candidates)
        texts = ["0" if each == 0 else format_duration(each, shown) for each in candidates]
        first = texts[0] if len(texts) == 1 else f"max({', '.join(texts)})"
        if len(texts) == 1 and not added:
            return first
        rest = "".join(f" + {format_duration(each, unit)}" for each in added)
        return f"{first}{rest} = {format_duration(self.floor_s, unit)}"


_ORDER = list(TermKind)


def _rank(horizon: Horizon) -> tuple[int, int, str]:
    # Of two equally long ones the driver must not depend on the order in which senders are named.
    name = "" if horizon.sender is None else horizon.sender.name
    return exact_us(horizon.seconds), -_ORDER.index(horizon.term.name), name


def derive(policy: str, horizons: Sequence[Horizon], additions: Sequence[Term]) -> Derivation:
    """Return the floor of a policy, whose name is for messages.

    Raises HorizonUnknown if a figure is unknown, however long the others are: it may be longer.
    Raises PolicyError if there is no horizon, or none that is more than zero.
    """
    unknown = [each for each in horizons if each.term.seconds is None]
    unknown += [Horizon(term) for term in additions if term.seconds is None]
    if unknown:
        raise refuse_unknown(policy, unknown)
    driver = max(horizons, key=_rank, default=None)
    if driver is None or driver.seconds == 0:
        raise PolicyError(
            f"{policy}: no horizon is longer than zero, so nothing would ever be retried",
            advice="state whose retries it has to outlive: client_retry_budget, broker_redelivery "
            "or senders",
        )
    floor_us = exact_us(driver.seconds) + sum(term.us or 0 for term in additions)
    to_us(floor_us, f"{policy}: the floor")
    return Derivation(seconds(floor_us), driver, tuple(horizons), tuple(additions))


def refuse_unknown(policy: str, horizons: Sequence[Horizon]) -> HorizonUnknown:
    """Return the error that asks the user to choose."""
    named = "; ".join(f"{each.label} [{each.term.provenance}]" for each in horizons)
    first = horizons[0]
    whose = f"[senders.{first.sender.name}] " if first.sender else ""
    return HorizonUnknown(
        f"{policy}: {UNKNOWN}, because no source states it: {named}",
        advice=f"choose a figure that you can answer for, and say why: {whose}"
        f'{first.term.name.value} = {{ value = "…", source = "…" }}',
    )
