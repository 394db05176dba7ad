"""A journal in one SQLite file: durable, for any number of threads and processes of one machine.

Every method is arguments, one statement, decode; the statements are in `sql/`. How the file is
opened is in `sqlite_file`, how an entry is a row in `sqlite_rows`. A lease ends by the wall clock
that every process of the machine shares, which is the one of the effects' moments.
"""

from __future__ import annotations

import os
from importlib.resources import files
from typing import Final, TypeAlias

from replayfloor.client.journal.sqlite_file import SQLiteFile, Value
from replayfloor.client.journal.sqlite_rows import COLUMNS, decoded, encoded
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.journal import (
    EVERY_PENDING,
    EVIDENCE_LENGTH_MAX,
    NOTE_LENGTH_MAX,
    BeginOperation,
    Begun,
    CloseOperation,
    EndAttempt,
    JournalEntry,
    PruneOperations,
    ReadOperation,
    ReadPending,
    ReleaseLease,
    RenewLease,
    SettleOperation,
    StartAttempt,
)
from replayfloor.core.journal_rules import NS_PER_S, as_inserted


def _statement(name: str) -> str:
    text = (files("replayfloor.client.journal") / "sql" / f"{name}.sql").read_text("utf-8")
    return text.replace("/* columns */", COLUMNS)


_INSERT: Final = _statement("insert_operation")
_FIND: Final = _statement("find_operation")
_START: Final = _statement("start_attempt")
_END: Final = _statement("end_attempt")
_CLOSE: Final = _statement("close_operation")
_RENEW: Final = _statement("renew_lease")
_RELEASE: Final = _statement("release_lease")
_SETTLE: Final = _statement("settle_operation")
_READ: Final = _statement("read_operation")
_PENDING: Final = _statement("read_pending")
_PRUNE: Final = _statement("prune_operations")

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
        self._file = SQLiteFile(os.fspath(path), _statement("create_schema"))

    def begin(self, effect: BeginOperation) -> Begun:
        """Perform BeginOperation."""
        # Two statements, and yet one decision: the unique indexes make it in the first. Between
        # the two, the entry that refused can only be pruned; then the second finds nothing, which
        # is told as StoreUnavailable, and nothing was sent.
        arguments = encoded(as_inserted(effect))
        if inserted := self._file.run(_INSERT, arguments):
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
            "evidence": effect.evidence[:EVIDENCE_LENGTH_MAX],
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
            "note": effect.note[:NOTE_LENGTH_MAX],
        }
        return self._one(_SETTLE, _place(effect) | details)

    def read(self, effect: ReadOperation) -> JournalEntry | None:
        """Perform ReadOperation."""
        rows = self._file.run(_READ, _place(effect))
        return decoded(rows[0]) if rows else None

    def pending(self, effect: ReadPending = EVERY_PENDING) -> tuple[JournalEntry, ...]:
        """Perform ReadPending."""
        arguments: dict[str, Value] = {"namespace": effect.namespace, "limit": effect.limit}
        return tuple(map(decoded, self._file.run(_PENDING, arguments)))

    def prune(self, effect: PruneOperations) -> int:
        """Perform PruneOperations."""
        arguments: dict[str, Value] = {
            "namespace": effect.namespace,
            "finished_before_ns": effect.finished_before_ns,
            "limit": effect.limit,
        }
        return len(self._file.run(_PRUNE, arguments))

    def close(self) -> None:
        """Close the file; it is not opened again."""
        self._file.close()

    def _one(self, statement: str, arguments: dict[str, Value]) -> JournalEntry:
        rows = self._file.run(statement, arguments)
        if not rows:
            raise StoreUnavailable("the journal has no entry of this operation")
        return decoded(rows[0])


def _place(effect: _OfOneOperation) -> dict[str, Value]:
    return {"namespace": effect.namespace, "operation_id": effect.operation_id}


def _lease_until_ns(effect: StartAttempt | RenewLease) -> int:
    return effect.at_ns + int(effect.lease_s * NS_PER_S)
