"""A cancellation in the middle of a store's own work: the store must serve the next request."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from replayfloor.server.stores.postgres_async import AsyncPostgresReceipts
from replayfloor.server.stores.sqlite_async import AsyncSQLiteReceipts
from server.apps import Gate, LedgerApp
from server.backends import Backend
from server.wire import Request, send
from support.services import Postgres

pytestmark = pytest.mark.anyio

FRESH = (201, None, False)
OTHER = Request(key=b'"other"')


@contextlib.contextmanager
def every_thread_busy() -> Iterator[threading.Event]:
    """Let work for threads wait until the event is set: what is cancelled then is under way."""
    limiter = to_thread.current_default_thread_limiter()
    before, free = limiter.total_tokens, threading.Event()
    limiter.total_tokens = 1
    try:
        yield free
    finally:
        free.set()
        limiter.total_tokens = before


async def _cancel(task: asyncio.Task[object]) -> None:
    task.cancel()
    await anyio.sleep(0.05)


async def _gone(task: asyncio.Task[object]) -> None:
    with contextlib.suppress(asyncio.CancelledError), anyio.fail_after(10):
        await task


async def test_a_first_statement_that_is_cancelled_leaves_no_transaction_open(
    asgi_sqlite: Backend,
) -> None:
    """Another process holds the write lock meanwhile, so `begin` takes its time."""
    path = Path(asgi_sqlite.receipts_url.removeprefix("sqlite:///"))
    store = AsyncSQLiteReceipts(path, operation_s=1.0)
    gate = Gate()
    app = asgi_sqlite.protect(
        LedgerApp(asgi_sqlite, "atomic", before=gate), effects="atomic", receipts=store
    )

    task: asyncio.Task[object] = asyncio.ensure_future(send(app))
    await gate.entered.wait()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        gate.opened.set()
        await anyio.sleep(0.1)
        await _cancel(task)
        other.execute("rollback")
    await _gone(task)

    assert (await send(app, OTHER)).brief == FRESH
    assert (await send(app)).brief == FRESH
    assert asgi_sqlite.ledger.rows() == ["atomic", "atomic"]
    await store.close()


@pytest.mark.parametrize("cancels", [1, 2])
async def test_a_rollback_that_is_cancelled_gives_the_turn_back(
    asgi_sqlite: Backend, cancels: int
) -> None:
    path = Path(asgi_sqlite.receipts_url.removeprefix("sqlite:///"))
    store = AsyncSQLiteReceipts(path, operation_s=1.0)
    gate = Gate()
    inner = LedgerApp(asgi_sqlite, "atomic", status=500, after=gate)
    app = asgi_sqlite.protect(inner, effects="atomic", receipts=store, lease_s=0.1)

    with every_thread_busy() as free:
        task: asyncio.Task[object] = asyncio.ensure_future(send(app))
        await gate.entered.wait()
        blocker = asyncio.ensure_future(to_thread.run_sync(free.wait))
        await anyio.sleep(0.05)
        gate.opened.set()
        await anyio.sleep(0.05)
        for _ in range(cancels):
            await _cancel(task)
        free.set()
        await blocker
        await _gone(task)
    inner.status = 201

    assert (await send(app, OTHER)).brief == FRESH
    await anyio.sleep(0.1)
    assert (await send(app)).brief == FRESH
    assert asgi_sqlite.ledger.rows() == ["atomic", "atomic"]
    with anyio.fail_after(5):
        await store.close()


async def test_a_rollback_in_postgres_that_is_cancelled_gives_the_connection_back(
    asgi_postgres: Backend, postgres_server: Postgres
) -> None:
    store = AsyncPostgresReceipts(
        asgi_postgres.receipts_url, handler_connections=1, operation_s=2.0
    )
    gate = Gate()
    inner = LedgerApp(asgi_postgres, "atomic", status=500, after=gate)
    app = asgi_postgres.protect(inner, effects="atomic", receipts=store, lease_s=0.1)

    task: asyncio.Task[object] = asyncio.ensure_future(send(app))
    await gate.entered.wait()
    await to_thread.run_sync(postgres_server.freeze)
    gate.opened.set()
    await anyio.sleep(0.1)
    await _cancel(task)
    await to_thread.run_sync(postgres_server.thaw)
    await _gone(task)
    inner.status = 201

    assert (await send(app, OTHER)).brief == FRESH
    assert asgi_postgres.ledger.rows() == ["atomic"]
    await store.close()


async def test_a_commit_in_postgres_that_is_cancelled_gives_the_connection_back(
    asgi_postgres: Backend, postgres_server: Postgres
) -> None:
    store = AsyncPostgresReceipts(
        asgi_postgres.receipts_url, handler_connections=1, operation_s=2.0
    )
    gate = Gate()
    app = asgi_postgres.protect(
        LedgerApp(asgi_postgres, "atomic", after=gate),
        effects="atomic",
        receipts=store,
        lease_s=0.1,
    )

    task: asyncio.Task[object] = asyncio.ensure_future(send(app))
    await gate.entered.wait()
    await to_thread.run_sync(postgres_server.freeze)
    gate.opened.set()
    await anyio.sleep(0.1)
    await _cancel(task)
    await to_thread.run_sync(postgres_server.thaw)
    await _gone(task)

    assert (await send(app, OTHER)).brief == FRESH
    await anyio.sleep(0.2)
    again = await send(app)
    assert (again.status, len(asgi_postgres.ledger.rows())) == (201, 2)
    await store.close()


async def test_an_opening_that_is_cancelled_leaves_no_file_open(tmp_path: Path) -> None:
    store = AsyncSQLiteReceipts(tmp_path / "r.db", operation_s=1.0)

    with every_thread_busy() as free:
        blocker = asyncio.ensure_future(to_thread.run_sync(free.wait))
        await anyio.sleep(0.05)
        task: asyncio.Task[object] = asyncio.ensure_future(store.open())
        await anyio.sleep(0.05)
        await _cancel(task)
        free.set()
        await blocker
        await _gone(task)
    await store.close()

    assert _open_files(tmp_path) == []


def _open_files(folder: Path) -> list[str]:
    descriptors = Path("/proc/self/fd")  # Linux only; elsewhere nothing is looked at
    links = descriptors.iterdir() if descriptors.exists() else iter(())
    return [name for link in links if str(folder) in (name := str(link.resolve()))]
