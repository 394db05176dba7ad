"""Receipts for handlers that write through Django's ORM, for WSGI.

In an `atomic` route everything the view writes on the connection is inside the receipt's
transaction, which is a `transaction.atomic` block around the whole view: models, cursors, nested
`atomic` blocks (savepoints then), and `ATOMIC_REQUESTS`. `on_commit` hooks run when it is
committed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

from django.db import Error  # pyright: ignore[reportMissingTypeStubs]

from replayfloor.core.claims import Finish
from replayfloor.core.errors import ConfigurationError, UsageError
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.adapters.django_database import (
    Block,
    Database,
    Driver,
    Execute,
    database_of,
    durable_block,
    receipts_in,
    unavailable,
)
from replayfloor.server.adapters.protocol import OnReceipts
from replayfloor.server.stores import Connection, Cursor, Parameters, Receipts, open_receipts
from replayfloor.server.stores.statements import refuse_control

log = logging.getLogger("replayfloor.server")

ENDED = "the claim's transaction has ended; nothing can be written any more"

OVER = "SQLite has rolled the transaction back after an error; it is over"

LOCK_IN_SQLITE = "delete from replayfloor_claims where 0"
"""Takes the write lock, and changes nothing. Django has begun the transaction already."""

REPLACED = (
    "the view has replaced Django's connection: the receipt's transaction was on the former one, "
    "and on this one each statement would be committed by itself"
)

ELSEWHERE = (
    "a transaction of Django's can only be ended in the thread that began it: its connection is "
    "not known in this one"
)

HALF_DONE = (
    "the answer was complete, or too large to keep, inside of an atomic block of the view; "
    "what is written there cannot be committed with the receipt"
)


class DjangoReceipts(OnReceipts):
    """Receipts in one of Django's databases: Postgres (with psycopg 3) or a SQLite file.

    A view belongs to the thread that Django calls it in, and so does its connection: what it
    writes in threads of its own, or to other databases, is not in the receipt's transaction. Hooks
    of `on_commit` run after the commit and before the answer; one that raises costs this answer,
    and the retry gets the stored one. They do not run if the answer to the commit was lost, even
    if it is found out that it has happened. How long a statement or the commit may take is the
    affair of `DATABASES` (OPTIONS: `connect_timeout`, `tcp_user_timeout`, `options` with a
    `statement_timeout`). Above READ COMMITTED, a view that outlives the first renewal of its lease
    conflicts with it, and is undone. What is done with the driver's connection, past Django, is
    not looked at.

    Args:
        using: the alias of the database in `DATABASES`.
        receipts: where the protocol runs: a URL or a store on the same database. Default: what
            `DATABASES` says.

    Raises ConfigurationError for another database, and for one without AUTOCOMMIT.
    """

    def __init__(self, using: str = "default", receipts: str | Receipts | None = None) -> None:
        """Connect nothing; Django's settings have to be there."""
        chosen = receipts_in(using) if receipts is None else receipts
        super().__init__(open_receipts(chosen) if isinstance(chosen, str) else chosen)
        if not database_of(using).settings_dict["AUTOCOMMIT"]:
            raise ConfigurationError(
                f"AUTOCOMMIT of {using!r} is False: then Django's atomic blocks do not commit"
            )
        self._using = using

    def begin(self, _id: ReceiptId | None = None, /) -> DjangoTransaction:
        """See `replayfloor.core.claims.Begin`."""
        return DjangoTransaction(database_of(self._using), self._receipts.finish_in)


class DjangoTransaction:
    """A view's transaction, on the connection that Django keeps for the request's thread."""

    def __init__(self, database: Database, finish_in: Callable[[object, Finish], bool]) -> None:
        """Open it. Raises StoreUnavailable; UsageError inside of another transaction."""
        self._database, self._finish_in = database, finish_in
        self._ended = self._locked_in_sqlite = False
        with unavailable(performed=False):
            self._block = _begun(database)
        self._driver = database.connection
        self._depth = len(database.savepoint_ids)
        database.execute_wrappers.append(self._watch)
        # The request begins only now, as Django sees it. It would find a connection in the middle
        # of a transaction, take that for a leftover, and close it.
        database.close_if_unusable_or_obsolete = _stay_open

    @property
    def connection(self) -> Connection:
        """The view's connection. Raises UsageError once the transaction has ended."""
        return DjangoConnection(self.lend)

    def lend(self) -> Database:
        """Return Django's connection. Raises UsageError once the transaction has ended."""
        if self._ended:
            raise UsageError(ENDED)
        return self._database

    def commit(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Commit`."""
        self._refuse_elsewhere()
        self.lend()
        finished = False
        try:
            if len(self._database.savepoint_ids) != self._depth:
                raise UsageError(HALF_DONE)
            with unavailable(performed=False):
                finished = self._finish_in(self._database, finish)
            if finished:
                self._end()
                with unavailable(performed=None):
                    self._block.__exit__(None, None, None)
        finally:
            self.rollback()
        return finished

    def rollback(self) -> None:
        """See `replayfloor.core.claims.Rollback`. After a commit it does nothing."""
        if self._ended:
            return
        self._refuse_elsewhere()
        self._end()
        try:
            self._undo()
        except Error:
            # It does not answer; the server rolls back by itself when the connection ends.
            log.warning(
                "a transaction could not be rolled back; its connection goes", exc_info=True
            )
            self._database.close()

    def _undo(self) -> None:
        database = self._database
        if len(database.savepoint_ids) != self._depth:
            # The end of our block would be taken for that of the view's inner one.
            database.close()
        elif not self._depth and (driver := database.connection) is not None:
            # Django would connect anew if this failed at the end of the block, and wait for that.
            try:
                driver.rollback()
            except Exception:  # noqa: BLE001 - the driver's own, which has no name here
                database.close()
        self._block.__exit__(_Undo, _Undo(), None)

    def _end(self) -> None:
        self._ended = True
        with suppress(ValueError):
            self._database.execute_wrappers.remove(self._watch)
        with suppress(AttributeError):  # a connection of Django's own making has the method again
            del self._database.close_if_unusable_or_obsolete

    def _refuse_elsewhere(self) -> None:
        if database_of(self._database.alias) is not self._database:
            raise UsageError(ELSEWHERE)

    # -- the view's statements --------------------------------------------------------------------

    def _watch(
        self, execute: Execute, sql: object, params: object, many: object, context: object
    ) -> object:
        """Run a statement of the view, unless it would end the transaction."""
        if self._database.connection is not self._driver:
            raise UsageError(REPLACED)
        refuse_control(self._database.vendor, _text_of(sql))
        if self._database.vendor == "sqlite" and self._driver is not None:
            self._stay_in_sqlite(self._driver)
        return execute(sql, params, many, context)

    def _stay_in_sqlite(self, driver: Driver) -> None:
        """Take the write lock before the first statement; refuse to go on if all is over.

        A view that reads first gets the lock in vain if another has written meanwhile, whatever
        the time it would wait. And some errors end a transaction in SQLite (a full disk,
        "or rollback"); whatever came after that would be committed statement by statement.
        """
        if not driver.in_transaction:
            raise UsageError(OVER)
        if not self._locked_in_sqlite:
            with self._database.wrap_database_errors:
                driver.execute(LOCK_IN_SQLITE)
        self._locked_in_sqlite = True


def _begun(database: Database) -> Block:
    """Enter the block that the view runs in."""
    if not database.in_atomic_block:
        # Of an earlier request, perhaps, and closed by the server since.
        database.close_if_unusable_or_obsolete()
    # Durable: nobody else's transaction is around it, whose end would be the real one.
    block = durable_block(database.alias)
    try:
        block.__enter__()
    except RuntimeError as error:
        raise UsageError(f"an atomic route inside of another transaction: {error}") from error
    return block


def _stay_open() -> None:
    """Leave the connection as it is, in place of Django's look at it between two requests."""


class _Undo(Exception):
    """Ends Django's block without a commit."""


class DjangoConnection:
    """What `claim.connection` is: Django's connection, and `execute` as elsewhere."""

    def __init__(self, lend: Callable[[], Database]) -> None:
        """Look at the connection of a transaction."""
        lend()
        self._lend = lend

    def execute(self, query: str, params: Parameters | None = None) -> Cursor:
        """Run one statement, with `%s` or `%(name)s` parameters. Raises UsageError."""
        cursor = self._lend().cursor()
        cursor.execute(query, params)
        return cursor

    def __getattr__(self, name: str) -> object:
        """Return an attribute of Django's connection. Raises UsageError once it has ended."""
        value: object = getattr(self._lend(), name)
        return value


def _text_of(sql: object) -> str:
    """Return a statement as text, also one that was composed with `psycopg.sql`."""
    if isinstance(sql, str):
        return sql
    as_string: Callable[[None], str] | None = getattr(sql, "as_string", None)
    return "" if as_string is None else as_string(None)
