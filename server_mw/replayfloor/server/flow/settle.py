"""What becomes of an execution: a receipt, a freed key, or an orphan. Pure.

Every path ends in exactly one of the three, and gives the lock back.
"""

from __future__ import annotations

from typing import TypeVar

from replayfloor.core.claims import (
    Abandon,
    Claim,
    Claimed,
    Commit,
    Finish,
    Finished,
    Release,
    Rollback,
)
from replayfloor.core.effects import Effect, Flow
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.problem import HANDLER_FAILED, commit_unknown, in_flight, store_unavailable
from replayfloor.core.receipt import Receipt, keep
from replayfloor.server.effects import Captured
from replayfloor.server.events import EventKind
from replayfloor.server.flow.values import (
    STORE_RETRY_AFTER_S,
    Admitted,
    Answer,
    Answered,
    Refused,
    event,
)
from replayfloor.server.policy import (
    Disposition,
    Effects,
    Options,
    ambiguous_disposition,
    disposition,
)

T = TypeVar("T")


class Interruption:
    """A cancellation that came while an execution was settled. It waits until that is done.

    The handler has ended, so there is something to be recorded, whoever lost patience meanwhile.
    A driver shields what follows a failure; so the effect that was interrupted, which may or may
    not have been performed, is simply asked for again: each of them can be repeated.
    """

    __slots__ = ("error",)

    def __init__(self) -> None:
        """Nothing has come yet."""
        self.error: BaseException | None = None

    def insist(self, effect: Effect[T]) -> Flow[T]:
        """Ask for an effect, and ask again if a cancellation got in between."""
        try:
            return (yield from effect)
        except (GeneratorExit, Exception):
            raise
        except BaseException as error:  # noqa: BLE001 - raised when everything is settled
            self.error = error
        return (yield from effect)

    def resume(self) -> None:
        """Let the cancellation take its course."""
        if self.error is not None:
            raise self.error


def settle(admitted: Admitted, captured: Captured, options: Options) -> Flow[Answer]:
    """Store the handler's answer or free the key, and say what to answer.

    The answer may only be sent after this returned: an answer that was sent is a promise that
    the same answer will be replayed.
    """
    interruption = Interruption()
    answer = yield from _settle(admitted, captured, options, interruption)
    interruption.resume()
    return answer


def fail(admitted: Admitted, options: Options, error: BaseException) -> Flow[None]:
    """Record that the handler raised, was cancelled, or ended without an answer.

    An exception of an EXTERNAL handler is an answer of sorts: stored as a 500, so that a retry is
    told. A cancellation is not: the handler was stopped at a place nobody knows, and the claim is
    left to become an orphan, which is reported as unknown and can be reconciled.
    """
    interruption = Interruption()
    if ambiguous_disposition(options) is Disposition.FREE:
        yield from _free(admitted, options, type(error).__name__, interruption)
    elif isinstance(error, Exception):
        receipt = keep(admitted.fingerprint, HANDLER_FAILED.to_response(options.documentation))
        yield from _finish(admitted, receipt, options, interruption)
    else:
        yield from event(admitted, EventKind.LEFT_ORPHANED, type(error).__name__)
        yield from interruption.insist(Release(admitted.id, admitted.fence))
    interruption.resume()


def _settle(
    admitted: Admitted, captured: Captured, options: Options, interruption: Interruption
) -> Flow[Answer]:
    status = captured.response.status
    if disposition(status, options) is Disposition.FREE:
        yield from _free(admitted, options, str(status), interruption)
        return Answered(captured)
    receipt = keep(admitted.fingerprint, captured.response, tombstone=not captured.complete)
    if options.effects is Effects.ATOMIC:
        refused = yield from _commit(admitted, receipt, options, interruption)
        return refused or Answered(captured)
    yield from _finish(admitted, receipt, options, interruption)
    return Answered(captured)


def _commit(
    admitted: Admitted, receipt: Receipt, options: Options, interruption: Interruption
) -> Flow[Refused | None]:
    """Commit the handler's writes with the receipt; return a refusal if they were not."""
    try:
        committed = yield from Commit(Finish(admitted.id, admitted.fence, receipt))
    except GeneratorExit:
        raise
    except StoreUnavailable as error:
        yield from event(admitted, EventKind.STORE_UNAVAILABLE, str(error))
        if error.performed is False:
            yield from _free(admitted, options, "not-committed", interruption)
            return Refused(store_unavailable(STORE_RETRY_AFTER_S))
        refused = yield from _find_out(admitted, receipt, options, interruption)
        if refused is not None:
            yield from interruption.insist(Release(admitted.id, admitted.fence))
            return refused
        committed = True
    except BaseException as error:
        yield from _free(admitted, options, type(error).__name__, interruption)
        raise
    if not committed:
        yield from event(admitted, EventKind.LEASE_LOST)
        yield from interruption.insist(Release(admitted.id, admitted.fence))
        return Refused(in_flight(left_ms=0))
    yield from event(admitted, EventKind.FINISHED, str(receipt.response.status))
    release = Release(admitted.id, admitted.fence, receipt, options.cache_ms)
    yield from interruption.insist(release)
    return None


def _find_out(
    admitted: Admitted, receipt: Receipt, options: Options, interruption: Interruption
) -> Flow[Refused | None]:
    """Find out what became of a commit whose answer was lost; return None if it happened.

    Abandoning is right whatever became of it: it is fenced, so after a commit it finds no claim,
    and while the commit is still under way the database makes it wait for the result.
    """
    yield from interruption.insist(Rollback())
    try:
        if (yield from interruption.insist(Abandon(admitted.id, admitted.fence))):
            yield from event(admitted, EventKind.FREED, "not-committed")
            return Refused(store_unavailable(STORE_RETRY_AFTER_S))
        look = Claim(admitted.id, admitted.fingerprint, admitted.fence, options.lease_ms)
        found = yield from interruption.insist(look)
        if isinstance(found, Claimed):
            # Neither claim nor receipt was there: it was settled by other hands, and is free.
            yield from interruption.insist(Abandon(admitted.id, admitted.fence))
    except StoreUnavailable as error:
        yield from event(admitted, EventKind.STORE_UNAVAILABLE, str(error))
        return Refused(commit_unknown(STORE_RETRY_AFTER_S))
    if found == Finished(receipt):
        return None
    yield from event(admitted, EventKind.LEASE_LOST)
    return Refused(in_flight(left_ms=0))


def _finish(
    admitted: Admitted, receipt: Receipt, options: Options, interruption: Interruption
) -> Flow[None]:
    """Store the receipt of an effect that happened, and tell what became of it.

    The answer goes out even if the store is gone: it is the truth, and nothing is won by hiding
    it. The claim then stays, becomes an orphan, and a retry is told that the outcome is unknown.
    """
    finish = Finish(admitted.id, admitted.fence, receipt)
    try:
        outcome = yield from _stored(finish, interruption)
    except GeneratorExit:
        raise
    except BaseException:
        yield from interruption.insist(Release(admitted.id, admitted.fence))
        raise
    yield from event(admitted, outcome, str(receipt.response.status))
    kept = receipt if outcome is EventKind.FINISHED else None
    yield from interruption.insist(Release(admitted.id, admitted.fence, kept, options.cache_ms))


def _stored(finish: Finish, interruption: Interruption) -> Flow[EventKind]:
    """Finish, twice if need be.

    If the claim is gone at the second try, the first had ended it and only its answer was lost:
    nobody takes over the claim of an EXTERNAL handler.
    """
    try:
        stored = yield from interruption.insist(finish)
        unsure = interruption.error is not None
    except StoreUnavailable:
        try:
            stored = yield from interruption.insist(finish)
        except StoreUnavailable:
            return EventKind.RECEIPT_LOST
        unsure = True
    return EventKind.FINISHED if stored or unsure else EventKind.LEASE_LOST


def _free(admitted: Admitted, options: Options, why: str, interruption: Interruption) -> Flow[None]:
    if options.effects is Effects.ATOMIC:
        yield from interruption.insist(Rollback())
    try:
        if (yield from interruption.insist(Abandon(admitted.id, admitted.fence))):
            yield from event(admitted, EventKind.FREED, why)
    except StoreUnavailable as error:
        # The lease ends it; until then, and in EXTERNAL after it, a retry is refused.
        yield from event(admitted, EventKind.STORE_UNAVAILABLE, str(error))
    yield from interruption.insist(Release(admitted.id, admitted.fence))
