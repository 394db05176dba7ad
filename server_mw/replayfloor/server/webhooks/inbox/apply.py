"""What becomes of one event that a worker has taken: applied, due again later, or dead. Pure.

What makes an event be applied once is not here but in the inbox: every way to settle it is fenced.
What is decided here is what may be run again. In an atomic route everything may: either the
handler's writes and the removal of the event are there, or neither. In an external one an execution
that was cut off has done nobody knows what, so the event goes to the dead letters unhandled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, assert_never

from replayfloor.core.claims import Begin, Rollback
from replayfloor.core.effects import Effect, Flow
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.fingerprint import Fingerprint
from replayfloor.server.effects import Emit, Pause
from replayfloor.server.events import EventKind, ServerEvent
from replayfloor.server.flow.values import Admitted, Delivered, told
from replayfloor.server.policy import Effects
from replayfloor.server.webhooks.delivery import Event
from replayfloor.server.webhooks.inbox.backoff import ATTEMPTS_MAX, FIRST_S, LONGEST_S, pause_ms
from replayfloor.server.webhooks.inbox.effects import (
    Bury,
    CommitDone,
    CutOff,
    Done,
    Draw,
    Hand,
    Handed,
    Handling,
    Later,
    Prepare,
    Rest,
)
from replayfloor.server.webhooks.inbox.values import Taken

AGAIN_MS: Final = 50
"""When an event is due again whose transaction could not be opened: at the next look."""

STORE_TRIES: Final = 6
STORE_PAUSE_MS: Final = 200
"""How often, and after which pause (doubled each time), an event that was applied is settled while
the database does not answer: six seconds in all, what a restart of it takes. After that the lease
runs out, and in an external route a person has to find out what is known here."""

APPLIED: Final = EventKind.FINISHED
PUT_OFF: Final = EventKind.FREED
DEAD: Final = EventKind.LEFT_ORPHANED
"""What becomes of an event, among what becomes of keys."""

OUTCOME_UNKNOWN: Final = "outcome-unknown: its worker died or was stopped in the middle"
WORKERS_DIED: Final = "its workers died, or lost their lease"
DEAD_LETTER: Final = "dead letter"
NO_ROUTE: Final = "no route with ack=first receives it any more"
NOT_COMMITTED: Final = "the transaction of claim.finish_in was not committed"

NO_FINGERPRINT: Final = Fingerprint(b"")
"""Of a claim whose key was compared when the event was acknowledged."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How events are applied.

    Attributes:
        lease_ms: how soon a dead worker is noticed.
        poll_ms: how often the inbox is looked into while it is empty and nobody wakes the worker.
        attempts_max, first_s, longest_s: see `backoff`.
    """

    lease_ms: int
    poll_ms: int
    attempts_max: int = ATTEMPTS_MAX
    first_s: float = FIRST_S
    longest_s: float = LONGEST_S


def apply(taken: Taken, limits: Limits) -> Flow[None]:
    """Hand one event to the application, and settle it: applied, due again later, or dead."""
    event = _Event(taken, limits)
    try:
        handling = yield from Prepare(taken)
    except GeneratorExit:
        raise
    except Exception as error:  # noqa: BLE001 - whatever is wrong with what is stored
        yield from event.failed(type(error).__name__)
        return
    if handling is None:
        yield from event.failed(NO_ROUTE)
    elif taken.taken_over and handling.effects is Effects.EXTERNAL:
        yield from event.bury(OUTCOME_UNKNOWN)
    elif taken.attempts > limits.attempts_max:
        # The last attempts have all ended without a word: else it would be dead already.
        yield from event.bury(WORKERS_DIED)
    else:
        if taken.taken_over:
            yield from event.tell(EventKind.TAKEN_OVER)
        yield from event.hand(handling)
        yield from Rest()


class _Event:
    """The steps of one execution."""

    def __init__(self, taken: Taken, limits: Limits) -> None:
        self._taken, self._limits = taken, limits
        self._id, self._fence = taken.id, taken.fence
        self._admitted = admitted_of(taken)

    def hand(self, handling: Handling) -> Flow[None]:
        atomic = handling.effects is Effects.ATOMIC
        if atomic and not (yield from self._begin()):
            return
        try:
            answer = yield from Hand(self._admitted, handling)
        except GeneratorExit:
            raise
        except Exception as error:  # noqa: BLE001 - whatever an application raises
            answer = Handed(0, failure=type(error).__name__)
        except BaseException:
            # The worker itself is being cancelled: the lease does the rest.
            if atomic:
                yield from Rollback()
            raise
        if isinstance(answer, Handed) and answer.succeeded and not answer.recorded:
            yield from self._succeed(answer, atomic=atomic)
            return
        if atomic:
            yield from Rollback()
        match answer:
            case CutOff():
                yield from self._cut_off(handling.effects)
            case Handed(recorded=True):
                yield from self._recorded(answer)
            case Handed(status, failure):
                yield from self.failed(_words(status, failure))
            case _:
                assert_never(answer)

    def _begin(self) -> Flow[bool]:
        """Open the transaction; if that fails, nothing has been done, and it is no attempt."""
        try:
            yield from Begin(self._id)
        except StoreUnavailable as error:
            yield from self.tell(EventKind.STORE_UNAVAILABLE, str(error))
            yield from self._settle(Later(self._id, self._fence, AGAIN_MS, counts=False))
            return False
        return True

    def _succeed(self, answer: Handed, *, atomic: bool) -> Flow[None]:
        if atomic:
            try:
                settled: bool | None = yield from CommitDone(self._id, self._fence)
            except GeneratorExit:
                raise
            except StoreUnavailable as error:
                # Committed or not, the event says so itself: it is gone, or will be taken over.
                yield from self.tell(EventKind.STORE_UNAVAILABLE, str(error))
                return
            except Exception as error:  # noqa: BLE001 - such as a constraint that is deferred
                yield from self.failed(_words(answer.status, type(error).__name__))
                return
        else:
            settled = yield from self._settle(Done(self._id, self._fence))
        if settled:
            yield from self.tell(APPLIED, str(answer.status))
        elif settled is False:
            yield from self.tell(EventKind.LEASE_LOST)

    def _recorded(self, answer: Handed) -> Flow[None]:
        """Settle an event that the handler has removed in a transaction of its own.

        If that was committed, the event is gone, and there is nothing to be put off.
        """
        if not answer.succeeded:
            yield from self.failed(_words(answer.status, answer.failure), gone=True)
        else:
            yield from self.failed(NOT_COMMITTED, gone=True)

    def _cut_off(self, effects: Effects) -> Flow[None]:
        """Give the event back, if what was done of it can be undone or done again."""
        if effects is Effects.EXTERNAL:
            yield from self.bury(OUTCOME_UNKNOWN)
            return
        if (yield from self._settle(Later(self._id, self._fence, 0, counts=False))):
            yield from self.tell(PUT_OFF, "the worker was stopped; it is due at once")

    def failed(self, error: str, *, gone: bool = False) -> Flow[None]:
        """Put the event off, or bury it after its last attempt.

        `gone`: if it is not there any more, it was applied.
        """
        attempts = self._taken.attempts
        if attempts >= self._limits.attempts_max:
            yield from self.bury(error, gone=gone)
            return
        chance = yield from Draw()
        limits = self._limits
        after_ms = pause_ms(attempts, chance, limits.first_s, limits.longest_s)
        put_off = yield from self._settle(Later(self._id, self._fence, after_ms, error))
        if put_off:
            detail = f"{error}; attempt {attempts}, the next in {after_ms / 1000:.1f} s"
            yield from self.tell(PUT_OFF, detail)
        elif put_off is False:
            yield from self.tell(APPLIED if gone else EventKind.LEASE_LOST)

    def bury(self, error: str, *, gone: bool = False) -> Flow[None]:
        """Move the event to the dead letters."""
        buried = yield from self._settle(Bury(self._id, self._fence, error))
        if buried:
            detail = f"{DEAD_LETTER}: {error}; attempt {self._taken.attempts}"
            yield from self.tell(DEAD, detail)
        elif buried is False:
            yield from self.tell(APPLIED if gone else EventKind.LEASE_LOST)

    def _settle(self, effect: Effect[bool]) -> Flow[bool | None]:
        """Ask until the database answers, for some seconds; None if it did not.

        None, too, if the event was not the fence's when it was asked again: then the answer that
        was lost may have been that it was settled, and nobody knows of another worker.
        """
        wait_ms = STORE_PAUSE_MS
        for tried in range(STORE_TRIES):
            try:
                settled = yield from effect
            except StoreUnavailable as error:
                if not tried:
                    yield from self.tell(EventKind.STORE_UNAVAILABLE, str(error))
                if tried + 1 < STORE_TRIES:
                    yield from Pause(wait_ms)
                wait_ms *= 2
            else:
                return settled if settled or not tried else None
        return None

    def tell(self, kind: EventKind, detail: str = "") -> Flow[None]:
        """Tell of something that happened to this event."""
        yield from tell_of(self._admitted, kind, detail)


def admitted_of(taken: Taken) -> Admitted:
    """Return the claim that the application is shown: that of the acknowledgement, by its id."""
    event = Event(taken.event_id, taken.occurred_ms, subject=taken.subject)
    return Admitted(
        id=taken.id,
        fingerprint=NO_FINGERPRINT,
        fence=taken.fence,
        taken_over=taken.taken_over,
        age_ms=taken.age_ms,
        past_horizon=taken.past_horizon,
        delivered=Delivered(taken.source, event),
    )


def tell_of(admitted: Admitted | None, kind: EventKind, detail: str) -> Flow[None]:
    """Tell of something that happened to an event, or (None) to the inbox."""
    event = ServerEvent(kind, "", detail) if admitted is None else told(admitted, kind, detail)
    yield from Emit(event)


def _words(status: int, failure: str) -> str:
    """Say what went wrong, and nothing of the event: a message may repeat what it holds."""
    if not status:
        return failure
    return f"status {status} after {failure}" if failure else f"status {status}"
