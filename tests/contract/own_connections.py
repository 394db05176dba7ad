"""Connections of a handler's own, of every library that a store can finish a receipt in.

Each is opened in a transaction, or, with `autocommit`, so that it commits each statement.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol
from unittest.mock import patch

import aiosqlite
import django
import psycopg
from anyio import to_thread
from django.conf import settings
from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ConnectionHandler
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow, dict_row
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from replayfloor.core.fingerprint import ReceiptId
from replayfloor.testing.contract import OwnTransaction

PYFORMAT = "insert into ledger values (%s)"
QMARK = "insert into ledger values (?)"
NAMED = text("insert into ledger values (:id)")


class Own(Protocol):
    """Opens a connection to the database of a URL, or to a SQLite file."""

    def __call__(
        self, address: str, *, autocommit: bool = False
    ) -> AbstractAsyncContextManager[OwnTransaction]: ...


@dataclass
class AsyncTransaction:
    """A transaction of an asynchronous library."""

    connection: object
    insert: Callable[[ReceiptId], Awaitable[object]]
    end: Callable[[], Awaitable[object]]
    undo: Callable[[], Awaitable[object]]

    async def write(self, id_: ReceiptId) -> None:
        await self.insert(id_)

    async def commit(self) -> None:
        await self.end()

    async def rollback(self) -> None:
        await self.undo()


@dataclass
class BlockingTransaction:
    """A transaction of a blocking library."""

    connection: object
    insert: Callable[[ReceiptId], object]
    end: Callable[[], object]
    undo: Callable[[], object]

    async def write(self, id_: ReceiptId) -> None:
        await to_thread.run_sync(self.insert, id_)

    async def commit(self) -> None:
        await to_thread.run_sync(self.end)

    async def rollback(self) -> None:
        await to_thread.run_sync(self.undo)


# -- the drivers ------------------------------------------------------------------------------


@asynccontextmanager
async def psycopg_async(
    address: str, *, autocommit: bool = False
) -> AsyncGenerator[OwnTransaction]:
    """psycopg.AsyncConnection."""
    async with await psycopg.AsyncConnection.connect(address, autocommit=autocommit) as own:
        yield AsyncTransaction(
            own, lambda id_: own.execute(PYFORMAT, (id_,)), own.commit, own.rollback
        )


@asynccontextmanager
async def psycopg_blocking(
    address: str, *, autocommit: bool = False
) -> AsyncGenerator[OwnTransaction]:
    """psycopg.Connection."""
    with psycopg.connect(address, autocommit=autocommit) as own:
        yield BlockingTransaction(
            own, lambda id_: own.execute(PYFORMAT, (id_,)), own.commit, own.rollback
        )


@asynccontextmanager
async def psycopg_block(
    address: str, *, autocommit: bool = False
) -> AsyncGenerator[OwnTransaction]:
    """psycopg.Connection in autocommit mode, with a transaction block and rows as dicts."""
    with psycopg.Connection[DictRow].connect(address, autocommit=True, row_factory=dict_row) as own:
        if not autocommit:
            own.execute("begin")
        yield BlockingTransaction(
            own, lambda id_: own.execute(PYFORMAT, (id_,)), own.commit, own.rollback
        )


@asynccontextmanager
async def sqlite3_implicit(
    address: str, *, autocommit: bool = False
) -> AsyncGenerator[OwnTransaction]:
    """sqlite3.Connection, which begins by itself before a write."""
    mode: Literal["DEFERRED"] | None = None if autocommit else "DEFERRED"
    own = sqlite3.connect(address, isolation_level=mode, check_same_thread=False)
    with closing(own):
        yield BlockingTransaction(
            own, lambda id_: own.execute(QMARK, (id_,)), own.commit, own.rollback
        )


@asynccontextmanager
async def sqlite3_explicit(
    address: str, *, autocommit: bool = False
) -> AsyncGenerator[OwnTransaction]:
    """sqlite3.Connection in a transaction that the handler began, and with rows as dicts."""
    own = sqlite3.connect(address, isolation_level=None, check_same_thread=False)
    own.row_factory = lambda cursor, row: dict(zip(cursor.description, row, strict=True))
    with closing(own):
        if not autocommit:
            own.execute("begin immediate")
        yield BlockingTransaction(
            own, lambda id_: own.execute(QMARK, (id_,)), own.commit, own.rollback
        )


@asynccontextmanager
async def sqlite3_in_place(
    address: str, *, autocommit: bool = False
) -> AsyncGenerator[OwnTransaction]:
    """sqlite3.Connection of the thread that the event loop runs in, usable in no other."""
    mode: Literal["DEFERRED"] | None = None if autocommit else "DEFERRED"
    with closing(sqlite3.connect(address, isolation_level=mode)) as own:

        async def insert(id_: ReceiptId) -> None:
            own.execute(QMARK, (id_,))

        async def end() -> None:
            own.commit()

        async def undo() -> None:
            own.rollback()

        yield AsyncTransaction(own, insert, end, undo)


@asynccontextmanager
async def aiosqlite_connection(
    address: str, *, autocommit: bool = False
) -> AsyncGenerator[OwnTransaction]:
    """aiosqlite.Connection."""
    mode: Literal["DEFERRED"] | None = None if autocommit else "DEFERRED"
    async with aiosqlite.connect(address, isolation_level=mode) as own:
        own.row_factory = aiosqlite.Row

        async def insert(id_: ReceiptId) -> None:
            await own.execute(QMARK, (id_,))

        yield AsyncTransaction(own, insert, own.commit, own.rollback)


# -- SQLAlchemy ---------------------------------------------------------------------------------


def _sqlalchemy_url(address: str, driver: str) -> str:
    if driver in ("pysqlite", "aiosqlite"):
        return f"sqlite+{driver}:///{address}"
    return address.replace("postgresql:", f"postgresql+{driver}:", 1)


def sqlalchemy_connection(driver: str) -> Own:
    """sqlalchemy.Connection."""

    @asynccontextmanager
    async def opened(address: str, *, autocommit: bool = False) -> AsyncGenerator[OwnTransaction]:
        engine = create_engine(_sqlalchemy_url(address, driver))
        level = {"isolation_level": "AUTOCOMMIT"} if autocommit else {}
        with closing(engine.connect().execution_options(**level)) as own:
            yield BlockingTransaction(
                own, lambda id_: own.execute(NAMED, {"id": id_}), own.commit, own.rollback
            )
        engine.dispose()

    return opened


def sqlalchemy_session(driver: str) -> Own:
    """sqlalchemy.orm.Session, and for autocommit a scoped_session."""

    @asynccontextmanager
    async def opened(address: str, *, autocommit: bool = False) -> AsyncGenerator[OwnTransaction]:
        level = {"isolation_level": "AUTOCOMMIT"} if autocommit else {}
        engine = create_engine(_sqlalchemy_url(address, driver), **level)
        made = sessionmaker(engine)
        # One that is scoped belongs to a thread, unless told otherwise.
        own: Session | scoped_session[Session] = (
            scoped_session(made, scopefunc=lambda: 0) if autocommit else made()
        )
        with closing(own):
            yield BlockingTransaction(
                own, lambda id_: own.execute(NAMED, {"id": id_}), own.commit, own.rollback
            )
        engine.dispose()

    return opened


def sqlalchemy_async_connection(driver: str) -> Own:
    """sqlalchemy.ext.asyncio.AsyncConnection."""

    @asynccontextmanager
    async def opened(address: str, *, autocommit: bool = False) -> AsyncGenerator[OwnTransaction]:
        level = {"isolation_level": "AUTOCOMMIT"} if autocommit else {}
        engine = create_async_engine(_sqlalchemy_url(address, driver), **level)
        async with engine.connect() as own:
            yield AsyncTransaction(
                own, lambda id_: own.execute(NAMED, {"id": id_}), own.commit, own.rollback
            )
        await engine.dispose()

    return opened


def sqlalchemy_async_session(driver: str) -> Own:
    """sqlalchemy.ext.asyncio.AsyncSession."""

    @asynccontextmanager
    async def opened(address: str, *, autocommit: bool = False) -> AsyncGenerator[OwnTransaction]:
        level = {"isolation_level": "AUTOCOMMIT"} if autocommit else {}
        engine = create_async_engine(_sqlalchemy_url(address, driver), **level)
        async with AsyncSession(engine) as own:
            yield AsyncTransaction(
                own, lambda id_: own.execute(NAMED, {"id": id_}), own.commit, own.rollback
            )
        await engine.dispose()

    return opened


# -- Django -------------------------------------------------------------------------------------


def _django_connection(address: str) -> BaseDatabaseWrapper:
    if not settings.configured:
        settings.configure(LOGGING_CONFIG=None)
    django.setup()  # may be called again
    if address.startswith("postgresql:"):
        parts = conninfo_to_dict(address)
        options = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts["dbname"],
            "USER": parts["user"],
            "HOST": parts["host"],
            "PORT": parts["port"],
        }
    else:
        options = {"ENGINE": "django.db.backends.sqlite3", "NAME": address}
    connection = ConnectionHandler({"default": options})["default"]
    connection.inc_thread_sharing()
    return connection


def _insert(connection: BaseDatabaseWrapper, id_: ReceiptId) -> None:
    with connection.cursor() as cursor:
        cursor.execute(PYFORMAT, (id_,))


@asynccontextmanager
async def django_atomic(
    address: str, *, autocommit: bool = False
) -> AsyncGenerator[OwnTransaction]:
    """django.db.connection inside of atomic()."""
    own = _django_connection(address)
    # Where atomic() looks the connection up; there is no project with settings here.
    with patch("django.db.transaction.get_connection", lambda using=None: own):
        block = transaction.Atomic(None, savepoint=True, durable=False)
        if not autocommit:
            await to_thread.run_sync(block.__enter__)
        yield BlockingTransaction(
            own,
            partial(_insert, own),
            partial(block.__exit__, None, None, None),
            partial(block.__exit__, Exception, Exception(), None),
        )
        await to_thread.run_sync(own.close)


@asynccontextmanager
async def django_manual(
    address: str, *, autocommit: bool = False
) -> AsyncGenerator[OwnTransaction]:
    """django.db.connection whose autocommit the application has switched off."""
    own = _django_connection(address)
    await to_thread.run_sync(own.set_autocommit, autocommit)
    yield BlockingTransaction(own, partial(_insert, own), own.commit, own.rollback)
    await to_thread.run_sync(own.close)


# -- which store finishes in which --------------------------------------------------------------

IN_POSTGRES: dict[str, Own] = {
    "psycopg": psycopg_blocking,
    "psycopg-block": psycopg_block,
    "sqlalchemy-psycopg": sqlalchemy_connection("psycopg"),
    "sqlalchemy-psycopg2": sqlalchemy_connection("psycopg2"),
    "sqlalchemy-session": sqlalchemy_session("psycopg"),
    "django-atomic": django_atomic,
    "django-manual": django_manual,
}
IN_POSTGRES_ASYNC: dict[str, Own] = {
    "psycopg": psycopg_async,
    "sqlalchemy-psycopg": sqlalchemy_async_connection("psycopg"),
    "sqlalchemy-asyncpg": sqlalchemy_async_connection("asyncpg"),
    "sqlalchemy-session": sqlalchemy_async_session("asyncpg"),
}
IN_SQLITE: dict[str, Own] = {
    "sqlite3-implicit": sqlite3_implicit,
    "sqlite3-explicit": sqlite3_explicit,
    "sqlalchemy": sqlalchemy_connection("pysqlite"),
    "sqlalchemy-session": sqlalchemy_session("pysqlite"),
    "django-atomic": django_atomic,
    "django-manual": django_manual,
}
IN_SQLITE_ASYNC: dict[str, Own] = {
    "sqlite3": sqlite3_in_place,
    "aiosqlite": aiosqlite_connection,
    "sqlalchemy": sqlalchemy_async_connection("aiosqlite"),
    "sqlalchemy-session": sqlalchemy_async_session("aiosqlite"),
}
