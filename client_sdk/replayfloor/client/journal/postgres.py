"""A journal in Postgres: durable, for any number of threads, processes and machines.

Every method is arguments, one statement, decode; the statements are in `sql_postgres/`. How a
connection is had, and what an error means, is in `postgres_pool`; how an entry is a row in `rows`.
A lease ends by the clock of the database, which every machine shares. The driver is imported when a
journal is made, so that one in SQLite works without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from replayfloor.client.journal.arguments import (
    Arguments,
    of_begin,
    of_close,
    of_end,
    of_history,
    of_pending,
    of_prune,
    of_read,
    of_release,
    of_renew,
    of_settle,
    of_start,
)
from replayfloor.client.journal.postgres_driver import driver_needed
from replayfloor.client.journal.rows import (
    Row,
    decoded,
    decoded_count,
    may_match,
)
from replayfloor.client.journal.statements import postgres_statement
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.journal import (
    COUNT_PENDING,
    EVERY_PENDING,
    FIRST_HISTORY,
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
from replayfloor.core.journal_rules import as_inserted

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
        creates: make the schema where there is none. For a mere look it is False: then the first
            use raises ConfigurationError where there is none, and nothing was made.

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
        creates: bool = True,
    ) -> None:
        with driver_needed():
            from replayfloor.client.journal.postgres_pool import PostgresPool
        self._pool: PostgresPool = PostgresPool(url, pool_connections, operation_s, creates=creates)

    def begin(self, effect: BeginOperation) -> Begun:
        """Perform BeginOperation."""
        (row,) = self._pool.run(_BEGIN, of_begin(effect, as_inserted(effect)))
        return Begun(decoded(row), resumed=bool(row["resumed"]))

    def start_attempt(self, effect: StartAttempt) -> JournalEntry:
        """Perform StartAttempt."""
        return self._one(_START, of_start(effect))

    def end_attempt(self, effect: EndAttempt) -> JournalEntry:
        """Perform EndAttempt."""
        return self._one(_END, of_end(effect))

    def close_operation(self, effect: CloseOperation) -> JournalEntry:
        """Perform CloseOperation."""
        return self._one(_CLOSE, of_close(effect))

    def renew_lease(self, effect: RenewLease) -> JournalEntry:
        """Perform RenewLease."""
        return self._one(_RENEW, of_renew(effect))

    def release_lease(self, effect: ReleaseLease) -> JournalEntry:
        """Perform ReleaseLease."""
        return self._one(_RELEASE, of_release(effect))

    def settle(self, effect: SettleOperation) -> JournalEntry:
        """Perform SettleOperation."""
        return self._one(_SETTLE, of_settle(effect, force=True))

    def settle_unless_leased(self, effect: SettleOperation) -> JournalEntry:
        """Perform SettleOperation, unless a call holds a lease: then nothing is changed."""
        return self._one(_SETTLE, of_settle(effect, force=False))

    def read(self, effect: ReadOperation) -> JournalEntry | None:
        """Perform ReadOperation."""
        rows = self._rows(_READ, of_read(effect))
        return decoded(rows[0]) if rows else None

    def pending(self, effect: ReadPending = EVERY_PENDING) -> tuple[JournalEntry, ...]:
        """Perform ReadPending."""
        return tuple(map(decoded, self._rows(_PENDING, of_pending(effect))))

    def history(self, effect: ReadHistory = FIRST_HISTORY) -> tuple[JournalEntry, ...]:
        """Perform ReadHistory."""
        return tuple(map(decoded, self._rows(_HISTORY, of_history(effect))))

    def count_pending(self, effect: CountPending = COUNT_PENDING) -> tuple[PendingCount, ...]:
        """Perform CountPending."""
        return tuple(map(decoded_count, self._rows(_COUNT, {})))

    def prune(self, effect: PruneOperations) -> int:
        """Perform PruneOperations."""
        return len(self._rows(_PRUNE, of_prune(effect)))

    def close(self) -> None:
        """Close the connections; none is made again."""
        self._pool.close()

    def _one(self, statement: bytes, arguments: Arguments) -> JournalEntry:
        rows = self._rows(statement, arguments)
        if not rows:
            raise StoreUnavailable("the journal has no entry of this operation")
        return decoded(rows[0])

    def _rows(self, statement: bytes, arguments: Arguments) -> list[Row]:
        return self._pool.run(statement, arguments) if may_match(arguments) else []
