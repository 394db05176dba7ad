"""What both colours of the SQLAlchemy adapter share: the handler's transaction, guarded, and what
an engine and its errors mean. It blocks; an asynchronous engine runs it in its greenlets.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Generator
from contextlib import contextmanager
from typing import Literal, cast

from sqlalchemy import Connection, RootTransaction, event
from sqlalchemy.engine import URL, Dialect
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from replayfloor.core.errors import ConfigurationError, StoreUnavailable, UsageError
from replayfloor.server.adapters.libpq import conninfo
from replayfloor.server.stores.own_connection import SQLiteMode
from replayfloor.server.stores.own_libraries import refuse_sqlalchemy_autocommit
from replayfloor.server.stores.statements import refuse_control

log = logging.getLogger("replayfloor.server")

ENDED = "the claim's transaction has ended; nothing can be written any more"
"""What a handler is told that writes too late, in a background task, say."""

GONE = (
    "the handler has ended the receipt's transaction, and what it wrote is undone; "
    "to undo everything, raise an exception instead"
)

OVER = "SQLite has rolled the transaction back after an error; it is over"

AUTOCOMMIT = (
    "the engine commits each statement by itself, before there is a receipt; give the receipts "
    'one that does not: engine.execution_options(isolation_level="READ COMMITTED")'
)

TRANSIENT = frozenset({"08", "40", "53", "57", "58"})
"""Classes of SQLSTATE that tell of the server and not of the statement: connection, conflict of
transactions, resources, operator, system (PostgreSQL, appendix A). asyncpg, unlike psycopg,
has no exception for them all."""


class GuardedTransaction:
    """A transaction on one connection of an engine, which only `commit` here can commit.

    Attributes:
        connection: the connection, for as long as the transaction lasts.
        driver: what it is to the driver.
        ended: whether nothing can be written any more.
    """

    def __init__(self, connection: Connection) -> None:
        """Take a connection over; `end` gives it back."""
        self.connection = connection
        self.driver: object = connection.connection.driver_connection
        self.ended = False
        self._root: RootTransaction | None = None
        self._is_ours = self._begun_in_sqlite = False
        event.listen(connection, "commit", self._on_commit)
        event.listen(connection, "before_cursor_execute", self._on_statement)

    def begin(self) -> None:
        """Open it. Raises StoreUnavailable, ConfigurationError."""
        with self._ours(), unavailable(performed=False):
            self._root = self.connection.begin()
        dialect = self.connection.dialect.name
        try:
            database = cast('Literal["postgresql", "sqlite"]', dialect)
            refuse_sqlalchemy_autocommit(self.connection.connection, database)
        except UsageError as error:
            raise ConfigurationError(AUTOCOMMIT) from error

    def check(self) -> None:
        """Raise unless the handler has left the transaction open.

        UsageError if it has not, or if all is over; StoreUnavailable if the connection was lost.
        """
        if self.ended or self._root is None:
            raise UsageError(ENDED)
        if self.connection.invalidated:
            raise StoreUnavailable("the connection was lost under the handler", performed=False)
        if not self._root.is_active:
            raise UsageError(GONE)

    def commit(self) -> None:
        """Commit what was written. Raises StoreUnavailable, and what the database refuses."""
        if self._root is not None:
            with self._ours(), unavailable(performed=None):
                self._root.commit()

    def end(self) -> None:
        """Roll back what is open and give the connection back; a broken one is thrown away."""
        self.ended = True
        try:
            self.connection.close()
        except Exception:
            log.warning(
                "a transaction could not be rolled back; its connection goes", exc_info=True
            )
            if not self.connection.closed:
                # The server rolls back when it notices.
                self.connection.invalidate()
                self.connection.close()

    @contextmanager
    def _ours(self) -> Generator[None]:
        """Let through what is not the handler's."""
        self._is_ours = True
        try:
            yield
        finally:
            self._is_ours = False

    def _on_commit(self, connection: Connection) -> None:
        """Refuse a commit of the handler's own.

        To SQLAlchemy the transaction is over then, so nobody would roll it back: the connection
        would go to the pool with what was written, and the next transaction on it commit that.
        """
        if not self._is_ours:
            try:
                connection.dialect.do_rollback(connection.connection)
            except Exception:
                connection.invalidate()
                raise
            refuse_control(connection.dialect.name, "commit")

    def _on_statement(
        self, connection: Connection, cursor: object, statement: str, *_details: object
    ) -> None:
        if self._is_ours:
            return
        refuse_control(connection.dialect.name, statement)
        if connection.get_transaction() is not self._root:
            raise UsageError(GONE)
        if connection.dialect.name == "sqlite":
            self._stay_in_sqlite(connection)

    def _stay_in_sqlite(self, connection: Connection) -> None:
        """Begin before the first statement; after that, refuse to go on if it is over.

        Python's driver begins before a write only: then a savepoint, as each ORM session sets one,
        comes first, and releasing it would commit. And some errors end a transaction in SQLite (a
        full disk, "or rollback"); the driver would begin another one, in which the receipt is
        written and what came before is not.
        """
        driver = cast("SQLiteMode", self.driver)
        if not driver.in_transaction:
            if self._begun_in_sqlite:
                raise UsageError(OVER)
            with self._ours():
                # At once for writing: a read lock may not get any further if another has written.
                connection.exec_driver_sql("begin immediate")
        self._begun_in_sqlite = True


# -- what an engine means -------------------------------------------------------------------------


def check_driver(dialect: Dialect, usable: Collection[str]) -> None:
    """Raise ConfigurationError if the engine is of another database or driver."""
    found = f"{dialect.name}+{dialect.driver}"
    if found not in usable:
        raise ConfigurationError(
            f"receipts cannot be written through {found}; usable: {', '.join(usable)}"
        )


def postgres_conninfo(dialect: Dialect, url: URL) -> str:
    """Return libpq's connection string for what the engine's driver is called with."""
    _positional, options = dialect.create_connect_args(url)
    named = {"dbname": options.get("database"), "sslmode": options.get("ssl")}
    return conninfo({**named, **options})


def sqlite_path(url: URL) -> str:
    """Return the file of an engine. Raises ConfigurationError if it has none."""
    if not url.database or url.database == ":memory:" or "uri" in url.query:
        raise ConfigurationError(
            "receipts in SQLite need a file that is named in the engine's URL, without uri=true"
        )
    return url.database


# -- what an error means --------------------------------------------------------------------------


@contextmanager
def connecting() -> Generator[None]:
    """Turn whatever keeps a connection from being had into StoreUnavailable."""
    try:
        yield
    except Exception as error:
        # Not only SQLAlchemy's own errors: while asyncpg connects, its errors are passed on as
        # they are. Nothing has been done with the connection, so any of them says the same.
        raise StoreUnavailable(
            f"no connection from the engine: {error}", performed=False
        ) from error


@contextmanager
def unavailable(*, performed: Literal[False] | None) -> Generator[None]:
    """Turn "no connection" and "no answer" into StoreUnavailable; other errors pass through."""
    try:
        yield
    except PoolTimeout as error:
        raise StoreUnavailable(
            f"no connection from the engine: {error}", performed=False
        ) from error
    except (DBAPIError, OSError) as error:
        if isinstance(error, DBAPIError) and not _of_the_server(error):
            raise
        raise StoreUnavailable(
            f"the database did not answer: {error}", performed=performed
        ) from error
    except StoreUnavailable as error:
        error.performed = performed
        raise


def _of_the_server(error: DBAPIError) -> bool:
    """Say whether the error is the server's or the connection's, and not the statement's."""
    if isinstance(error, OperationalError | InterfaceError) or error.connection_invalidated:
        return True
    sqlstate: object = getattr(error.orig, "sqlstate", None)
    return isinstance(sqlstate, str) and sqlstate[:2] in TRANSIENT
