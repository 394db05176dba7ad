"""What the middlewares are tested on: their stores, and the ledger that effects are counted in."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar, Unpack, cast

import anyio
import psycopg
from anyio import to_thread
from starlette.types import ASGIApp, Scope

from replayfloor.server import AsyncActiveClaim, IdempotencyMiddleware
from replayfloor.server.locks import AsyncLock, Lock, open_async_lock, open_lock
from replayfloor.server.options import MiddlewareOptions
from replayfloor.server.routes import EffectsOption
from replayfloor.server.stores import (
    AsyncConnection,
    AsyncReceipts,
    Receipts,
    open_async_receipts,
    open_receipts,
)
from replayfloor.server.stores.postgres import PostgresReceipts
from replayfloor.server.stores.postgres_async import AsyncPostgresReceipts
from replayfloor.server.wsgi import WSGIIdempotencyMiddleware
from server.wsgi_app import ClaimView, as_wsgi, scope_of
from server.wsgi_server import ValidatingServer

__all__ = ["Backend", "EffectsOption", "Ledger", "ProtectOptions", "Side", "claim_of"]

Side = Literal["asgi", "wsgi"]
AnyReceipts: TypeAlias = AsyncReceipts | Receipts
AnyLock: TypeAlias = AsyncLock | Lock
S = TypeVar("S", bound=AnyReceipts | AnyLock)

CLOSE_S = 10.0
"""A pool whose server is away gives up a connection attempt after some seconds."""


class ProtectOptions(MiddlewareOptions, total=False):
    """The middlewares' options; stores are URLs or instances of the backend's own side."""

    receipts: object
    lock: object
    principal: Callable[[Scope], str] | None


@dataclass(frozen=True)
class Ledger:
    """A table beside the receipts, without any constraint: only the middleware prevents a second
    row. Whoever counts uses a connection of its own, and so sees what was committed."""

    url: str

    @property
    def _sqlite(self) -> str | None:
        prefix = "sqlite:///"
        return self.url.removeprefix(prefix) if self.url.startswith(prefix) else None

    @property
    def insert(self) -> str:
        """One row; its parameter is the entry."""
        return f"insert into ledger values ({'?' if self._sqlite else '%s'})"

    def create(self) -> None:
        """Make the table."""
        self.run("create table ledger (entry text not null)")

    def write(self, entry: str = "external") -> None:
        """Write a row as another system would: committed at once, whatever becomes of the claim."""
        self.run(self.insert, (entry,))

    async def write_in(self, connection: AsyncConnection, entry: str = "atomic") -> None:
        """Write a row in the receipt's transaction."""
        await connection.execute(self.insert, (entry,))

    def rows(self) -> list[str]:
        """Return the committed entries."""
        return [str(row[0]) for row in self.run("select entry from ledger")]

    def run(self, query: str, params: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        """Run a statement on a connection of its own."""
        if self._sqlite is not None:
            with closing(sqlite3.connect(self._sqlite, timeout=10, isolation_level=None)) as db:
                return db.execute(query, params).fetchall()
        with psycopg.connect(self.url, autocommit=True, connect_timeout=10) as connection:
            cursor = connection.execute(query.encode(), params or None)
            return cursor.fetchall() if cursor.description else []


@dataclass
class Backend:
    """One kind of stores under one kind of server. Everything made here is closed after the test.

    Applications are ASGI, and so is what `protect` returns. On the WSGI side both are translated:
    the middleware is WSGI, and so are the application it calls and the server that calls it.
    """

    name: str
    side: Side
    receipts_url: str
    lock_url: str
    ledger: Ledger
    _made: list[AnyReceipts | AnyLock] = field(default_factory=list)

    @property
    def is_postgres(self) -> bool:
        """Say which of the two databases it is."""
        return self.name == "postgres"

    @property
    def is_wsgi(self) -> bool:
        """Say which of the two middlewares it is."""
        return self.side == "wsgi"

    def receipts(self, url: str | None = None) -> AnyReceipts:
        """Return another store on the same data, as another worker would have, or on a URL's."""
        url = self.receipts_url if url is None else url
        return self._closing(open_receipts(url) if self.is_wsgi else open_async_receipts(url))

    def postgres_receipts(
        self, *, operation_s: float, handler_connections: int = 10
    ) -> AnyReceipts:
        """Return another store that loses patience sooner, or has few connections."""
        made = (PostgresReceipts if self.is_wsgi else AsyncPostgresReceipts)(
            self.receipts_url, operation_s=operation_s, handler_connections=handler_connections
        )
        return self._closing(made)

    def lock(self, url: str | None = None) -> AnyLock:
        """Return another lock on the same data; a local one knows nothing of the others."""
        url = self.lock_url if url is None else url
        return self._closing(open_lock(url) if self.is_wsgi else open_async_lock(url))

    def _closing(self, made: S) -> S:
        self._made.append(made)
        return made

    def bare(self, app: ASGIApp) -> ASGIApp:
        """Return the application as this side's server serves it, without any middleware."""
        return ValidatingServer(as_wsgi(app)) if self.is_wsgi else app

    def protect(self, app: ASGIApp, **options: Unpack[ProtectOptions]) -> ASGIApp:
        """Return one worker: a middleware with stores of its own unless the options bring them."""
        receipts, lock = options.get("receipts"), options.get("lock")
        # A URL is opened here as the middleware would: somebody has to close it.
        if receipts is None or isinstance(receipts, str):
            options["receipts"] = self.receipts(receipts)
        if lock is None or isinstance(lock, str):
            options["lock"] = self.lock(lock)
        options.setdefault("principal", None)
        make = cast("Callable[..., ASGIApp]", self._wsgi if self.is_wsgi else IdempotencyMiddleware)
        return make(app, **options)

    def _wsgi(self, app: ASGIApp, **options: object) -> ASGIApp:
        principal = cast("Callable[[Scope], str] | None", options.pop("principal"))
        of_environ = None if principal is None else lambda environ: principal(scope_of(environ))
        make = cast("Callable[..., WSGIIdempotencyMiddleware]", WSGIIdempotencyMiddleware)
        return ValidatingServer(make(as_wsgi(app), principal=of_environ, **options))

    async def close(self) -> None:
        """Close what was made; a store that a test broke must not hold up the others."""
        made, self._made = self._made, []
        for each in made:
            with anyio.move_on_after(CLOSE_S):
                await close_any(each)


async def close_any(store: AnyReceipts | AnyLock) -> None:
    """Close a store of either side; one that hangs is left to its thread."""
    if iscoroutinefunction(store.close):
        await store.close()
    else:
        await to_thread.run_sync(store.close, abandon_on_cancel=True)


def claim_of(scope: Scope) -> AsyncActiveClaim:
    """Return what the handler finds at `request.state.idempotency`."""
    claim = scope["state"]["idempotency"]
    assert isinstance(claim, AsyncActiveClaim | ClaimView)
    return cast("AsyncActiveClaim", claim)


def sqlite_url(path: Path) -> str:
    """Return the URL of a file in the spelling of the option."""
    return f"sqlite:///{path}"


EMPTIED = (
    "ledger",
    *(f"replayfloor.{name}" for name in ("claims", "receipts", "proofs", "policies", "inbox")),
)


def empty(url: str) -> None:
    """Empty a database that tests use in turn; whom an earlier one left connected is thrown out."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        for table in EMPTIED:
            connection.execute(f"delete from {table}".encode())


async def no_connection_is_left(url: str) -> None:
    """Wait until Postgres has no connection of ours to the database; fail if one stays."""
    query = (
        "select count(*) from pg_stat_activity"
        " where datname = current_database() and application_name = 'replayfloor'"
    )
    left: object = None
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(100):
            left = connection.execute(query).fetchone()
            if left == (0,):
                return
            await anyio.sleep(0.05)
    raise AssertionError(f"connections left: {left}")
