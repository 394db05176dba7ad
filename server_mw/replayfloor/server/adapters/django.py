"""Receipts for handlers that write through Django's ORM, for WSGI.

In an `atomic` route everything the view writes on the connection is inside the receipt's
transaction, which is a `transaction.atomic` block around the whole view: models, cursors, nested
`atomic` blocks (savepoints then), and `ATOMIC_REQUESTS`. `on_commit` hooks run when it is
committed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Literal, Protocol, cast

from django.db import (  # pyright: ignore[reportMissingTypeStubs]
    DatabaseError,
    InterfaceError,
    OperationalError,
    connections,
    transaction,
)
from psycopg.conninfo import make_conninfo

from replayfloor.core.claims import Abandon, Claim, ClaimAnswer, Finish, Renew
from replayfloor.core.errors import ConfigurationError, StoreUnavailable, UsageError
from replayfloor.server.stores import Connection, Cursor, Parameters, Receipts, open_receipts
from replayfloor.server.stores.postgres import PostgresReceipts
from replayfloor.server.stores.sqlite import SQLiteReceipts
from replayfloor.server.stores.statements import refuse_control

ENDED = "the claim's transaction has ended; nothing can be written any more"


class DjangoReceipts:
    """Receipts in one of Django's databases: Postgres (with psycopg 3) or a SQLite file.

    Args:
        using: the alias of the database in `DATABASES`.
        receipts: where the protocol runs: a URL or a store on the same database. Default: what
            `DATABASES` says.

    Raises ConfigurationError for another database.
    """

    def __init__(self, using: str = "default", receipts: str | Receipts | None = None) -> None:
        """Connect nothing; Django's settings have to be there."""
        self._using = using
        if receipts is None:
            self._receipts = _receipts(using)
        else:
            self._receipts = open_receipts(receipts) if isinstance(receipts, str) else receipts

    def open(self) -> None:
        """Be ready for use. Raises SchemaMissing, StoreUnavailable."""
        self._receipts.open()

    def close(self) -> None:
        """Give the protocol's connections back; Django's are Django's."""
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

    def begin(self) -> DjangoTransaction:
        """See `replayfloor.core.claims.Begin`."""
        return DjangoTransaction(self._using, self._receipts.finish_in)

    def finish_in(self, connection: object, finish: Finish) -> bool:
        """See `replayfloor.server.stores.Receipts.finish_in`."""
        return self._receipts.finish_in(connection, finish)


class DjangoTransaction:
    """A view's transaction, on the connection that Django keeps for the request's thread."""

    def __init__(self, using: str, finish_in: Callable[[object, Finish], bool]) -> None:
        """Open it. Raises StoreUnavailable; UsageError inside of another transaction."""
        self._using, self._finish_in = using, finish_in
        self._ended = False
        database = _database(using)
        with unavailable(performed=False):
            # Of an earlier request, perhaps, and closed by the server since.
            database.close_if_unusable_or_obsolete()
            # Durable: nobody else's transaction is around it, whose end would be the real one.
            self._block = _atomic(using)
            try:
                self._block.__enter__()
            except RuntimeError as error:
                raise UsageError(
                    f"an atomic route inside of another transaction: {error}"
                ) from error
        # The request begins only now, as Django sees it. It would find a connection in the middle
        # of a transaction, take that for a leftover, and close it.
        database.close_if_unusable_or_obsolete = _stay_open

    @property
    def connection(self) -> Connection:
        """The view's connection. Raises UsageError once the transaction has ended."""
        if self._ended:
            raise UsageError(ENDED)
        return DjangoConnection(self._using, self)

    @property
    def ended(self) -> bool:
        """Whether nothing can be written any more."""
        return self._ended

    def commit(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Commit`."""
        if self._ended:
            raise UsageError(ENDED)
        finished = False
        try:
            with unavailable(performed=False):
                finished = self._finish_in(_database(self._using), finish)
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
        self._end()
        undo = _Undo()
        try:
            self._block.__exit__(_Undo, undo, None)
        except DatabaseError:
            # It does not answer; the server rolls back by itself when the connection ends.
            _database(self._using).close()


    def _end(self) -> None:
        self._ended = True
        with suppress(AttributeError):  # a connection of Django's own making has the method again
            del _database(self._using).close_if_unusable_or_obsolete


def _stay_open() -> None:
    """Leave the connection as it is, in place of Django's look at it between two requests."""


class _Undo(Exception):
    """Ends Django's block without a commit."""


class DjangoConnection:
    """What `claim.connection` is: Django's connection, and `execute` as elsewhere."""

    def __init__(self, using: str, transaction_: DjangoTransaction) -> None:
        """Look at the connection of a transaction."""
        self._using, self._transaction = using, transaction_

    def execute(self, query: str, params: Parameters | None = None) -> Cursor:
        """Run one statement, with `%s` or `%(name)s` parameters. Raises UsageError."""
        database = self._lend()
        refuse_control(database.vendor, query)
        cursor = database.cursor()
        cursor.execute(query, params)
        return cursor

    def __getattr__(self, name: str) -> object:
        """Return an attribute of Django's connection. Raises UsageError once it has ended."""
        value: object = getattr(self._lend(), name)
        return value

    def _lend(self) -> _Database:
        if self._transaction.ended:
            raise UsageError(ENDED)
        return _database(self._using)


def _receipts(using: str) -> Receipts:
    """Return receipts in one of Django's databases. Raises ConfigurationError."""
    database = _database(using)
    settings = database.settings_dict
    match database.vendor:
        case "postgresql":
            names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password"}
            names |= {"HOST": "host", "PORT": "port"}
            parts = {libpq: str(settings[name]) for name, libpq in names.items() if settings[name]}
            return PostgresReceipts(make_conninfo("", **parts))
        case "sqlite" if "memory" not in str(settings["NAME"]):
            return SQLiteReceipts(str(settings["NAME"]))
        case vendor:
            raise ConfigurationError(
                f"receipts through Django need Postgres or a SQLite file; {using!r} is {vendor}"
            )


@contextmanager
def unavailable(*, performed: Literal[False] | None) -> Generator[None]:
    """Turn "no connection" and "no answer" into StoreUnavailable; other errors pass through."""
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        raise StoreUnavailable(
            f"the database did not answer: {error}", performed=performed
        ) from error
    except StoreUnavailable as error:
        error.performed = performed
        raise


# -- Django has no types of its own; this is what is used of it -----------------------------------


class _DatabaseCursor(Cursor, Protocol):
    def execute(self, sql: str, params: Parameters | None = None) -> object: ...


class _Database(Protocol):
    vendor: str
    settings_dict: Mapping[str, object]

    def cursor(self) -> _DatabaseCursor: ...

    def close(self) -> None: ...

    close_if_unusable_or_obsolete: Callable[[], None]


class _Atomic(Protocol):
    def __enter__(self) -> object: ...

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: None
    ) -> object: ...


def _database(using: str) -> _Database:
    return cast("_Database", connections[using])


def _atomic(using: str) -> _Atomic:
    atomic = cast("Callable[..., _Atomic]", getattr(transaction, "atomic"))  # noqa: B009 - untyped
    return atomic(using=using, durable=True)
