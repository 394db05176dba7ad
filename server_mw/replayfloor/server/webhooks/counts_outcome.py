"""What an event tells of one delivery. Pure; nothing is counted here."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from replayfloor.core.problem import ProblemKind
from replayfloor.server.events import EventKind, ServerEvent

OTHER_PROBLEM: Final = "other"
"""Stands for a refusal that is no ProblemKind."""


class DeliveryOutcome(StrEnum):
    """What became of a delivery of one event.

    FIRST: it was handed to the application. FAILED follows a FIRST: its key was freed, and the
    sender is to deliver it again. Each delivery has exactly one of the others.
    """

    FIRST = "first"
    DUPLICATE = "duplicate"
    IN_FLIGHT = "in-flight"
    PAST_HORIZON = "past-horizon"
    REFUSED = "refused"
    FAILED = "failed"


def outcome_of(event: ServerEvent) -> DeliveryOutcome | None:
    """Return what an event tells of a delivery; None if it tells of something else."""
    match event.kind:
        case EventKind.CLAIMED | EventKind.TAKEN_OVER | EventKind.EXECUTED_OPENLY:
            return DeliveryOutcome.FIRST
        case EventKind.REPLAYED:
            return DeliveryOutcome.DUPLICATE
        case EventKind.REFUSED if event.detail == ProblemKind.IN_FLIGHT:
            return DeliveryOutcome.IN_FLIGHT
        case EventKind.REFUSED:
            return DeliveryOutcome.REFUSED
        case EventKind.PAST_HORIZON:
            return DeliveryOutcome.PAST_HORIZON
        case EventKind.FREED:
            return DeliveryOutcome.FAILED
        case _:
            return None


def problem_of(event: ServerEvent) -> str:
    """Return which refusal an event tells of, of few values."""
    return event.detail if event.detail in _PROBLEMS else OTHER_PROBLEM


_PROBLEMS: Final = frozenset(kind.value for kind in ProblemKind)
