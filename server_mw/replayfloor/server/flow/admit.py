"""Decide whether a handler is run: parse, read, lock, claim. Pure.

The lock is taken first because it answers duplicates in one cheap round trip; the claim decides.
Every path that does not end in Admitted gives the lock back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from replayfloor.core.claims import (
    Acquire,
    Acquired,
    Begin,
    Cached,
    Claim,
    ClaimAnswer,
    Claimed,
    Expired,
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
from replayfloor.core.errors import InvalidKey, StoreUnavailable
from replayfloor.core.fingerprint import Fingerprint, differing_parts, receipt_id
from replayfloor.core.key import parse_key
from replayfloor.core.problem import (
    BODY_TOO_LARGE,
    MISSING_KEY,
    Problem,
    ProblemKind,
    answer_not_kept,
    in_flight,
    invalid_key,
    key_expired,
    key_reused,
    outcome_unknown,
    store_unavailable,
)
from replayfloor.core.receipt import Receipt
from replayfloor.server.effects import BodyTooLarge, ClientGone, Pause, ReadRequest, RequestRead
from replayfloor.server.events import EventKind
from replayfloor.server.flow.age import Age, judge_age, older
from replayfloor.server.flow.insist import Interruption
from replayfloor.server.flow.values import (
    STORE_RETRY_AFTER_S,
    Admission,
    Admitted,
    Call,
    Exposed,
    Gone,
    Refused,
    Replayed,
    Unprotected,
    abandon,
    event,
    refusal,
)
from replayfloor.server.policy import Effects, Options

UNKNOWN_RETRY_AFTER_S = 60
"""Retry-After of an unknown outcome: people or a periodic job settle it, so seconds are no use."""

POLL_MS = 50
"""How often a waiting duplicate looks again: below what a person notices, and one lock round trip
each, so 20 a second per waiter."""


def admit(call: Call, options: Options) -> Flow[Admission]:
    """Decide whether the handler is run. Nothing is looked up for a key that is malformed."""
    if not call.key_lines:
        return Refused(MISSING_KEY) if options.required else Unprotected()
    try:
        key = parse_key(call.key_lines, options.key_rules)
    except InvalidKey as error:
        yield from refusal("", ProblemKind.INVALID_KEY)
        return Refused(invalid_key(str(error)))
    id_ = receipt_id(call.namespace, call.principal, key)
    age = judge_age(key, call, options)
    if isinstance(age, Problem):
        yield from refusal(id_.hex(), age.kind)
        return Refused(age)
    read = yield from ReadRequest(options.body_rule)
    match read:
        case ClientGone():
            return Gone()
        case BodyTooLarge():
            yield from refusal(id_.hex(), ProblemKind.BODY_TOO_LARGE)
            return Refused(BODY_TOO_LARGE)
        case RequestRead():
            fingerprint = read.fingerprint
            # A body may take minutes to arrive, and its receipt may go in the meantime.
            took_ms = 0 if read.at_ms is None else max(0, read.at_ms - call.now_ms)
            age = older(age, took_ms, options)
        case _:
            assert_never(read)
    ticket = Admitted(
        id_, fingerprint, call.fence, taken_over=False, age_ms=age.age_ms, past_horizon=age.past
    )
    admission = yield from _take_waiting(ticket, options)
    if not options.quiet or isinstance(admission, Exposed):
        yield from _tell_admission(ticket, admission)
    return admission


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
        elsewhere = _answer_from_lock(ticket, lock)
        if elsewhere is not None:
            return elsewhere
        if isinstance(lock, LockUnavailable):
            yield from event(ticket, EventKind.LOCK_UNAVAILABLE)
        admission = yield from _claim(ticket, options)
    except GeneratorExit:
        raise
    except BaseException:
        # A cancellation or a defect. Lock and claim may stand, but the handler was not started.
        if options.effects is Effects.ATOMIC:
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


def _answer_from_lock(ticket: Admitted, lock: LockAnswer) -> Refused | Replayed | None:
    """Return the answer if the lock is another's; None to go on to the claim."""
    match lock:
        case Held(fingerprint, left_ms):
            return _busy(ticket, fingerprint, in_flight(left_ms))
        case Cached(receipt):
            return _replay(ticket, receipt)
        case Acquired() | LockUnavailable():
            return None
        case _:
            assert_never(lock)


def _claim(ticket: Admitted, options: Options) -> Flow[Admission]:
    reuse = Age(ticket.age_ms, ticket.past_horizon).reuse(options.after_expiry)
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
            return (yield from _begin(admitted, options))
        case Finished(receipt, left_ms):
            return _replay(ticket, receipt, left_ms)
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
    if options.effects is not Effects.ATOMIC:
        return admitted
    try:
        yield from Begin(admitted.id)
    except StoreUnavailable as error:
        yield from event(admitted, EventKind.STORE_UNAVAILABLE, str(error))
        yield from abandon(admitted)
        return Refused(store_unavailable(STORE_RETRY_AFTER_S))
    return admitted


def _busy(ticket: Admitted, fingerprint: Fingerprint, problem: Problem) -> Refused:
    """Refuse with `problem`; another request under the same key comes first (422 beats 409)."""
    return Refused(problem) if fingerprint == ticket.fingerprint else _reused(ticket, fingerprint)


def _reused(ticket: Admitted, fingerprint: Fingerprint) -> Refused:
    return Refused(key_reused(differing_parts(fingerprint, ticket.fingerprint)))


def _replay(ticket: Admitted, receipt: Receipt, left_ms: int | None = None) -> Refused | Replayed:
    if receipt.fingerprint != ticket.fingerprint:
        return _reused(ticket, receipt.fingerprint)
    if receipt.tombstone:
        return Refused(answer_not_kept(receipt.response))
    return Replayed(receipt, left_ms)


def _tell_admission(ticket: Admitted, admission: Admission) -> Flow[None]:
    match admission:
        case Admitted(taken_over=taken_over):
            yield from event(ticket, EventKind.TAKEN_OVER if taken_over else EventKind.CLAIMED)
        case Replayed():
            yield from event(ticket, EventKind.REPLAYED)
        case Refused(problem):
            yield from refusal(ticket.id.hex(), problem.kind)
        case Exposed():
            yield from event(ticket, EventKind.EXECUTED_OPENLY)
        case Gone() | Unprotected():
            pass
