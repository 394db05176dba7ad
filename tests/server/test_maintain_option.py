"""The option `maintain=True`: an application that keeps its own receipts in order."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from starlette.applications import Starlette
from starlette.types import Message

from replayfloor.core.errors import ConfigurationError
from replayfloor.retention import InboundPolicy, Sender
from replayfloor.server import IdempotencyMiddleware, LocalLock, WSGIIdempotencyMiddleware
from replayfloor.server.events import EventKind, ServerEvent
from replayfloor.server.stores import open_receipts
from replayfloor.server.stores.maintenance import Keeping
from replayfloor.server.stores.migrate import migrate
from server.partitions import Database

PATIENCE_S = 20.0
DAY_S = 86_400.0
POLICY = InboundPolicy("hooks", senders=(Sender("shop", automatic_retry="72h"),))


def _until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def overdue(postgres_url: str) -> Database:
    """A database with a partition that ended longer ago than the retention."""
    migrate(postgres_url, keeping=Keeping(3 * DAY_S))
    database = Database(postgres_url)
    database.run(
        "create table replayfloor.receipts_long_ago partition of replayfloor.receipts"
        " for values from ('2020-01-01') to ('2020-01-02')"
    )
    return database


def _is_gone(database: Database) -> bool:
    rows = database.run("select to_regclass('replayfloor.receipts_long_ago') is null")
    return rows == [(True,)]


@pytest.mark.anyio
async def test_an_asgi_application_maintains_from_start_to_shutdown(overdue: Database) -> None:
    events: list[ServerEvent] = []
    app = IdempotencyMiddleware(
        Starlette(),
        receipts=overdue.url,
        principal=None,
        retention=POLICY,
        maintain=True,
        on_event=events.append,
    )
    to_app, app_end = anyio.create_memory_object_stream[Message](2)
    from_app: list[Message] = []

    async def send(message: Message) -> None:
        from_app.append(message)

    async with to_app, app_end, anyio.create_task_group() as tasks:
        tasks.start_soon(app, {"type": "lifespan"}, app_end.receive, send)
        await to_app.send({"type": "lifespan.startup"})
        await anyio.to_thread.run_sync(_until, lambda: _is_gone(overdue) and bool(events))
        await to_app.send({"type": "lifespan.shutdown"})

    assert from_app[-1]["type"] == "lifespan.shutdown.complete"
    maintained = [each.detail for each in events if each.kind is EventKind.MAINTAINED]
    assert any("1 dropped" in each for each in maintained), events


@pytest.mark.slow
def test_a_wsgi_application_maintains_from_its_first_request(overdue: Database) -> None:
    def inner(_environ: object, start_response: Callable[..., object]) -> list[bytes]:
        start_response("201 Created", [])
        return [b""]

    app = WSGIIdempotencyMiddleware(
        inner,
        receipts=overdue.url,
        principal=None,
        retention=POLICY,
        maintain=True,
    )
    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/pay", "SCRIPT_NAME": ""}
    assert not _is_gone(overdue)
    try:
        list(app(environ, lambda *_: lambda _: None))  # type: ignore[arg-type]
        _until(lambda: _is_gone(overdue))
    finally:
        app.close()


def test_a_sqlite_file_is_maintained_too(tmp_path: Path) -> None:
    path = tmp_path / "receipts.db"
    store = open_receipts(f"sqlite:///{path}")
    store.open()
    store.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(
            "insert into replayfloor_receipts values (?, ?, 1, 1, 201, ?, 2)",
            (b"i" * 16, b"f" * 16, b"\0"),
        )
    app = WSGIIdempotencyMiddleware(
        lambda *_: [],
        receipts=f"sqlite:///{path}",
        principal=None,
        retention=POLICY,
        maintain=True,
    )
    app.open()
    try:
        _until(lambda: _rows(path) == 0)
    finally:
        app.close()


def _rows(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database:
        return int(database.execute("select count(*) from replayfloor_receipts").fetchone()[0])


@pytest.fixture
def urls(tmp_path: Path) -> str:
    """The address of a file that is not there."""
    return f"sqlite:///{tmp_path / 'receipts.db'}"


def test_without_a_retention_there_is_nothing_to_maintain(urls: str) -> None:
    with pytest.raises(ConfigurationError, match="nothing expires"):
        IdempotencyMiddleware(Starlette(), receipts=urls, principal=None, maintain=True)


def test_a_store_that_was_made_elsewhere_is_maintained_elsewhere(urls: str) -> None:
    with pytest.raises(ConfigurationError, match="Maintenance beside it"):
        WSGIIdempotencyMiddleware(
            lambda *_: [],
            receipts=open_receipts(urls),
            lock=LocalLock(),
            principal=None,
            retention=3600,
            maintain=True,
        )
