"""What becomes of an execution: a receipt, a freed key, or an orphan. Pure.

Every path ends in exactly one of the three, and gives the lock back.
"""

from __future__ import annotations

from typing import Literal

from replayfloor.core.claims import Commit, Finish, Release, Rollback
from replayfloor.core.effects import Flow
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.problem import HANDLER_FAILED, in_flight, store_unavailable
from replayfloor.core.receipt import Receipt, keep
from replayfloor.server.effects import Captured
from replayfloor.server.events import EventKind
from replayfloor.server.flow.values import (
    STORE_RETRY_AFTER_S,
    Admitted,
    Answer,
    Answered,
    Refused,
    abandon,
    event,
)
from replayfloor.server.policy import (
    Disposition,
    Effects,
    Options,
    ambiguous_disposition,
    disposition,
)


def settle(admitted: Admitted, captured: Captured, options: Options) -> Flow[Answer]:
    """Store the handler's answer or free the key, and say what to answer.

    The answer may only be sent after this returned: an answer that was sent is a promise that
    the same answer will be replayed.
    """
    status = captured.response.status
    if disposition(status, options) is Disposition.FREE:
        yield from _free(admitted, options, str(status))
        return Answered(captured)
    receipt = keep(admitted.fingerprint, captured.response, tombstone=not captured.complete)
    if options.effects is Effects.ATOMIC:
        return (yield from _commit(admitted, receipt, captured, options))
    yield from _finish(admitted, receipt, options)
    return Answered(captured)


def fail(admitted: Admitted, options: Options, error: BaseException) -> Flow[None]:
    """Record that the handler raised, was cancelled, or ended without an answer.

    An exception of an EXTERNAL handler is an answer of sorts: stored as a 500, so that a retry is
    told. A cancellation is not: the handler was stopped at a place nobody knows, and the claim is
    left to become an orphan, which is reported as unknown and can be reconciled.
    """
    if ambiguous_disposition(options) is Disposition.FREE:
        yield from _free(admitted, options, type(error).__name__)
    elif isinstance(error, Exception):
        receipt = keep(admitted.fingerprint, HANDLER_FAILED.to_response())
        yield from _finish(admitted, receipt, options)
    else:
        yield from event(admitted, EventKind.LEFT_ORPHANED, type(error).__name__)
        yield from Release(admitted.id, admitted.fence)


def _commit(
    admitted: Admitted, receipt: Receipt, captured: Captured, options: Options
) -> Flow[Answer]:
    """Commit the handler's writes with the receipt.

    If the commit's answer is lost, the transaction may or may not have been committed. Abandoning
    is right in both cases: it is fenced, so after a commit it finds no claim, and while the commit
    is still under way the database makes it wait for the result.
    """
    try:
        committed = yield from Commit(Finish(admitted.id, admitted.fence, receipt))
    except GeneratorExit:
        raise
    except StoreUnavailable as error:
        yield from event(admitted, EventKind.STORE_UNAVAILABLE, str(error))
        yield from _free(admitted, options, "store-unavailable")
        return Refused(store_unavailable(STORE_RETRY_AFTER_S))
    except BaseException as error:
        yield from _free(admitted, options, type(error).__name__)
        raise
    if not committed:
        yield from event(admitted, EventKind.LEASE_LOST)
        yield from Release(admitted.id, admitted.fence)
        return Refused(in_flight(left_ms=0))
    yield from event(admitted, EventKind.FINISHED, str(receipt.response.status))
    yield from Release(admitted.id, admitted.fence, receipt, options.cache_ms)
    return Answered(captured)


def _finish(admitted: Admitted, receipt: Receipt, options: Options) -> Flow[None]:
    """Store the receipt of an effect that happened; retried once, and not undone by anything.

    The answer goes out even if the store is gone: it is the truth, and nothing is won by hiding
    it. The claim then stays, becomes an orphan, and a retry is told that the outcome is unknown.
    """
    finish = Finish(admitted.id, admitted.fence, receipt)
    stored: bool | None = None
    try:
        stored = yield from finish
    except GeneratorExit:
        raise
    except StoreUnavailable:
        stored = yield from _finish_again(finish)
    except BaseException:
        # Cancelled after the handler ended: its result is known and must not be lost.
        stored = yield from _finish_again(finish)
        yield from Release(admitted.id, admitted.fence, receipt if stored else None)
        raise
    match stored:
        case True:
            yield from event(admitted, EventKind.FINISHED, str(receipt.response.status))
        case False:
            yield from event(admitted, EventKind.LEASE_LOST)
        case None:
            yield from event(admitted, EventKind.RECEIPT_LOST)
    kept = receipt if stored else None
    yield from Release(admitted.id, admitted.fence, kept, options.cache_ms)


def _finish_again(finish: Finish) -> Flow[Literal[True] | None]:
    """Finish once more; None if the store is still gone.

    If the claim is gone by now, our first try had ended it and only its answer was lost: the
    claim of an EXTERNAL handler is never taken over.
    """
    try:
        yield from finish
    except StoreUnavailable:
        return None
    return True


def _free(admitted: Admitted, options: Options, why: str) -> Flow[None]:
    if options.effects is Effects.ATOMIC:
        yield from Rollback()
    yield from abandon(admitted)
    yield from event(admitted, EventKind.FREED, why)
    yield from Release(admitted.id, admitted.fence)
