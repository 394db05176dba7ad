"""An entry as a row of a database, and back: the columns are the same in all. No statements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from replayfloor.core.fingerprint import Fingerprint
from replayfloor.core.journal import JournalEntry, OperationState, PendingCount, Settlement
from replayfloor.core.journal_rules import is_storable
from replayfloor.core.outcome import Outcome

Value: TypeAlias = str | bytes | int | float | None
Row: TypeAlias = Mapping[str, Value]

COLUMNS: Final = (
    "namespace, operation_id, key, provider, method, origin, path, fingerprint, "
    "first_attempt_at_ns, boot_id, first_boot_ns, elapsed_ns, retention_s, send_deadline_ns, "
    "attempts, attempts_ended, last_attempt_at_ns, last_seen_at_ns, worst, state, final_status, "
    "last_evidence, lease_owner, lease_until_ns, response, settlement, note"
)
"""Every column, in the order of the tables, for `returning` and `select`."""


def encoded(entry: JournalEntry) -> dict[str, Value]:
    """Return the value of each column."""
    return {
        "namespace": entry.namespace,
        "operation_id": entry.operation_id,
        "key": entry.key,
        "provider": entry.provider,
        "method": entry.method,
        "origin": entry.origin,
        "path": entry.path,
        "fingerprint": entry.fingerprint,
        "first_attempt_at_ns": entry.first_attempt_at_ns,
        "boot_id": entry.boot_id,
        "first_boot_ns": entry.first_boot_ns,
        "elapsed_ns": entry.elapsed_ns,
        "retention_s": entry.retention_s,
        "send_deadline_ns": entry.send_deadline_ns,
        "attempts": entry.attempts,
        "attempts_ended": entry.attempts_ended,
        "last_attempt_at_ns": entry.last_attempt_at_ns,
        "last_seen_at_ns": entry.last_seen_at_ns,
        "worst": int(entry.worst),
        "state": entry.state.value,
        "final_status": entry.final_status,
        "last_evidence": entry.last_evidence,
        "lease_owner": entry.lease_owner,
        "lease_until_ns": entry.lease_until_ns,
        "response": entry.response,
        "settlement": None if entry.settlement is None else entry.settlement.value,
        "note": entry.note,
    }


def decoded(row: Row) -> JournalEntry:
    """Return the entry of a row that has every column."""
    settlement = _text_or_none(row["settlement"])
    return JournalEntry(
        namespace=str(row["namespace"]),
        operation_id=str(row["operation_id"]),
        key=str(row["key"]),
        provider=str(row["provider"]),
        method=str(row["method"]),
        origin=str(row["origin"]),
        path=str(row["path"]),
        fingerprint=Fingerprint(_bytes(row["fingerprint"])),
        first_attempt_at_ns=_int(row["first_attempt_at_ns"]),
        boot_id=str(row["boot_id"]),
        first_boot_ns=_int(row["first_boot_ns"]),
        elapsed_ns=_int(row["elapsed_ns"]),
        retention_s=_float(row["retention_s"]),
        send_deadline_ns=_int(row["send_deadline_ns"]),
        attempts=_int(row["attempts"]),
        attempts_ended=_int(row["attempts_ended"]),
        last_attempt_at_ns=_int(row["last_attempt_at_ns"]),
        last_seen_at_ns=_int(row["last_seen_at_ns"]),
        worst=Outcome(_int(row["worst"])),
        state=OperationState(str(row["state"])),
        final_status=None if row["final_status"] is None else _int(row["final_status"]),
        last_evidence=_text_or_none(row["last_evidence"]),
        lease_owner=_bytes(row["lease_owner"]),
        lease_until_ns=_int(row["lease_until_ns"]),
        response=None if row["response"] is None else _bytes(row["response"]),
        settlement=None if settlement is None else Settlement(settlement),
        note=_text_or_none(row["note"]),
    )


def decoded_count(row: Row) -> PendingCount:
    """Return the count of a row of count_pending.sql."""
    return PendingCount(
        provider=str(row["provider"]),
        namespace=str(row["namespace"]),
        state=OperationState(str(row["state"])),
        count=_int(row["count"]),
        oldest_first_attempt_at_ns=_int(row["oldest_first_attempt_at_ns"]),
    )


def may_match(arguments: Mapping[str, Value]) -> bool:
    """Return False if a name among the arguments is one that no row can have."""
    return is_storable(*(value for value in arguments.values() if isinstance(value, str)))


def _text_or_none(value: Value) -> str | None:
    return None if value is None else str(value)


def _bytes(value: Value) -> bytes:
    assert isinstance(value, bytes)  # the column is strict
    return value


def _int(value: Value) -> int:
    assert isinstance(value, int)
    return value


def _float(value: Value) -> float:
    assert isinstance(value, int | float)  # "returning" shows a whole number as it was bound
    return float(value)
