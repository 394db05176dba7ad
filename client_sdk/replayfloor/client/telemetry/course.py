"""What the events of one call have told, so that an operation is counted once. Pure.

An outer retry loop calls again and again for an operation that is over, and every such call ends
as the first one did.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from replayfloor.client.events import (
    AttemptStarted,
    DeadlineFence,
    Ending,
    Event,
    OperationEnded,
)
from replayfloor.core.outcome import Outcome, executed_nothing

ANSWERED: Final = frozenset({Ending.RETURNED, Ending.KEPT})
"""Endings of a call that has an answer for its caller."""

_TERMINAL: Final = frozenset({Ending.RETURNED, Ending.NOT_EXECUTED, Ending.UNKNOWN})
"""Endings that may be the operation's own. The others say that it was over before, that this call
was refused, or that it goes on."""


@dataclass(slots=True)
class Course:
    """One call. `acted`: it sent something, or it was the one that met the send deadline. `over`:
    another call had the operation's answer before this one sent, or sent again."""

    last: Event | None = None
    acted: bool = False
    over: bool = False

    def take(self, event: Event) -> None:
        """Take note of an event."""
        if isinstance(event, AttemptStarted | DeadlineFence):
            self.over = event.outcome is Outcome.DEFINITIVE
            self.acted = True
        self.last = event

    @property
    def ended(self) -> OperationEnded | None:
        """The end of the call, once it was told."""
        return self.last if isinstance(self.last, OperationEnded) else None


def concludes(ended: OperationEnded, course: Course | None) -> bool:
    """Return whether the operation, and not only a call of it, ends with this event.

    Without a course every end that may be one is taken for one.
    """
    here = course is None or (course.acted and not course.over)
    return here and ended.ending in _TERMINAL


def stays_unknown(ended: OperationEnded) -> bool:
    """Return whether nobody knows whether the operation was executed, and no attempt will tell."""
    return ended.ending is Ending.UNKNOWN and not executed_nothing(ended.outcome)


def error_type(ended: OperationEnded) -> str | None:
    """Return what kind of failure the end is, None if it is none; of few values."""
    if ended.ending not in ANSWERED:
        return ended.ending.value
    return str(ended.status) if ended.status is not None and ended.status >= 400 else None
