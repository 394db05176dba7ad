"""A journal in one SQLite file: durable, for any number of threads and processes of one machine.

Every method is arguments, one statement, decode; the statements are in `sql/`. How the file is
opened is in `sqlite_file`, how an entry is a row in `rows`. A lease ends by the wall clock
that every process of the machine shares, which is the one of the effects' moments.
"""

from __future__ import annotations

import os
from typing import Final, TypeAlias

from replayfloor.client.journal.rows import (
    Row,
    Value,
    decoded,
    decoded_count,
    encoded,
    may_match,
)
from replayfloor.client.journal.sqlite_file import SQLiteFile
from replayfloor.client.journal.statements import sqlite_statement
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.journal import (
    COUNT_PENDING,
    EVERY_PENDING,
    EVIDENCE_LENGTH_MAX,
    FIRST_HISTORY,
    NOTE_LENGTH_MAX,
    BeginOperation,
    Begun,
    CloseOperation,
    CountPending,
    EndAttempt,
    JournalEntry,
    PendingCount,
    PruneOperations,
    ReadHistory,
    ReadOperation,
    ReadPending,
    ReleaseLease,
    RenewLease,
    SettleOperation,
    StartAttempt,
)
from replayfloor.core.journal_rules import (
    NS_PER_S,
    as_inserted,
    as_kept,
    place_after,
)

_INSERT: Final = sqlite_statement("insert_operation")
_FIND: Final = sqlite_statement("find_operation")
_START: Final = sqlite_statement("start_attempt")
_END: Final = sqlite_statement("end_attempt")
_CLOSE: Final = sqlite_statement("close_operation")
_RENEW: Final = sqlite_statement("renew_lease")
_RELEASE: Final = sqlite_statement("release_lease")
_SETTLE: Final = sqlite_statement("settle_operation")
_READ: Final = sqlite_statement("read_operation")
_PENDING: Final = sqlite_statement("read_pending")
_HISTORY: Final = sqlite_statement("read_history")
_COUNT: Final = sqlite_statement("count_pending")
_PRUNE: Final = sqlite_statement("prune_operations")

_OfOneOperation: TypeAlias = (
    StartAttempt
    | EndAttempt
    | CloseOperation
    | RenewLease
    | ReleaseLease
    | SettleOperation
    | ReadOperation
)


class SQLiteJournal:
    """Entries in the file `path`, which is made if it is not there; opened at the first use.

    Every write is durable when the call returns (synchronous=FULL). Raises StoreUnavailable if
    the file cannot be read or written, ConfigurationError if it belongs to another program or has
    the schema of another release.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = SQLiteFile(os.fspath(path), sqlite_statement("create_schema"))

    def begin(self, effect: BeginOperation) -> Begun:
        """Perform BeginOperation."""
        # Two statements, and yet one decision: the unique indexes make it in the first. Between
        # the two, the entry that refused can only be pruned; then the second finds nothing, which
        # is told as StoreUnavailable, and nothing was sent.
        arguments = encoded(as_inserted(effect))
        if inserted := self._rows(_INSERT, arguments):
            return Begun(decoded(inserted[0]), resumed=False)
        return Begun(self._one(_FIND, arguments), resumed=True)

    def start_attempt(self, effect: StartAttempt) -> JournalEntry:
        """Perform StartAttempt."""
        details: dict[str, Value] = {
            "at_ns": effect.at_ns,
            "elapsed_ns": effect.elapsed_ns,
            "lease_owner": effect.lease_owner,
            "lease_until_ns": _lease_until_ns(effect) if effect.lease_owner else 0,
        }
        return self._one(_START, _place(effect) | details)

    def end_attempt(self, effect: EndAttempt) -> JournalEntry:
        """Perform EndAttempt."""
        details: dict[str, Value] = {
            "at_ns": effect.at_ns,
            "outcome": int(effect.outcome),
            "evidence": as_kept(effect.evidence, EVIDENCE_LENGTH_MAX),
            "done": int(effect.done),
            "final_status": effect.final_status,
            "elapsed_ns": effect.elapsed_ns,
            "lease_owner": effect.lease_owner,
            "response": effect.response,
            "retention_s": effect.retention_s,
            "send_deadline_ns": effect.send_deadline_ns,
        }
        return self._one(_END, _place(effect) | details)

    def close_operation(self, effect: CloseOperation) -> JournalEntry:
        """Perform CloseOperation."""
        details: dict[str, Value] = {"at_ns": effect.at_ns, "elapsed_ns": effect.elapsed_ns}
        return self._one(_CLOSE, _place(effect) | details)

    def renew_lease(self, effect: RenewLease) -> JournalEntry:
        """Perform RenewLease."""
        details: dict[str, Value] = {
            "lease_owner": effect.lease_owner,
            "lease_until_ns": _lease_until_ns(effect),
        }
        return self._one(_RENEW, _place(effect) | details)

    def release_lease(self, effect: ReleaseLease) -> JournalEntry:
        """Perform ReleaseLease."""
        return self._one(_RELEASE, _place(effect) | {"lease_owner": effect.lease_owner})

    def settle(self, effect: SettleOperation) -> JournalEntry:
        """Perform SettleOperation."""
        details: dict[str, Value] = {
            "at_ns": effect.at_ns,
            "settlement": effect.settlement.value,
            "note": as_kept(effect.note, NOTE_LENGTH_MAX),
        }
        return self._one(_SETTLE, _place(effect) | details)

    def read(self, effect: ReadOperation) -> JournalEntry | None:
        """Perform ReadOperation."""
        rows = self._rows(_READ, _place(effect))
        return decoded(rows[0]) if rows else None

    def pending(self, effect: ReadPending = EVERY_PENDING) -> tuple[JournalEntry, ...]:
        """Perform ReadPending."""
        arguments: dict[str, Value] = {"namespace": effect.namespace, "limit": effect.limit}
        return tuple(map(decoded, self._rows(_PENDING, arguments)))

    def history(self, effect: ReadHistory = FIRST_HISTORY) -> tuple[JournalEntry, ...]:
        """Perform ReadHistory."""
        after = place_after(effect) or (None, None)
        arguments: dict[str, Value] = {
            "namespace": effect.namespace,
            "after_namespace": after[0],
            "after_operation_id": after[1],
            "limit": effect.limit,
        }
        return tuple(map(decoded, self._rows(_HISTORY, arguments)))

    def count_pending(self, effect: CountPending = COUNT_PENDING) -> tuple[PendingCount, ...]:
        """Perform CountPending."""
        return tuple(map(decoded_count, self._rows(_COUNT, {})))

    def prune(self, effect: PruneOperations) -> int:
        """Perform PruneOperations."""
        arguments: dict[str, Value] = {
            "namespace": effect.namespace,
            "finished_before_ns": effect.finished_before_ns,
            "limit": effect.limit,
        }
        return len(self._rows(_PRUNE, arguments))

    def close(self) -> None:
        """Close the file; it is not opened again."""
        self._file.close()

    def _one(self, statement: str, arguments: dict[str, Value]) -> JournalEntry:
        rows = self._rows(statement, arguments)
        if not rows:
            raise StoreUnavailable("the journal has no entry of this operation")
        return decoded(rows[0])

    def _rows(self, statement: str, arguments: dict[str, Value]) -> list[Row]:
        return self._file.run(statement, arguments) if may_match(arguments) else []


def _place(effect: _OfOneOperation) -> dict[str, Value]:
    return {"namespace": effect.namespace, "operation_id": effect.operation_id}


def _lease_until_ns(effect: StartAttempt | RenewLease) -> int:
    return effect.at_ns + int(effect.lease_s * NS_PER_S)
