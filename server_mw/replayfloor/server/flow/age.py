"""Refuses a key that is older than receipts are kept. Pure.

A receipt that has expired looks like one that never was, and executing would be a second time. But
some keys tell their age, and some senders the time of their first attempt; these are refused
instead. The age of any other key is unknown, and it executes as a first request (draft -07, 2.3,
leaves it open).
"""

from __future__ import annotations

from replayfloor.core.problem import Problem, invalid_key, key_expired
from replayfloor.core.uuid7 import minted_ms
from replayfloor.server.flow.values import Call
from replayfloor.server.policy import Options

SKEW_MS = 300_000
"""How far ahead of ours a sender's clock may be: five minutes, what Kerberos (RFC 4120, 8.2) and
webhook signatures allow. A key from beyond would outlive its receipt by as much."""


def refuse_by_age(key: str, call: Call, options: Options) -> Problem | None:
    """Return the refusal of a key by its age, or None to go on."""
    minted = minted_ms(key)
    if options.require_uuid7:
        if minted is None:
            return invalid_key("this operation requires a UUID version 7 as its key (RFC 9562)")
        if minted > call.now_ms + SKEW_MS:
            return invalid_key("the time of the UUID version 7 lies in the future")
    if options.retention_ms is None:
        return None
    known = [moment for moment in (minted, call.first_sent_ms) if moment is not None]
    if known and min(known) < call.now_ms - options.retention_ms:
        return key_expired(options.retention_ms // 1000)
    return None
