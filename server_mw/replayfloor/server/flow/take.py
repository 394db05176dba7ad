"""Take a key for one execution, or find the answer that stands in the way. Pure.

The lock is taken first because it answers duplicates in one cheap round trip; the claim decides.
Every path that does not end in Admitted gives the lock back. What the key is made of (a header, the
event of a webhook, a message's id) was decided before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, assert_never

from replayfloor.core.claims import (
    Acquire,
    Acquired,
    Begin,
    Cached,
    Claim,
    ClaimAnswer,
    Claimed,
    Expired,
    Finish,
    Finished,
    Held,
    InFlight,
    LockAnswer,
    LockUnavailable,
    Orphaned,
    Release,
    Reuse,
    Rollback,
)
from replayfloor.core.effects import Flow
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.fingerprint import Fingerprint, differing_parts
from replayfloor.core.message import Response
from replayfloor.core.problem import (
    EVENT_REUSED,
    Problem,
    ProblemKind,
    answer_not_kept,
    in_flight,
    key_expired,
    key_reused,
    outcome_unknown,
    store_unavailable,
)
from replayfloor.core.receipt import Receipt
from replayfloor.server.effects import Pause
from replayfloor.server.events import EventKind
from replayfloor.server.flow.age import reuse_of
from replayfloor.server.flow.insist import Interruption
from replayfloor.server.flow.values import (
    STORE_RETRY_AFTER_S,
    Admission,
    Admitted,
    Exposed,
    Gone,
    Recorded,
    Refused,
    Replayed,
    Unprotected,
    abandon,
    as_understood,
    event,
)
from replayfloor.server.policy import AfterExpiry, Effects, Options
from replayfloor.server.webhooks.answers import PAST_HORIZON

_ATOMIC: Final = Effects.ATOMIC
"""Looked up once: Python 3.11 takes a detour for a member of an enumeration."""

UNKNOWN_RETRY_AFTER_S = 60
"""Retry-After of an unknown outcome: people or a periodic job settle it, so seconds are no use."""

POLL_MS = 50
"""How often a waiting duplicate looks again: below what a person notices, and one lock round trip
each, so 20 a second per waiter."""


def take(ticket: Admitted, options: Options) -> Flow[Admission]:
    """Take the key, wait for another's answer as long as the route allows, and tell what came."""
    waits = options.wait_ms > 0
    admission = yield from (_take_waiting if waits else _take)(ticket, options)
    if not options.quiet or isinstance(admission, Exposed):
        yield from _tell_admission(ticket, admission)
    return as_understood(admission, options) if isinstance(admission, Refused) else admission


def _take_waiting(ticket: Admitted, options: Options) -> Flow[Admission]:
    """Take the key; while another request has it in flight, wait as long as the route allows."""
    left_ms = options.wait_ms
    while True:
        admission = yield from _take(ticket, options)
        busy = isinstance(admission, Refused) and admission.problem.kind is ProblemKind.IN_FLIGHT
        if not busy or left_ms <= 0:
            return admission
        pause_ms = min(POLL_MS, left_ms)
        yield from Pause(pause_ms)
        left_ms -= pause_ms


def _take(ticket: Admitted, options: Options) -> Flow[Admission]:
    try:
        lock = yield from Acquire(ticket.id, ticket.fingerprint, ticket.fence, options.lease_ms)
        elsewhere = _answer_from_lock(ticket, lock, options)
        if elsewhere is not None:
            return elsewhere
        if isinstance(lock, LockUnavailable):
            yield from event(ticket, EventKind.LOCK_UNAVAILABLE)
        admission = yield from _claim(ticket, options)
    except GeneratorExit:
        raise
    except BaseException:
        # A cancellation or a defect. Lock and claim may stand, but the handler was not started.
        if options.effects is _ATOMIC:
            yield from Rollback()
        yield from abandon(ticket)
        yield from Release(ticket.id, ticket.fence)
        raise
    if not isinstance(admission, Admitted):
        found = admission.receipt if isinstance(admission, Replayed) else None
        keep_ms = options.kept_ms(admission.left_ms) if isinstance(admission, Replayed) else 0
        # A cancellation here would leave the lock for a whole lease, and nobody at work.
        interruption = Interruption()
        yield from interruption.insist(Release(ticket.id, ticket.fence, found, keep_ms))
        interruption.resume()
    return admission


def _answer_from_lock(
    ticket: Admitted, lock: LockAnswer, options: Options
) -> Refused | Replayed | None:
    """Return the answer if the lock is another's; None to go on to the claim."""
    match lock:
        case Held(fingerprint, left_ms):
            return _busy(ticket, fingerprint, in_flight(left_ms))
        case Cached(receipt):
            return _replay(ticket, receipt, options)
        case Acquired() | LockUnavailable():
            return None
        case _:
            assert_never(lock)


def _claim(ticket: Admitted, options: Options) -> Flow[Admission]:
    reuse = reuse_of(options.after_expiry, past=ticket.past_horizon)
    claim = Claim(
        ticket.id,
        ticket.fingerprint,
        ticket.fence,
        options.lease_ms,
        takeover=options.takes_over,
        retention_ms=options.retention_ms,
        reuse=reuse,
        proofs=options.looks_for_proofs,
    )
    try:
        answer = yield from _again_if_unsure(claim)
    except StoreUnavailable as error:
        yield from event(ticket, EventKind.STORE_UNAVAILABLE, str(error))
        if error.performed is not False:
            yield from abandon(ticket)
        if options.executes_openly and reuse is not Reuse.NEVER:
            return Exposed()
        return Refused(store_unavailable(STORE_RETRY_AFTER_S))
    match answer:
        case Claimed(taken_over, reused):
            admitted = ticket
            if taken_over or reused:
                past = ticket.past_horizon or reused
                admitted = replace(ticket, taken_over=taken_over, past_horizon=past)
            if admitted.past_horizon and options.after_expiry is AfterExpiry.ACKNOWLEDGE:
                return (yield from _acknowledge(admitted))
            return (yield from _begin(admitted, options))
        case Finished(receipt, left_ms):
            return _replay(ticket, receipt, options, left_ms)
        case Expired():
            yield from event(ticket, EventKind.EXPIRED_BEFORE_RETRY)
            return Refused(key_expired((options.retention_ms or 0) // 1000))
        case InFlight(fingerprint, left_ms):
            return _busy(ticket, fingerprint, in_flight(left_ms))
        case Orphaned(fingerprint):
            return _busy(ticket, fingerprint, outcome_unknown(UNKNOWN_RETRY_AFTER_S))
        case _:
            assert_never(answer)


def _again_if_unsure(claim: Claim) -> Flow[ClaimAnswer]:
    """Claim; if only the answer may have been lost, ask once more with the same fence.

    Without this, a claim whose answer was lost would stand as if its handler had been started,
    and end as an outcome that nobody can know although nothing was executed.
    """
    try:
        return (yield from claim)
    except StoreUnavailable as error:
        if error.performed is False:
            raise
    return (yield from claim)


def _begin(admitted: Admitted, options: Options) -> Flow[Admission]:
    if options.effects is not _ATOMIC:
        return admitted
    try:
        yield from Begin(admitted.id)
    except StoreUnavailable as error:
        yield from event(admitted, EventKind.STORE_UNAVAILABLE, str(error))
        yield from abandon(admitted)
        return Refused(store_unavailable(STORE_RETRY_AFTER_S))
    return admitted


def _acknowledge(admitted: Admitted) -> Flow[Admission]:
    """Record that an event past its horizon was received, without running its handler."""
    receipt = Receipt(admitted.fingerprint, PAST_HORIZON)
    try:
        recorded = yield from Finish(admitted.id, admitted.fence, receipt)
    except StoreUnavailable as error:
        yield from event(admitted, EventKind.STORE_UNAVAILABLE, str(error))
        yield from abandon(admitted)
        return Refused(store_unavailable(STORE_RETRY_AFTER_S))
    if not recorded:
        return Refused(in_flight(left_ms=0))
    yield from event(admitted, EventKind.PAST_HORIZON)
    return Recorded(receipt)


def _busy(ticket: Admitted, fingerprint: Fingerprint, problem: Problem) -> Refused:
    """Refuse with `problem`; another request under the same key comes first (422 beats 409)."""
    return Refused(problem) if fingerprint == ticket.fingerprint else _reused(ticket, fingerprint)


def _reused(ticket: Admitted, fingerprint: Fingerprint) -> Refused:
    if ticket.delivered is not None:
        return Refused(EVENT_REUSED)
    return Refused(key_reused(differing_parts(fingerprint, ticket.fingerprint)))


def _replay(
    ticket: Admitted, receipt: Receipt, options: Options, left_ms: int | None = None
) -> Refused | Replayed:
    if receipt.fingerprint != ticket.fingerprint:
        return _reused(ticket, receipt.fingerprint)
    if not receipt.tombstone:
        return Replayed(receipt, left_ms)
    if options.until_success:
        # It was a success, and that is all its sender wants to know.
        bare = Receipt(receipt.fingerprint, Response(receipt.response.status, (), b""))
        return Replayed(bare, left_ms)
    return Refused(answer_not_kept(receipt.response))


def _tell_admission(ticket: Admitted, admission: Admission) -> Flow[None]:
    match admission:
        case Admitted(taken_over=taken_over):
            yield from event(ticket, EventKind.TAKEN_OVER if taken_over else EventKind.CLAIMED)
        case Replayed():
            yield from event(ticket, EventKind.REPLAYED)
        case Refused(problem):
            yield from event(ticket, EventKind.REFUSED, problem.kind.value)
        case Exposed():
            yield from event(ticket, EventKind.EXECUTED_OPENLY)
        case Gone() | Unprotected() | Recorded():
            pass
