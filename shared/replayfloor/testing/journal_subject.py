"""What the journal's contract is tested with: entries, moments, the effects that recur."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.fingerprint import Fingerprint
from replayfloor.core.journal import (
    LEASE_OWNER_BYTES,
    EndAttempt,
    JournalEntry,
    OperationState,
    Settlement,
)
from replayfloor.core.outcome import Outcome

THREADS = 8
"""Simultaneous callers: enough to meet in the middle of a write."""

ENTRY = JournalEntry(
    namespace="provider/live",
    operation_id="invoice-1",
    key="key-1",
    method="POST",
    origin="https://api.example",
    path="/charges",
    fingerprint=Fingerprint(bytes(range(16))),
    first_attempt_at_ns=1_800_000_000_000_000_001,
    retention_s=86_400.5,
    send_deadline_ns=1_800_086_340_000_000_003,
    last_attempt_at_ns=1_800_000_000_000_000_001,
    last_seen_at_ns=1_800_000_000_000_000_001,
)
"""An operation whose numbers do not survive a detour through a float."""

PLACE = (ENTRY.namespace, ENTRY.operation_id)
LATER_NS = ENTRY.first_attempt_at_ns + 1_000_000_001
EARLIER_NS = ENTRY.first_attempt_at_ns - 1

ONE, OTHER = b"\x00" * LEASE_OWNER_BYTES, b"\xff" * LEASE_OWNER_BYTES
"""Two calls. The bytes are those that a detour through text does not survive."""

FULL = replace(
    ENTRY,
    provider="provider",
    boot_id="5f7c1c1e-boot",
    first_boot_ns=9_007_199_254_740_993,
    elapsed_ns=9_007_199_254_740_995,
    attempts=3,
    attempts_ended=2,
    worst=Outcome.DEFINITIVE,
    state=OperationState.SETTLED,
    final_status=201,
    last_evidence="seen",
    lease_owner=OTHER,
    lease_until_ns=LATER_NS,
    response=b"\x00\xff",
    settlement=Settlement.NOT_EXECUTED,
    note="told by telephone: ä",
)
"""An entry in which nothing is a default, so that a field that is not stored is seen."""


def ended(
    outcome: Outcome, *, done: bool = False, status: int | None = None, evidence: str = "seen"
) -> EndAttempt:
    """Return the effect for an attempt of ENTRY that ended LATER_NS."""
    return EndAttempt(*PLACE, LATER_NS, outcome, evidence, done=done, final_status=status)


def answered() -> EndAttempt:
    """Return the effect for an attempt of ENTRY that was answered LATER_NS."""
    return ended(Outcome.DEFINITIVE, done=True, status=201)


def refuses(perform: Callable[[], object]) -> bool:
    """Return whether it raises StoreUnavailable."""
    try:
        perform()
    except StoreUnavailable:
        return True
    return False
