"""A journal in one SQLite file: durable, for any number of threads and processes of one machine.

Every method is arguments, one statement, decode; the statements are in `sql/`. How the file is
opened is in `sqlite_file`.
"""

from __future__ import annotations

import os
from importlib.resources import files
from typing import Final

from replayfloor.client.journal.sqlite_file import Row, SQLiteFile, Value
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.fingerprint import Fingerprint
from replayfloor.core.journal import (
    EVERY_PENDING,
    EVIDENCE_LENGTH_MAX,
    BeginOperation,
    Begun,
    CloseOperation,
    EndAttempt,
    JournalEntry,
    OperationState,
    PruneOperations,
    ReadOperation,
    ReadPending,
    ReleaseLease,
    RenewLease,
    SettleOperation,
    StartAttempt,
)
from replayfloor.core.outcome import Outcome

_COLUMNS: Final = (
    "namespace, operation_id, key, method, origin, path, fingerprint, first_attempt_at_ns, "
    "retention_s, send_deadline_ns, attempts, attempts_ended, last_attempt_at_ns, "
    "last_seen_at_ns, worst, state, final_status, last_evidence"
)


def _statement(name: str) -> str:
    text = (files("replayfloor.client.journal") / "sql" / f"{name}.sql").read_text("utf-8")
    return text.replace("/* columns */", _COLUMNS)


_INSERT: Final = _statement("insert_operation")
_FIND: Final = _statement("find_operation")
_START: Final = _statement("start_attempt")
_END: Final = _statement("end_attempt")
_CLOSE: Final = _statement("close_operation")
_PENDING: Final = _statement("read_pending")


class SQLiteJournal:
    """Entries in the file `path`, which is made if it is not there; opened at the first use.

    Every write is durable when the call returns (synchronous=FULL). Raises StoreUnavailable if
    the file cannot be read or written, ConfigurationError if it belongs to another program or was
    written by a newer release.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = SQLiteFile(os.fspath(path), _statement("create_schema"))

    def begin(self, effect: BeginOperation) -> Begun:
        """Perform BeginOperation."""
        # Two statements, and yet atomic: the unique indexes decide in the first, and an entry
        # that refused it is never deleted.
        arguments = _arguments(effect.entry)
        if inserted := self._file.run(_INSERT, arguments):
            return Begun(_entry(inserted[0]), resumed=False)
        return Begun(self._one(_FIND, arguments), resumed=True)

    def start_attempt(self, effect: StartAttempt) -> JournalEntry:
        """Perform StartAttempt."""
        return self._one(_START, _place(effect))

    def end_attempt(self, effect: EndAttempt) -> JournalEntry:
        """Perform EndAttempt."""
        details: dict[str, Value] = {
            "outcome": int(effect.outcome),
            "evidence": effect.evidence[:EVIDENCE_LENGTH_MAX],
            "done": int(effect.done),
            "final_status": effect.final_status,
        }
        return self._one(_END, _place(effect) | details)

    def close_operation(self, effect: CloseOperation) -> JournalEntry:
        """Perform CloseOperation."""
        return self._one(_CLOSE, _place(effect))

    def renew_lease(self, effect: RenewLease) -> JournalEntry:
        """Perform RenewLease."""
        return self._standing(effect.namespace, effect.operation_id)

    def release_lease(self, effect: ReleaseLease) -> JournalEntry:
        """Perform ReleaseLease."""
        return self._standing(effect.namespace, effect.operation_id)

    def read(self, effect: ReadOperation) -> JournalEntry | None:
        """Perform ReadOperation."""
        return self._standing(effect.namespace, effect.operation_id)

    def settle(self, effect: SettleOperation) -> JournalEntry:
        """Perform SettleOperation."""
        raise StoreUnavailable("this journal cannot settle an operation")

    def prune(self, effect: PruneOperations) -> int:
        """Perform PruneOperations."""
        raise StoreUnavailable("this journal cannot be pruned")

    def _standing(self, namespace: str, operation_id: str) -> JournalEntry:
        place: dict[str, Value] = {"namespace": namespace, "operation_id": operation_id, "key": ""}
        return self._one(_FIND, place)

    def pending(self, effect: ReadPending = EVERY_PENDING) -> tuple[JournalEntry, ...]:
        """Perform ReadPending."""
        arguments: dict[str, Value] = {"namespace": effect.namespace, "limit": effect.limit}
        return tuple(map(_entry, self._file.run(_PENDING, arguments)))

    def close(self) -> None:
        """Close the file; it is not opened again."""
        self._file.close()

    def _one(self, statement: str, arguments: dict[str, Value]) -> JournalEntry:
        rows = self._file.run(statement, arguments)
        if not rows:
            raise StoreUnavailable("the journal has no entry of this operation")
        return _entry(rows[0])


def _place(effect: StartAttempt | EndAttempt | CloseOperation) -> dict[str, Value]:
    return {
        "namespace": effect.namespace,
        "operation_id": effect.operation_id,
        "at_ns": effect.at_ns,
    }


def _arguments(entry: JournalEntry) -> dict[str, Value]:
    return {
        "namespace": entry.namespace,
        "operation_id": entry.operation_id,
        "key": entry.key,
        "method": entry.method,
        "origin": entry.origin,
        "path": entry.path,
        "fingerprint": entry.fingerprint,
        "first_attempt_at_ns": entry.first_attempt_at_ns,
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
    }


def _entry(row: Row) -> JournalEntry:
    return JournalEntry(
        namespace=str(row["namespace"]),
        operation_id=str(row["operation_id"]),
        key=str(row["key"]),
        method=str(row["method"]),
        origin=str(row["origin"]),
        path=str(row["path"]),
        fingerprint=Fingerprint(_bytes(row["fingerprint"])),
        first_attempt_at_ns=_int(row["first_attempt_at_ns"]),
        retention_s=_float(row["retention_s"]),
        send_deadline_ns=_int(row["send_deadline_ns"]),
        attempts=_int(row["attempts"]),
        attempts_ended=_int(row["attempts_ended"]),
        last_attempt_at_ns=_int(row["last_attempt_at_ns"]),
        last_seen_at_ns=_int(row["last_seen_at_ns"]),
        worst=Outcome(_int(row["worst"])),
        state=OperationState(str(row["state"])),
        final_status=None if row["final_status"] is None else _int(row["final_status"]),
        last_evidence=None if row["last_evidence"] is None else str(row["last_evidence"]),
    )


def _bytes(value: Value) -> bytes:
    assert isinstance(value, bytes)  # the column is strict
    return value


def _int(value: Value) -> int:
    assert isinstance(value, int)
    return value


def _float(value: Value) -> float:
    assert isinstance(value, int | float)  # "returning" shows a whole number as it was bound
    return float(value)
