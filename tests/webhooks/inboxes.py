"""The inboxes of the tests in both colours, and what has become of the events in them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import cast

import anyio
import psycopg
from anyio import to_thread

from replayfloor.server.sealing import Cipher, Sealer
from replayfloor.server.stores import AsyncConnection, Connection
from replayfloor.server.stores.inbox import AsyncInbox
from replayfloor.server.stores.inbox_async import AsyncPostgresInbox
from replayfloor.server.stores.inbox_blocking import PostgresInbox
from replayfloor.server.stores.inbox_put import put, put_async
from replayfloor.server.webhooks.inbox.values import InboxItem
from replayfloor.testing.inbox_subject import (
    ELSEWHERE,
    NAMESPACE,
    InboxSubject,
    Putting,
    inbox_in_threads,
)

LOOK_S = 0.02
INSERT = "insert into ledger (entry, run) values (%s, %s)"


@dataclass(frozen=True)
class Database:
    """The database of an inbox, as an onlooker sees it."""

    url: str

    def run(self, query: str, *params: object) -> list[tuple[object, ...]]:
        """Run a statement on a connection of its own."""
        with psycopg.connect(self.url, autocommit=True) as database:
            cursor = database.execute(query.encode(), params or None)
            return cursor.fetchall() if cursor.description else []

    def put(self, *items: InboxItem, cipher: Cipher | None = None) -> None:
        """Put events in, each in a transaction of its own."""
        with psycopg.connect(self.url) as database:
            for each in items:
                with database.transaction():
                    put(cast("Connection", database), each, Sealer(cipher))

    def write(self, entry: str, run: str = "") -> None:
        """Write into the ledger as another system would: committed at once."""
        self.run(INSERT, entry, run)

    def applied(self) -> list[str]:
        """Return what the handlers have written, in its order."""
        return [str(entry) for (entry,) in self.run("select entry from ledger order by seq")]

    def runs(self) -> list[str]:
        """Return who has written it."""
        return [str(run) for (run,) in self.run("select run from ledger order by seq")]

    def left(self) -> dict[str, tuple[object, ...]]:
        """Return state, attempts and last error of what is in the inbox, by event id."""
        query = "select event_id, state, attempts, last_error from replayfloor.inbox order by seq"
        return {str(row[0]): row[1:] for row in self.run(query)}


async def until(condition: Callable[[], object], within_s: float = 20.0) -> None:
    """Wait until a condition holds; fail if it does not before long."""
    for _ in range(round(within_s / LOOK_S)):
        if await to_thread.run_sync(condition):
            return
        await anyio.sleep(LOOK_S)
    raise AssertionError(f"it did not come true within {within_s} s")


async def sleep_ms(pause_ms: int) -> None:
    """Let the database's own clock run."""
    await anyio.sleep(pause_ms / 1000)


@asynccontextmanager
async def async_subject(url: str) -> AsyncGenerator[InboxSubject]:
    """Two asynchronous inboxes on one database."""
    made = partial(AsyncPostgresInbox, url, workers=3)
    stores = [made(namespace=name) for name in (NAMESPACE, NAMESPACE, ELSEWHERE)]

    async def write(connection: AsyncConnection, entry: str) -> None:
        await connection.execute(INSERT, (entry, ""))

    async def insert(event: InboxItem) -> bool:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            return await put_async(cast("AsyncConnection", connection), event, Sealer(None))

    yield _subject(url, stores, insert, write)
    for each in stores:
        await each.close()


@asynccontextmanager
async def blocking_subject(url: str) -> AsyncGenerator[InboxSubject]:
    """Two blocking inboxes on one database, each call in a thread."""
    made = partial(PostgresInbox, url, workers=3)
    stores = [inbox_in_threads(made(namespace=name)) for name in (NAMESPACE, NAMESPACE, ELSEWHERE)]

    async def write(connection: AsyncConnection, entry: str) -> None:
        execute = cast("Connection", connection).execute
        await to_thread.run_sync(execute, INSERT, (entry, ""))

    def insert_blocking(event: InboxItem) -> bool:
        with psycopg.connect(url) as connection:
            return put(cast("Connection", connection), event, Sealer(None))

    async def insert(event: InboxItem) -> bool:
        return await to_thread.run_sync(insert_blocking, event)

    yield _subject(url, stores, insert, write)
    for each in stores:
        await each.close()


def _subject(
    url: str,
    stores: list[AsyncPostgresInbox] | list[AsyncInbox],
    insert: Callable[[InboxItem], object],
    write: Callable[[AsyncConnection, str], object],
) -> InboxSubject:
    database = Database(url)

    @asynccontextmanager
    async def putting(event: InboxItem) -> AsyncGenerator[Putting]:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            await put_async(cast("AsyncConnection", connection), event, Sealer(None))
            yield connection
            await connection.rollback()

    async def written() -> list[str]:
        return await to_thread.run_sync(database.applied)

    return InboxSubject(
        inbox=stores[0],
        other=stores[1],
        elsewhere=stores[2],
        put=insert,  # type: ignore[arg-type]
        putting=putting,
        write=write,  # type: ignore[arg-type]
        written=written,
        pass_ms=sleep_ms,
    )
