"""The adapters made ready for the receipts contract, with a ledger beside them."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar, cast
from unittest.mock import patch

import anyio
import django
import psycopg
from anyio import to_thread
from django.conf import settings
from django.db import connections
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine

from contract.own_connections import Own
from contract.subjects import sleep_ms, writer
from replayfloor.core.claims import Finish
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.adapters.django import DjangoReceipts
from replayfloor.server.adapters.sqlalchemy import SQLAlchemyReceipts
from replayfloor.server.adapters.sqlalchemy_async import AsyncSQLAlchemyReceipts
from replayfloor.server.stores import (
    AsyncConnection,
    AsyncCursor,
    AsyncReceipts,
    AsyncTransaction,
    Parameters,
    Receipts,
    Transaction,
)
from replayfloor.testing.contract import OwnTransaction, ReceiptsSubject
from replayfloor.testing.threads import in_threads

T = TypeVar("T")
Write = Callable[[AsyncConnection, ReceiptId], Awaitable[None]]
Count = Callable[[ReceiptId], Awaitable[int]]
Opened = Callable[..., AbstractAsyncContextManager[OwnTransaction]]

_numbers = itertools.count(1)


# -- SQLAlchemy -----------------------------------------------------------------------------------


@asynccontextmanager
async def async_sqlalchemy_subject(
    address: str, driver: str, own: Own
) -> AsyncGenerator[ReceiptsSubject]:
    """Two asynchronous engines and their receipts on one migrated database."""
    url = address.replace("postgresql:", f"postgresql+{driver}:", 1)
    engines = [create_async_engine(url) for _ in range(2)]
    stores = [AsyncSQLAlchemyReceipts(engine) for engine in engines]
    with _postgres_ledger(address) as count:
        yield _subject(stores, _write_as_text, count, partial(own, address))
    for store in stores:
        await store.close()
    for engine in engines:
        await engine.dispose()


@asynccontextmanager
async def sqlalchemy_subject(
    address: str, driver: str, own: Own
) -> AsyncGenerator[ReceiptsSubject]:
    """Two blocking engines and their receipts on one migrated database."""
    url = address.replace("postgresql:", f"postgresql+{driver}:", 1)
    with _postgres_ledger(address) as count:
        async with _on_engines(url, count, partial(own, address)) as subject:
            yield subject


@asynccontextmanager
async def sqlalchemy_sqlite_subject(path: Path, own: Own) -> AsyncGenerator[ReceiptsSubject]:
    """Two blocking engines and their receipts on one file."""
    opened = partial(own, str(path))
    async with _on_engines(f"sqlite:///{path}", _sqlite_ledger(path), opened) as subject:
        yield subject


@asynccontextmanager
async def _on_engines(url: str, count: Count, opened: Opened) -> AsyncGenerator[ReceiptsSubject]:
    engines = [create_engine(url) for _ in range(2)]
    stores = [in_threads(SQLAlchemyReceipts(engine)) for engine in engines]
    yield _subject(stores, _write_as_text, count, opened)
    for store in stores:
        await store.close()
    for engine in engines:
        engine.dispose()


async def _write_as_text(connection: AsyncConnection, id_: ReceiptId) -> None:
    execute = cast("Callable[..., Awaitable[object]]", connection.execute)
    await execute(text("insert into ledger values (:id)"), {"id": id_})


# -- Django ---------------------------------------------------------------------------------------


def django_database(address: str | Path, **more: object) -> dict[str, object]:
    """Return an entry of DATABASES for a Postgres URL or a SQLite file."""
    if isinstance(address, Path):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(address), **more}
    parts = conninfo_to_dict(address)
    names = {"NAME": "dbname", "USER": "user", "HOST": "host", "PORT": "port"}
    engine = {"ENGINE": "django.db.backends.postgresql"}
    return {**engine, **{name: parts[libpq] for name, libpq in names.items()}, **more}


@contextmanager
def django_databases(**databases: Mapping[str, object]) -> Iterator[None]:
    """Let these be Django's databases for a while."""
    if not settings.configured:
        settings.configure(LOGGING_CONFIG=None)
    django.setup()  # may be called again
    configured = connections.configure_settings({"default": {}, **databases})
    with patch.object(connections, "settings", configured):
        yield


@asynccontextmanager
async def django_subject(
    address: str | Path, count: Count, own: Own
) -> AsyncGenerator[ReceiptsSubject]:
    """Two receipts of Django's on one database; transactions have a thread of their own each."""
    # A thread keeps a connection by its alias, and so would meet an earlier test's.
    alias = f"contract_{next(_numbers)}"
    with django_databases(**{alias: django_database(address)}):
        stores = [_OwnThreads(DjangoReceipts(alias), alias) for _ in range(2)]
        opened = partial(own, str(address))
        yield _subject(stores, writer("insert into ledger values (%s)"), count, opened)
        for store in stores:
            await store.close()


@asynccontextmanager
async def django_postgres_subject(address: str, own: Own) -> AsyncGenerator[ReceiptsSubject]:
    """Django on Postgres."""
    with _postgres_ledger(address) as count:
        async with django_subject(address, count, own) as subject:
            yield subject


@asynccontextmanager
async def django_sqlite_subject(path: Path, own: Own) -> AsyncGenerator[ReceiptsSubject]:
    """Django on a SQLite file."""
    async with django_subject(path, _sqlite_ledger(path), own) as subject:
        yield subject


class _OwnThreads:
    """Blocking receipts as asynchronous ones, each transaction in one thread from begin to end.

    Django's connections are a thread's own.
    """

    def __init__(self, receipts: Receipts, alias: str) -> None:
        self._plain, self._receipts, self._alias = in_threads(receipts), receipts, alias
        self._threads: list[ThreadPoolExecutor] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._plain, name)

    async def begin(self, _id: ReceiptId | None = None, /) -> AsyncTransaction:
        thread = ThreadPoolExecutor(1)
        self._threads.append(thread)
        return _InThread(thread, await _run(thread, self._receipts.begin))

    async def close(self) -> None:
        await self._plain.close()
        threads, self._threads = self._threads, []
        for thread in threads:
            await _run(thread, lambda: connections[self._alias].close())
            thread.shutdown()


@dataclass
class _InThread:
    thread: ThreadPoolExecutor
    transaction: Transaction

    @property
    def connection(self) -> AsyncConnection:
        return _Connection(self)

    async def commit(self, finish: Finish) -> bool:
        return await _run(self.thread, partial(self.transaction.commit, finish))

    async def rollback(self) -> None:
        await _run(self.thread, self.transaction.rollback)


@dataclass
class _Connection:
    transaction: _InThread

    async def execute(self, query: str, params: Parameters | None = None) -> AsyncCursor:
        def run() -> AsyncCursor:
            self.transaction.transaction.connection.execute(query, params)
            return cast("AsyncCursor", None)  # the contract reads nothing in a transaction

        return await _run(self.transaction.thread, run)


async def _run(thread: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    future: Future[T] = thread.submit(work)
    return await to_thread.run_sync(future.result)


# -- both -----------------------------------------------------------------------------------------


def _subject(
    stores: Sequence[object], write: Write, count: Count, opened: Opened
) -> ReceiptsSubject:
    first, second = cast("Sequence[AsyncReceipts]", stores)
    return ReceiptsSubject(
        first, second, sleep_ms, write, count, opened, partial(opened, autocommit=True)
    )


@contextmanager
def _postgres_ledger(address: str) -> Iterator[Count]:
    with psycopg.connect(address, autocommit=True) as database:
        database.execute("create table if not exists ledger (id bytea)")

        async def count(id_: ReceiptId) -> int:
            row = database.execute("select count(*) from ledger where id = %s", (id_,)).fetchone()
            assert row is not None
            return int(row[0])

        yield count


def _sqlite_ledger(path: Path) -> Count:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("create table ledger (id blob)")

    async def count(id_: ReceiptId) -> int:
        await anyio.lowlevel.checkpoint()
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            query = "select count(*) from ledger where id = ?"
            return int(database.execute(query, (id_,)).fetchone()[0])

    return count
