"""What the journals in databases bind to their statements: one dictionary for each effect.

The names are those in `sql/` and `sql_postgres/`, the same in both; a statement takes of them what
it needs. Where a lease ends is for the statement to say, by the journal's own clock. No statements.
"""

from __future__ import annotations

from typing import TypeAlias

from replayfloor.client.journal.rows import Value, encoded
from replayfloor.core.journal import (
    EVIDENCE_LENGTH_MAX,
    NOTE_LENGTH_MAX,
    BeginOperation,
    CloseOperation,
    EndAttempt,
    JournalEntry,
    PruneOperations,
    ReadHistory,
    ReadOperation,
    ReadPending,
    ReleaseLease,
    RenewLease,
    SettleOperation,
    StartAttempt,
)
from replayfloor.core.journal_rules import NS_PER_S, as_kept, place_after

Arguments: TypeAlias = dict[str, Value]


def of_begin(effect: BeginOperation, entry: JournalEntry) -> Arguments:
    """Return those of BeginOperation, which inserts `entry`."""
    arguments = encoded(entry)
    arguments["lease_ns"] = _lease_ns(effect)
    return arguments


def of_start(effect: StartAttempt) -> Arguments:
    """Return those of StartAttempt."""
    return {
        "namespace": effect.namespace,
        "operation_id": effect.operation_id,
        "at_ns": effect.at_ns,
        "elapsed_ns": effect.elapsed_ns,
        "lease_owner": effect.lease_owner,
        "lease_ns": _lease_ns(effect),
    }


def of_end(effect: EndAttempt) -> Arguments:
    """Return those of EndAttempt."""
    return {
        "namespace": effect.namespace,
        "operation_id": effect.operation_id,
        "at_ns": effect.at_ns,
        "outcome": int(effect.outcome),
        "evidence": as_kept(effect.evidence, EVIDENCE_LENGTH_MAX),
        "done": effect.done,
        "final_status": effect.final_status,
        "elapsed_ns": effect.elapsed_ns,
        "lease_owner": effect.lease_owner,
        "response": effect.response,
        "retention_s": effect.retention_s,
        "send_deadline_ns": effect.send_deadline_ns,
    }


def of_close(effect: CloseOperation) -> Arguments:
    """Return those of CloseOperation."""
    return {
        "namespace": effect.namespace,
        "operation_id": effect.operation_id,
        "at_ns": effect.at_ns,
        "elapsed_ns": effect.elapsed_ns,
    }


def of_renew(effect: RenewLease) -> Arguments:
    """Return those of RenewLease."""
    return {
        "namespace": effect.namespace,
        "operation_id": effect.operation_id,
        "at_ns": effect.at_ns,
        "lease_owner": effect.lease_owner,
        "lease_ns": _lease_ns(effect),
    }


def of_release(effect: ReleaseLease) -> Arguments:
    """Return those of ReleaseLease."""
    return {
        "namespace": effect.namespace,
        "operation_id": effect.operation_id,
        "lease_owner": effect.lease_owner,
    }


def of_settle(effect: SettleOperation, *, force: bool) -> Arguments:
    """Return those of SettleOperation; with `force` whoever holds the lease."""
    return {
        "namespace": effect.namespace,
        "operation_id": effect.operation_id,
        "at_ns": effect.at_ns,
        "settlement": effect.settlement.value,
        "note": as_kept(effect.note, NOTE_LENGTH_MAX),
        "force": force,
    }


def of_read(effect: ReadOperation) -> Arguments:
    """Return those of ReadOperation."""
    return {"namespace": effect.namespace, "operation_id": effect.operation_id}


def of_pending(effect: ReadPending) -> Arguments:
    """Return those of ReadPending."""
    return {"namespace": effect.namespace, "limit": effect.limit}


def of_history(effect: ReadHistory) -> Arguments:
    """Return those of ReadHistory; raises UsageError for a place that no entry can have."""
    after = place_after(effect) or (None, None)
    return {
        "namespace": effect.namespace,
        "after_namespace": after[0],
        "after_operation_id": after[1],
        "limit": effect.limit,
    }


def of_prune(effect: PruneOperations) -> Arguments:
    """Return those of PruneOperations."""
    return {
        "namespace": effect.namespace,
        "finished_before_ns": effect.finished_before_ns,
        "limit": effect.limit,
    }


def _lease_ns(effect: BeginOperation | StartAttempt | RenewLease) -> int:
    return int(effect.lease_s * NS_PER_S)
