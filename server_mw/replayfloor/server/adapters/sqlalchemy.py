"""Receipts for handlers that write through SQLAlchemy 2, with a blocking engine, for WSGI.

In an `atomic` route `claim.connection` is a SQLAlchemy connection inside the receipt's
transaction, and `session(claim)` gives an ORM session that is joined to it. The asynchronous half
is `adapters.sqlalchemy_async`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from sqlalchemy import Connection, Engine
from sqlalchemy.orm import Session

from replayfloor.core.claims import Finish
from replayfloor.core.errors import ConfigurationError, UsageError
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.adapters.protocol import OnReceipts
from replayfloor.server.adapters.sqlalchemy_common import (
    ENDED,
    GuardedTransaction,
    check_driver,
    connecting,
    postgres_conninfo,
    sqlite_path,
    unavailable,
)
from replayfloor.server.claim import ActiveClaim
from replayfloor.server.stores import Connection as AnyConnection
from replayfloor.server.stores import Receipts, open_receipts
from replayfloor.server.stores.sqlite import SQLiteReceipts

USABLE = ("postgresql+psycopg", "postgresql+psycopg2", "sqlite+pysqlite")


class SQLAlchemyReceipts(OnReceipts):
    """Receipts in the database of an `Engine`.

    The engine's pool has to have a connection for each `atomic` handler that runs at a time; one
    that is not had within its `pool_timeout`, which should be shorter than the lease, is answered
    with 503. How long a statement or the commit may take is the engine's affair, too
    (`connect_args`: `connect_timeout`, `options` with a `statement_timeout`, `tcp_user_timeout`).
    Above READ COMMITTED, a handler that outlives the first renewal of its lease conflicts with it,
    and is undone. What is done with the driver's connection, past SQLAlchemy, is not looked at.

    Args:
        engine: of Postgres (psycopg or psycopg2) or of a SQLite file; the application's own.
        receipts: where the protocol runs: a URL or a store on the same database. Default: what the
            engine's URL says; name it if the engine connects by other means (`connect_args`,
            `creator`).

    Raises ConfigurationError for another database or driver.
    """

    def __init__(self, engine: Engine, receipts: str | Receipts | None = None) -> None:
        """Connect nothing."""
        if not isinstance(cast("object", engine), Engine):
            raise ConfigurationError(
                f"expected an Engine, got {type(engine).__name__}; for an AsyncEngine there is "
                "AsyncSQLAlchemyReceipts"
            )
        check_driver(engine.dialect, USABLE)
        chosen = _receipts(engine) if receipts is None else receipts
        super().__init__(open_receipts(chosen) if isinstance(chosen, str) else chosen)
        self._engine = engine

    def begin(self, _id: ReceiptId | None = None, /) -> SQLAlchemyTransaction:
        """See `replayfloor.core.claims.Begin`."""
        return SQLAlchemyTransaction(self._engine, self._receipts.finish_in)


class SQLAlchemyTransaction:
    """A handler's transaction on a connection of the engine."""

    def __init__(self, engine: Engine, finish_in: Callable[[object, Finish], bool]) -> None:
        """Open it. Raises StoreUnavailable, ConfigurationError."""
        self._finish_in = finish_in
        with connecting():
            connection = engine.connect()
        self._guarded = GuardedTransaction(connection)
        try:
            self._guarded.begin()
        except BaseException:
            self.rollback()
            raise

    @property
    def connection(self) -> AnyConnection:
        """The SQLAlchemy connection. Raises UsageError once the transaction has ended."""
        if self._guarded.ended:
            raise UsageError(ENDED)
        return cast("AnyConnection", self._guarded.connection)

    def commit(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Commit`."""
        try:
            self._guarded.check()
            with unavailable(performed=False):
                finished = self._finish_in(self._guarded.connection, finish)
            if finished:
                self._guarded.commit()
        finally:
            self.rollback()
        return finished

    def rollback(self) -> None:
        """See `replayfloor.core.claims.Rollback`. After a commit it only ends the loan."""
        if not self._guarded.ended:
            self._guarded.end()


def session(claim: ActiveClaim) -> Session:
    """Return an ORM session in the receipt's transaction.

    Its `commit()` flushes and releases a savepoint, its `rollback()` goes back to one; what it has
    committed so is committed with the receipt, and undone if the handler raises. A sessionmaker of
    the application's own does the same: `maker(bind=claim.connection,
    join_transaction_mode="create_savepoint")`. Raises UsageError where `claim.connection` does,
    and if the receipts are not SQLAlchemyReceipts.
    """
    connection: object = claim.connection
    if not isinstance(connection, Connection):
        raise UsageError("session(claim) needs SQLAlchemyReceipts as the middleware's receipts")
    return Session(bind=connection, join_transaction_mode="create_savepoint")


def _receipts(engine: Engine) -> str | Receipts:
    if engine.dialect.name == "sqlite":
        return SQLiteReceipts(sqlite_path(engine.url))
    return _postgres(postgres_conninfo(engine.dialect, engine.url))


def _postgres(address: str) -> Receipts:
    from replayfloor.server.stores.postgres import PostgresReceipts

    return PostgresReceipts(address)
