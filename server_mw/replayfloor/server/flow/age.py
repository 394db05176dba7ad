"""How old a request is, and what its key may still do. Pure.

A receipt that has expired looks like one that never was, and executing would be a second time. But
some keys tell their age, and some senders the time of their first attempt. Such a key is replayed
as long as its receipt is there, and is not executed once that may be gone. The age of any other
key is unknown (draft -07, 2.3, leaves open what becomes of it).
"""

from __future__ import annotations

from replayfloor.core.claims import Reuse
from replayfloor.core.problem import Problem, invalid_key
from replayfloor.core.uuid7 import minted_ms
from replayfloor.core.values import frozen
from replayfloor.server.flow.values import Call
from replayfloor.server.margins import margin_ms, skew_ms
from replayfloor.server.policy import AfterExpiry, Options


@frozen
class Age:
    """`age_ms` is None if nothing tells; `past`: the receipt of a first attempt may be gone."""

    age_ms: int | None
    past: bool


_UNKNOWN = Age(None, past=False)


def reuse_of(after_expiry: AfterExpiry, *, past: bool) -> Reuse:
    """Return what a claim does about a key without a live receipt."""
    return (_PAST if past else _NOT_PAST)[after_expiry]


_PAST = {
    AfterExpiry.HANDLER: Reuse.TELL,
    AfterExpiry.ACKNOWLEDGE: Reuse.TELL,
    AfterExpiry.EXECUTE: Reuse.NEVER,
    AfterExpiry.REFUSE: Reuse.NEVER,
}
_NOT_PAST = {**_PAST, AfterExpiry.EXECUTE: Reuse.TELL, AfterExpiry.REFUSE: Reuse.REFUSE}


def judge_age(key: str, call: Call, options: Options) -> Age | Problem:
    """Return how old the request is, or the refusal of a key that does not tell, or wrongly."""
    minted = minted_ms(key)
    if options.require_uuid7 and minted is None:
        return invalid_key("this operation requires a UUID version 7 as its key (RFC 9562)")
    sent = call.first_sent_ms
    if minted is None and sent is None:
        return _UNKNOWN
    if options.retention_ms is None:
        return Age(_age_ms(minted, call), past=False)
    too_early = call.now_ms + skew_ms(options.retention_ms)
    if minted is not None and minted >= too_early:
        return invalid_key("the time of the UUID version 7 lies in the future")
    if sent is not None and sent >= too_early:
        return invalid_key("the time in Repeatability-First-Sent lies in the future")
    return older(Age(_age_ms(minted, call), past=False), 0, options)


def older(age: Age, by_ms: int, options: Options) -> Age:
    """Return the age of the same request `by_ms` later."""
    if age.age_ms is None:
        return age
    age_ms = age.age_ms + by_ms
    if options.retention_ms is None:
        return Age(age_ms, age.past)
    oldest_ms = options.retention_ms - margin_ms(options.retention_ms)
    return Age(age_ms, past=age.past or age_ms > oldest_ms)


def _age_ms(minted: int | None, call: Call) -> int | None:
    known = [moment for moment in (minted, call.first_sent_ms) if moment is not None]
    return max(0, call.now_ms - min(known)) if known else None


def age_of_event(occurred_ms: int | None, now_ms: int, options: Options) -> Age:
    """Return how old an event is. One from the future is new: the clock is its sender's."""
    if occurred_ms is None:
        return Age(None, past=False)
    return older(Age(max(0, now_ms - occurred_ms), past=False), 0, options)
