"""The stores that the middleware is tested on, and the ledger that its effects are counted in."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Literal, TypedDict, Unpack

import anyio
import psycopg
from starlette.types import ASGIApp, Scope

from replayfloor.server import (
    AsyncActiveClaim,
    AsyncLock,
    AsyncReceipts,
    IdempotencyMiddleware,
    Route,
    ServerEvent,
)
from replayfloor.server.locks import open_async_lock
from replayfloor.server.stores import AsyncConnection, open_async_receipts

EffectsOption = Literal["atomic", "external"]

CLOSE_S = 3.0


class MiddlewareOptions(TypedDict, total=False):
    """The middleware's options, as the tests set them."""

    receipts: str | AsyncReceipts
    lock: str | AsyncLock
    principal: Callable[[Scope], str] | None
    routes: Sequence[Route] | None
    required: bool
    effects: EffectsOption
    methods: Sequence[str]
    retention: timedelta | float | None
    lease_s: float
    wait_for_s: float
    namespace: str
    body_bytes_max: int
    response_bytes_max: int
    accept_unquoted: bool
    documentation: str
    on_event: Callable[[ServerEvent], None] | None


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
        self._run("create table ledger (entry text not null)")

    def write(self, entry: str = "external") -> None:
        """Write a row as another system would: committed at once, whatever becomes of the claim."""
        self._run(self.insert, (entry,))

    async def write_in(self, connection: AsyncConnection, entry: str = "atomic") -> None:
        """Write a row in the receipt's transaction."""
        await connection.execute(self.insert, (entry,))

    def rows(self) -> list[str]:
        """Return the committed entries."""
        return [str(row[0]) for row in self._run("select entry from ledger")]

    def _run(self, query: str, params: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        if self._sqlite is not None:
            with closing(sqlite3.connect(self._sqlite, timeout=10, isolation_level=None)) as db:
                return db.execute(query, params).fetchall()
        with psycopg.connect(self.url, autocommit=True, connect_timeout=10) as connection:
            cursor = connection.execute(query.encode(), params or None)
            return cursor.fetchall() if cursor.description else []


@dataclass
class Backend:
    """One kind of stores. Everything made here is closed after the test."""

    name: str
    receipts_url: str
    lock_url: str
    ledger: Ledger
    _made: list[AsyncReceipts | AsyncLock] = field(default_factory=list)

    @property
    def is_postgres(self) -> bool:
        """Say which of the two it is."""
        return self.name == "postgres"

    def receipts(self) -> AsyncReceipts:
        """Return another store on the same data, as another worker would have."""
        made = open_async_receipts(self.receipts_url)
        self._made.append(made)
        return made

    def lock(self) -> AsyncLock:
        """Return another lock on the same data; a local one knows nothing of the others."""
        made = open_async_lock(self.lock_url)
        self._made.append(made)
        return made

    def protect(self, app: ASGIApp, **options: Unpack[MiddlewareOptions]) -> IdempotencyMiddleware:
        """Return one worker: a middleware with stores of its own unless the options bring them."""
        options.setdefault("receipts", self.receipts())
        options.setdefault("lock", self.lock())
        options.setdefault("principal", None)
        return IdempotencyMiddleware(app, **options)

    async def close(self) -> None:
        """Close what was made; a store that a test broke must not hold up the others."""
        made, self._made = self._made, []
        for each in made:
            with anyio.move_on_after(CLOSE_S):
                await each.close()


def claim_of(scope: Scope) -> AsyncActiveClaim:
    """Return what the handler finds at `request.state.idempotency`."""
    claim = scope["state"]["idempotency"]
    assert isinstance(claim, AsyncActiveClaim)
    return claim


def sqlite_url(path: Path) -> str:
    """Return the URL of a file in the spelling of the option."""
    return f"sqlite:///{path}"


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
