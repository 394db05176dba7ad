"""A journal in Postgres: durable, for any number of threads, processes and machines.

Every method is arguments, one statement, decode; the statements are in `sql_postgres/`. How a
connection is had, and what an error means, is in `postgres_pool`; how an entry is a row in `rows`.
A lease ends by the clock of the database, which every machine shares. The driver is imported when a
journal is made, so that one in SQLite works without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from replayfloor.client.journal.postgres_driver import driver_needed
from replayfloor.client.journal.rows import (
    Row,
    Value,
    decoded,
    decoded_count,
    encoded,
    may_match,
)
from replayfloor.client.journal.statements import postgres_statement
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
from replayfloor.core.journal_rules import NS_PER_S, as_inserted, as_kept, place_after

if TYPE_CHECKING:
    from replayfloor.client.journal.postgres_pool import PostgresPool

POOL_CONNECTIONS: Final = 5
"""Connections per process. An operation holds one for a round trip and a flush of the disk, some
ms, so five carry hundreds of operations a second; Postgres allows 100 in all unless told so."""

OPERATION_S: Final = 5.0
"""How long one operation may take before the journal counts as unavailable, waiting for a
connection included: far above a slow commit, below the patience of common HTTP clients (10 s)."""

_BEGIN: Final = postgres_statement("begin")
_START: Final = postgres_statement("start_attempt")
_END: Final = postgres_statement("end_attempt")
_CLOSE: Final = postgres_statement("close_operation")
_RENEW: Final = postgres_statement("renew_lease")
_RELEASE: Final = postgres_statement("release_lease")
_SETTLE: Final = postgres_statement("settle_operation")
_READ: Final = postgres_statement("read_operation")
_PENDING: Final = postgres_statement("read_pending")
_HISTORY: Final = postgres_statement("read_history")
_COUNT: Final = postgres_statement("count_pending")
_PRUNE: Final = postgres_statement("prune_operations")

_OfOneOperation: TypeAlias = (
    StartAttempt
    | EndAttempt
    | CloseOperation
    | RenewLease
    | ReleaseLease
    | SettleOperation
    | ReadOperation
)


class PostgresJournal:
    """Entries in the schema `replayfloor_client` of a database; connected to at the first use.

    What begins, attempts, closes and settlements write is on the server's disk when the call
    returns, whatever the database's settings. Works behind PgBouncer in transaction mode. The
    schema is made at the first use, or before it by `postgres_schema.create_schema`.

    Args:
        url: `postgresql://…` or any libpq connection string.
        pool_connections: connections per process, at least 1.
        operation_s: seconds until an operation raises StoreUnavailable, whatever the server does
            (connecting takes at least 2 s to be given up).

    Raises ConfigurationError for a URL that is none and where the driver is not installed (the
    extra `journal-postgres`); at the first use for a role that may not make the schema, and for a
    schema of another release or another program. Every failure of the server is StoreUnavailable.
    """

    def __init__(
        self,
        url: str,
        *,
        pool_connections: int = POOL_CONNECTIONS,
        operation_s: float = OPERATION_S,
    ) -> None:
        with driver_needed():
            from replayfloor.client.journal.postgres_pool import PostgresPool
        self._pool: PostgresPool = PostgresPool(url, pool_connections, operation_s)

    def begin(self, effect: BeginOperation) -> Begun:
        """Perform BeginOperation."""
        arguments = encoded(as_inserted(effect))
        arguments["lease_ns"] = _lease_ns(effect)
        (row,) = self._pool.run(_BEGIN, arguments)
        return Begun(decoded(row), resumed=bool(row["resumed"]))

    def start_attempt(self, effect: StartAttempt) -> JournalEntry:
        """Perform StartAttempt."""
        details: dict[str, Value] = {
            "at_ns": effect.at_ns,
            "elapsed_ns": effect.elapsed_ns,
            "lease_owner": effect.lease_owner,
            "lease_ns": _lease_ns(effect),
        }
        return self._one(_START, _place(effect) | details)

    def end_attempt(self, effect: EndAttempt) -> JournalEntry:
        """Perform EndAttempt."""
        details: dict[str, Value] = {
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
        return self._one(_END, _place(effect) | details)

    def close_operation(self, effect: CloseOperation) -> JournalEntry:
        """Perform CloseOperation."""
        details: dict[str, Value] = {"at_ns": effect.at_ns, "elapsed_ns": effect.elapsed_ns}
        return self._one(_CLOSE, _place(effect) | details)

    def renew_lease(self, effect: RenewLease) -> JournalEntry:
        """Perform RenewLease."""
        details: dict[str, Value] = {
            "lease_owner": effect.lease_owner,
            "lease_ns": _lease_ns(effect),
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
        """Close the connections; none is made again."""
        self._pool.close()

    def _one(self, statement: bytes, arguments: dict[str, Value]) -> JournalEntry:
        rows = self._rows(statement, arguments)
        if not rows:
            raise StoreUnavailable("the journal has no entry of this operation")
        return decoded(rows[0])

    def _rows(self, statement: bytes, arguments: dict[str, Value]) -> list[Row]:
        return self._pool.run(statement, arguments) if may_match(arguments) else []


def _place(effect: _OfOneOperation) -> dict[str, Value]:
    return {"namespace": effect.namespace, "operation_id": effect.operation_id}


def _lease_ns(effect: BeginOperation | StartAttempt | RenewLease) -> int:
    return int(effect.lease_s * NS_PER_S)
