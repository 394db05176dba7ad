"""What is derived of rows: the terms of policies, and the horizons that follow from them. Pure.

A figure becomes a term only if it is solid: the row is shipped as such or the figure is the user's
own, and it is no third party's word. Where sources disagree, the safe side counts. Everything else
becomes an unknown term, which says what is known, and a policy refuses it until somebody chooses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from replayfloor.retention.parties import Provider, Sender
from replayfloor.retention.providers import Direction, Figure, ProviderRow, providers
from replayfloor.retention.providers_text import shown
from replayfloor.retention.terms import UNKNOWN, Confidence, Term, TermKind

_NOT_SOLID: Final = frozenset({Confidence.THIRD_PARTY, Confidence.NOT_FOUND})

_INBOUND: Final = (
    ("auto_retry", TermKind.AUTOMATIC_RETRY),
    ("manual_resend", TermKind.MANUAL_RESEND),
)


@dataclass(frozen=True, slots=True)
class Horizon:
    """How long something goes on, as far as a row tells.

    `figure` is the one that decides, or None; its safe side counts. `is_lower_bound`: another one
    is unknown, so that it may be longer.
    """

    figure: Figure | None
    is_lower_bound: bool = False

    @property
    def seconds(self) -> float | None:
        """The length in seconds; None if it is not known."""
        return None if self.figure is None else self.figure.safe_s

    @property
    def text(self) -> str:
        """The length for people, or "unknown"."""
        return UNKNOWN if self.figure is None else shown(self.figure.safe)


def is_solid(row: ProviderRow, figure: Figure) -> bool:
    """Return whether a figure may be gone by without the user's word."""
    return (row.ship or figure.given) and figure.confidence not in _NOT_SOLID


def term(row: ProviderRow, figure_name: str, kind: TermKind) -> Term:
    """Return a figure of a row as a term; its length is None if it is not known, or not solid.

    Raises PolicyError if the row has no such figure.
    """
    figure = row.figure(figure_name)
    length = figure.safe_s
    if length is None or not math.isfinite(length):
        return Term(kind, None, figure.provenance)
    if not is_solid(row, figure):
        told = replace(
            figure.provenance,
            note=f"{shown(figure.value)} is said, which is not solid enough to go by; "
            f"{figure.provenance.note}".rstrip("; "),
        )
        return Term(kind, None, told)
    return Term(kind, length, figure.provenance)


def sender(row: ProviderRow) -> Sender:
    """Return a row of webhooks, or of a broker, as a sender; raises PolicyError for another."""
    if row.direction is Direction.BROKER:
        horizon = term(row, "horizon", TermKind.BROKER_REDELIVERY)
        return Sender(row.name, broker_redelivery=horizon)
    automatic, manual = (term(row, name, kind) for name, kind in _INBOUND)
    return Sender(row.name, automatic_retry=automatic, manual_resend=manual)


def provider(row: ProviderRow) -> Provider:
    """Return a row of keys as a provider; raises PolicyError for another."""
    return Provider(row.name, key_retention=term(row, "retention", TermKind.KEY_RETENTION))


def keep_at_least(row: ProviderRow) -> Horizon:
    """Return how long a receiver of a row's webhooks, or messages, has to keep what it has seen."""
    names = [name for name, _ in _INBOUND] if row.direction is Direction.INBOUND else ["horizon"]
    figures = [row.figure(name) for name in names]
    known = [figure for figure in figures if figure.safe_s is not None]
    longest = max(known, key=lambda figure: figure.safe_s or 0.0, default=None)
    return Horizon(longest, is_lower_bound=len(known) < len(figures))


def rely_on(row: ProviderRow) -> Horizon:
    """Return how long a sender may rely on a key, by what is solid."""
    is_known = term(row, "retention", TermKind.KEY_RETENTION).seconds is not None
    return Horizon(row.figure("retention") if is_known else None)


class RowCatalogue:
    """Rows, as a policy file looks them up (`replayfloor.retention.lookup.Catalogue`)."""

    def __init__(self, rows: Iterable[ProviderRow]) -> None:
        """Take the rows: those that are shipped, and those of the user."""
        every = tuple(rows)
        self._providers = {row.name: row for row in providers(Direction.OUTBOUND, rows=every)}
        # Inbound comes last, and so wins where a broker has the name of a sender.
        self._senders = {
            row.name: row
            for direction in (Direction.BROKER, Direction.INBOUND)
            for row in providers(direction, rows=every)
        }

    def sender(self, name: str) -> Sender | None:
        """Return who delivers to us under that name; None if it is not listed."""
        row = self._senders.get(name)
        return None if row is None else sender(row)

    def provider(self, name: str) -> Provider | None:
        """Return who takes our requests under that name; None if it is not listed."""
        row = self._providers.get(name)
        return None if row is None else provider(row)

    def sender_names(self) -> tuple[str, ...]:
        """Return the names that `sender` knows."""
        return tuple(sorted(self._senders))

    def provider_names(self) -> tuple[str, ...]:
        """Return the names that `provider` knows."""
        return tuple(sorted(self._providers))
