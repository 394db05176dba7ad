"""What becomes of an execution: a receipt, a freed key, or an orphan. Pure.

Every path ends in exactly one of the three, and gives the lock back.
"""

from __future__ import annotations

from typing import Final

from replayfloor.core.claims import Abandon, Commit, Finish, Finished, Release, Rollback
from replayfloor.core.effects import Flow
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.problem import HANDLER_FAILED, commit_unknown, in_flight, store_unavailable
from replayfloor.core.receipt import Receipt, keep
from replayfloor.server.effects import Captured
from replayfloor.server.events import EventKind
from replayfloor.server.flow.insist import Interruption, announce, give_way, look
from replayfloor.server.flow.recorded import look_up, look_up_failed
from replayfloor.server.flow.values import (
    STORE_RETRY_AFTER_S,
    Admitted,
    Answer,
    Answered,
    Refused,
    as_understood,
    event,
)
from replayfloor.server.policy import (
    Disposition,
    Effects,
    Options,
    ambiguous_disposition,
    disposition,
)

# Looked up once: Python 3.11 takes a detour for a member of an enumeration.
_ATOMIC: Final = Effects.ATOMIC
_FREE: Final = Disposition.FREE
_FINISHED: Final = EventKind.FINISHED


def settle(admitted: Admitted, captured: Captured, options: Options) -> Flow[Answer]:
    """Store the handler's answer or free the key, and say what to answer.

    The answer may only be sent after this returned: an answer that was sent is a promise that
    the same answer will be replayed.
    """
    interruption = Interruption()
    answer = None
    if captured.recorded is not None:
        answer = yield from look_up(admitted, captured, captured.recorded, options, interruption)
    if answer is None:
        answer = yield from _settle(admitted, captured, options, interruption)
    interruption.resume()
    return as_understood(answer, options) if isinstance(answer, Refused) else answer


def fail(
    admitted: Admitted,
    options: Options,
    error: BaseException,
    recorded: Receipt | None = None,
) -> Flow[None]:
    """Record that the handler raised, was cancelled, or ended without an answer.

    An exception of a handler that cannot be rolled back is an answer of sorts: stored as a 500, so
    that a retry is told. A cancellation is not: the handler was stopped at a place nobody knows.
    An EXTERNAL claim is then left to become an orphan, which is reported as unknown and can be
    reconciled; a REPEATABLE one is freed, since it would be executed again in any case.
    """
    interruption = Interruption()
    known = False
    if recorded is not None:
        known = yield from look_up_failed(admitted, recorded, options, interruption)
    if not known:
        yield from _fail(admitted, options, error, interruption)
    interruption.resume()


def _fail(
    admitted: Admitted, options: Options, error: BaseException, interruption: Interruption
) -> Flow[None]:
    cancelled = not isinstance(error, Exception)
    harmless = cancelled and options.effects is Effects.REPEATABLE
    # What is sent until it succeeds is executed again after a failure, which the handler has told,
    # but not after it was stopped where nobody knows.
    stopped = cancelled and options.until_success and options.effects is Effects.EXTERNAL
    if harmless or (ambiguous_disposition(options) is Disposition.FREE and not stopped):
        yield from _free(admitted, options, type(error).__name__, interruption)
    elif cancelled:
        yield from event(admitted, EventKind.LEFT_ORPHANED, type(error).__name__)
        yield from interruption.insist(Release(admitted.id, admitted.fence))
    else:
        response = HANDLER_FAILED.to_response(options.documentation)
        yield from _finish(admitted, keep(admitted.fingerprint, response), options, interruption)


def _settle(
    admitted: Admitted, captured: Captured, options: Options, interruption: Interruption
) -> Flow[Answer]:
    status = captured.response.status
    if disposition(status, options) is _FREE:
        yield from _free(admitted, options, str(status), interruption)
        return Answered(captured)
    receipt = keep(
        admitted.fingerprint,
        captured.response,
        tombstone=not captured.complete,
        sensitive=options.sensitive,
    )
    if options.effects is _ATOMIC:
        refused = yield from _commit(admitted, receipt, options, interruption)
    else:
        refused = yield from _finish(admitted, receipt, options, interruption)
    return refused or Answered(captured)


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
        return (yield from give_way(admitted, interruption))
    yield from announce(admitted, receipt, options, interruption)
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
        found = yield from look(admitted, options, interruption)
    except StoreUnavailable as error:
        yield from event(admitted, EventKind.STORE_UNAVAILABLE, str(error))
        return Refused(commit_unknown(STORE_RETRY_AFTER_S))
    if found == Finished(receipt):
        return None
    yield from event(admitted, EventKind.LEASE_LOST)
    return Refused(in_flight(left_ms=0))


def _finish(
    admitted: Admitted, receipt: Receipt, options: Options, interruption: Interruption
) -> Flow[Refused | None]:
    """Store the receipt of an effect that happened; return a refusal if it is another's by now.

    The answer goes out even if the store is gone: it is the truth, and nothing is won by hiding
    it. The claim then stays and becomes an orphan. The same holds for an EXTERNAL claim that was
    settled by a reconciler meanwhile. A REPEATABLE one has been taken over, or will be when its
    lease ends: its new owner's answer is the one that is replayed, and it may be another one, so
    the sender is asked to come back for that.
    """
    finish = Finish(admitted.id, admitted.fence, receipt)
    try:
        outcome = yield from _stored(admitted, finish, options, interruption)
    except GeneratorExit:
        raise
    except BaseException:
        yield from interruption.insist(Release(admitted.id, admitted.fence))
        raise
    if outcome is _FINISHED:
        yield from announce(admitted, receipt, options, interruption)
        return None
    yield from event(admitted, outcome, str(receipt.response.status))
    yield from interruption.insist(Release(admitted.id, admitted.fence))
    if options.takes_over:
        return Refused(in_flight(options.lease_ms if outcome is EventKind.RECEIPT_LOST else 0))
    return None


def _stored(
    admitted: Admitted, finish: Finish, options: Options, interruption: Interruption
) -> Flow[EventKind]:
    """Finish, twice if need be.

    If the claim is gone at the second try, either the first had ended it and only its answer was
    lost, or another execution or a reconciler has taken it over. The receipt tells which.
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
    if stored:
        return _FINISHED
    if not unsure:
        return EventKind.LEASE_LOST
    try:
        found = yield from look(admitted, options, interruption)
    except StoreUnavailable:
        return EventKind.RECEIPT_LOST
    return EventKind.FINISHED if found == Finished(finish.receipt) else EventKind.LEASE_LOST


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
