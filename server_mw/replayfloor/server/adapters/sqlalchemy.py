"""Receipts for handlers that write through SQLAlchemy 2, with a blocking or an asynchronous engine.

In an `atomic` route `claim.connection` is a SQLAlchemy connection inside the receipt's
transaction; `session(claim)` and `async_session(claim)` give an ORM session that is joined to it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Literal, cast

from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session

from replayfloor.core.claims import Abandon, Claim, ClaimAnswer, Finish, Renew
from replayfloor.core.errors import ConfigurationError, StoreUnavailable, UsageError
from replayfloor.server.claim import ActiveClaim
from replayfloor.server.stores import Connection as AnyConnection
from replayfloor.server.stores import Receipts, open_receipts
from replayfloor.server.stores.statements import refuse_control

ENDED = "the claim's transaction has ended; nothing can be written any more"
"""What a handler is told that writes too late, in a background task, say."""


class SQLAlchemyReceipts:
    """Receipts in the database of an `Engine`, for WSGI.

    Args:
        engine: of Postgres or of a SQLite file; the application's own.
        receipts: where the protocol runs: a URL or a store on the same database. Default: what the
            engine's URL says; name it if the engine connects by other means (`creator`).

    Raises ConfigurationError for another database.
    """

    def __init__(self, engine: Engine, receipts: str | Receipts | None = None) -> None:
        """Connect nothing."""
        url = receipts_url(engine.url) if receipts is None else receipts
        self._engine = engine
        self._receipts = open_receipts(url) if isinstance(url, str) else url

    def open(self) -> None:
        """Be ready for use. Raises SchemaMissing, StoreUnavailable."""
        self._receipts.open()

    def close(self) -> None:
        """Give the protocol's connections back; the engine is the application's."""
        self._receipts.close()

    def claim(self, claim: Claim) -> ClaimAnswer:
        """See `replayfloor.core.claims.Claim`."""
        return self._receipts.claim(claim)

    def finish(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Finish`."""
        return self._receipts.finish(finish)

    def abandon(self, abandon: Abandon) -> bool:
        """See `replayfloor.core.claims.Abandon`."""
        return self._receipts.abandon(abandon)

    def renew(self, renew: Renew) -> bool:
        """See `replayfloor.core.claims.Renew`."""
        return self._receipts.renew(renew)

    def begin(self) -> SQLAlchemyTransaction:
        """See `replayfloor.core.claims.Begin`."""
        return SQLAlchemyTransaction(self._engine, self._receipts.finish_in)

    def finish_in(self, connection: object, finish: Finish) -> bool:
        """See `replayfloor.server.stores.Receipts.finish_in`."""
        return self._receipts.finish_in(connection, finish)


class SQLAlchemyTransaction:
    """A handler's transaction on a connection of the engine."""

    def __init__(self, engine: Engine, finish_in: Callable[[object, Finish], bool]) -> None:
        """Open it. Raises StoreUnavailable."""
        self._finish_in = finish_in
        self._ended = False
        with unavailable(performed=False):
            self._connection = engine.connect()
        self._guard = Guard(self._connection)
        try:
            with unavailable(performed=False):
                self._root = self._connection.begin()
        except BaseException:
            self.rollback()
            raise

    @property
    def connection(self) -> AnyConnection:
        """The SQLAlchemy connection. Raises UsageError once the transaction has ended."""
        if self._ended:
            raise UsageError(ENDED)
        return cast("AnyConnection", self._connection)

    def commit(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Commit`."""
        try:
            check_open(active=self._root.is_active)
            with unavailable(performed=False):
                finished = self._finish_in(self._connection, finish)
            if finished:
                with self._guard.ours(), unavailable(performed=None):
                    self._root.commit()
        finally:
            self.rollback()
        return finished

    def rollback(self) -> None:
        """See `replayfloor.core.claims.Rollback`. After a commit it only ends the loan."""
        if not self._ended:
            self._ended = True
            with self._guard.ours():
                give_back(self._connection)


class Guard:
    """Refuses what would commit the handler's writes without the receipt."""

    def __init__(self, connection: Connection) -> None:
        """Watch one connection."""
        self._ours = False
        event.listen(connection, "commit", self._on_commit)
        event.listen(connection, "before_cursor_execute", self._on_statement)

    @contextmanager
    def ours(self) -> Generator[None]:
        """Let the middleware itself end the transaction."""
        self._ours = True
        try:
            yield
        finally:
            self._ours = False

    def _on_commit(self, connection: Connection) -> None:
        if not self._ours:
            refuse_control(connection.dialect.name, "commit")

    def _on_statement(
        self, conn: Connection, cursor: object, statement: str, *_details: object
    ) -> None:
        refuse_control(conn.dialect.name, statement)


def session(claim: ActiveClaim) -> Session:
    """Return an ORM session in the receipt's transaction.

    Its `commit()` flushes and releases a savepoint; what it wrote is committed with the receipt.
    Raises UsageError where `claim.connection` does, and if the receipts are not SQLAlchemyReceipts.
    """
    connection: object = claim.connection
    if not isinstance(connection, Connection):
        raise UsageError("session(claim) needs SQLAlchemyReceipts as the middleware's receipts")
    return Session(bind=connection, join_transaction_mode="create_savepoint")


# -- what both colours share ----------------------------------------------------------------------


def receipts_url(url: URL) -> str:
    """Return the receipts' URL for the database of an engine. Raises ConfigurationError."""
    match url.get_backend_name():
        case "postgresql":
            # Options of another driver mean nothing to libpq.
            plain = url.set(drivername="postgresql", query={})
            return plain.render_as_string(hide_password=False)
        case "sqlite" if url.database and url.database != ":memory:":
            return f"sqlite:///{url.database}"
        case name:
            raise ConfigurationError(
                f"receipts through SQLAlchemy need Postgres or a SQLite file, not {name}"
            )


def check_open(*, active: bool) -> None:
    """Raise UsageError if the handler has ended the transaction: its writes are gone."""
    if not active:
        raise UsageError(
            "the receipt's transaction was rolled back by the handler; raise an exception instead"
        )


def give_back(connection: Connection) -> None:
    """Roll back what is open and give the connection back; a broken one is thrown away."""
    try:
        connection.close()
    except SQLAlchemyError:
        connection.invalidate()


@contextmanager
def unavailable(*, performed: Literal[False] | None) -> Generator[None]:
    """Turn "no connection" and "no answer" into StoreUnavailable; other errors pass through."""
    try:
        yield
    except PoolTimeout as error:
        raise StoreUnavailable(
            f"no connection from the engine: {error}", performed=False
        ) from error
    except (OperationalError, InterfaceError, DBAPIError) as error:
        lost = isinstance(error, OperationalError | InterfaceError) or error.connection_invalidated
        if not lost:
            raise
        raise StoreUnavailable(
            f"the database did not answer: {error}", performed=performed
        ) from error
    except StoreUnavailable as error:
        error.performed = performed
        raise
