"""The sink that writes each event to the standard logging, with its fields beside the message."""

from __future__ import annotations

import logging
from typing import Final, assert_never

from replayfloor.client.events import (
    AttemptEnded,
    AttemptLeft,
    AttemptStarted,
    BudgetExhausted,
    ClockWentBack,
    DeadlineFence,
    Ending,
    Event,
    JournalFailed,
    OperationEnded,
    WaitStarted,
)
from replayfloor.client.telemetry.fields import plain_fields

DEFAULT_LOGGER: Final = "replayfloor.client.operations"

RECORD_ATTRIBUTE: Final = "idempotency"
"""The attribute of a record that has all fields, as a dict; each is an attribute by itself too."""

_LEVEL: Final[dict[type[Event], int]] = {
    AttemptStarted: logging.DEBUG,
    AttemptLeft: logging.DEBUG,
    AttemptEnded: logging.DEBUG,
    WaitStarted: logging.DEBUG,
    DeadlineFence: logging.WARNING,
    ClockWentBack: logging.WARNING,
    BudgetExhausted: logging.WARNING,
    JournalFailed: logging.WARNING,
}


class StructuredLog:
    """Writes one record per event: a plain message, and every field as an attribute.

    A record also has `idempotency`, a dict of the fields and of `event`, the name of the event's
    class, for formatters that take one attribute. The operation id is among them, because people
    search for it.

    Levels: ERROR for an operation that ended unknown; WARNING for what somebody should look at
    (the send deadline, a clock that went back, a journal that failed, retries that were not paid
    for, an end that is pending, unavailable or a mismatch); INFO for every other end; DEBUG for
    attempts and waits.

    Args:
        logger: where to; default the logger `replayfloor.client.operations`.
    """

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logging.getLogger(DEFAULT_LOGGER) if logger is None else logger

    def __call__(self, event: Event) -> None:
        """Write a record, if the logger wants one of its level."""
        level = level_of(event)
        if not self._logger.isEnabledFor(level):
            return
        fields = plain_fields(event)
        extra = fields | {RECORD_ATTRIBUTE: fields | {"event": type(event).__name__}}
        place = (event.provider, event.method, event.operation_id)
        self._logger.log(level, "%s %s %r: %s", *place, say(event), extra=extra)


def level_of(event: Event) -> int:
    """Return the level of an event's record."""
    if isinstance(event, OperationEnded):
        return _level_of_end(event.ending)
    return _LEVEL.get(type(event), logging.INFO)


def _level_of_end(ending: Ending) -> int:
    match ending:
        case Ending.UNKNOWN:
            return logging.ERROR
        case Ending.PENDING | Ending.JOURNAL_UNAVAILABLE | Ending.MISMATCH:
            return logging.WARNING
        case Ending.RETURNED | Ending.KEPT | Ending.NOT_EXECUTED | Ending.CLOSED:
            return logging.INFO
        case _:
            assert_never(ending)


def say(event: Event) -> str:
    """Return an event as a sentence, without the operation that it is about."""
    since = f"{event.elapsed_s:.1f} s after the first"
    match event:
        case AttemptStarted():
            return f"attempt {event.attempt} starts, {since}"
        case AttemptLeft():
            return f"attempt {event.attempt} leaves, {since}"
        case AttemptEnded():
            known = event.outcome.label
            return f"attempt {event.attempt} took {event.took_s:.3f} s: {event.evidence}; {known}"
        case WaitStarted():
            return f"waits for {event.wait_s:.1f} s ({event.reason.value})"
        case DeadlineFence():
            return f"the send deadline has passed, nothing is sent any more, {since}"
        case ClockWentBack():
            return f"the wall clock is {event.behind_s:.1f} s behind, nothing is sent"
        case BudgetExhausted():
            return f"no further attempt: too many at {event.origin} have failed"
        case JournalFailed():
            return f"the journal failed: {event.evidence}"
        case OperationEnded():
            attempts = f"{event.attempt} attempt(s) in {event.elapsed_s:.1f} s"
            return f"ended {event.ending.value} after {attempts}; {event.outcome.label}"
        case _:
            return type(event).__name__
