"""Start and stop: stores are opened before the application starts and closed after it stopped."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import anyio
import psycopg
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from replayfloor.core.problem import ProblemKind
from replayfloor.server.stores import open_async_receipts
from replayfloor.server.stores.postgres_async import AsyncPostgresReceipts
from server.apps import LedgerApp
from server.backends import Backend, no_connection_is_left, sqlite_url
from server.doubles import watched_lock, watched_receipts
from server.wire import send

pytestmark = pytest.mark.anyio

COMPLETE = ["lifespan.startup.complete", "lifespan.shutdown.complete"]


class Life:
    """An application with a lifespan: remembers what happened to it, in order."""

    def __init__(self, serve: ASGIApp, starts: str = "lifespan.startup.complete") -> None:
        self.serve, self.starts = serve, starts
        self.log: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self.serve(scope, receive, send)
            return
        self.log.append((await receive())["type"])
        scope["state"]["database"] = "db"
        await send({"type": self.starts})
        if self.starts.endswith("complete"):
            self.log.append((await receive())["type"])
            await send({"type": "lifespan.shutdown.complete"})


class Server:
    """The lifespan side of a server: starts the application, does something, stops it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.sent: list[Message] = []
        self.state: dict[str, object] = {}

    async def live(self, meanwhile: Callable[[], object] | None = None) -> None:
        inbox = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

        async def receive() -> Message:
            if meanwhile is not None and len(inbox) == 1:
                result = meanwhile()
                if inspect.isawaitable(result):
                    await result
            if not inbox:
                await anyio.sleep_forever()
            return inbox.pop(0)

        async def send(message: Message) -> None:
            self.sent.append(message)

        with anyio.fail_after(20):
            await self._app({"type": "lifespan", "state": self.state}, receive, send)

    @property
    def types(self) -> list[str]:
        return [message["type"] for message in self.sent]


async def test_the_application_is_started_and_stopped_and_its_state_is_the_servers(
    asgi: Backend,
) -> None:
    life = Life(LedgerApp(asgi))
    server = Server(asgi.protect(life))

    await server.live()

    assert server.types == COMPLETE
    assert life.log == ["lifespan.startup", "lifespan.shutdown"]
    assert server.state == {"database": "db"}


async def test_the_stores_are_open_while_the_application_lives_and_closed_afterwards(
    asgi: Backend,
) -> None:
    receipts, lock = watched_receipts(asgi.receipts()), watched_lock(asgi.lock())
    app = asgi.protect(Life(LedgerApp(asgi)), receipts=receipts, lock=lock)
    seen: list[list[str]] = []

    await Server(app).live(lambda: seen.append([*receipts.calls, *lock.calls]))

    assert seen == [["open"]]
    assert (receipts.calls, lock.calls) == (["open", "close"], ["close"])


async def test_a_closed_postgres_store_leaves_no_connection_behind(asgi_postgres: Backend) -> None:
    app = asgi_postgres.protect(Life(LedgerApp(asgi_postgres, "atomic")), effects="atomic")

    await Server(app).live(lambda: send(app))

    await no_connection_is_left(asgi_postgres.receipts_url)
    assert asgi_postgres.ledger.rows() == ["atomic"]


async def test_the_stores_are_closed_if_the_application_refuses_to_start(asgi: Backend) -> None:
    receipts, lock = watched_receipts(asgi.receipts()), watched_lock(asgi.lock())
    life = Life(LedgerApp(asgi), starts="lifespan.startup.failed")
    server = Server(asgi.protect(life, receipts=receipts, lock=lock))

    await server.live()

    assert server.types == ["lifespan.startup.failed"]
    assert (receipts.calls, lock.calls) == (["open", "close"], ["close"])


async def test_the_stores_are_closed_if_the_application_has_no_lifespan(asgi: Backend) -> None:
    """It raises, the server goes on without lifespan events, and nobody would close them later."""

    async def bare(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"

    receipts, lock = watched_receipts(asgi.receipts()), watched_lock(asgi.lock())

    with pytest.raises(AssertionError):
        await Server(asgi.protect(bare, receipts=receipts, lock=lock)).live()

    assert (receipts.calls, lock.calls) == (["open", "close"], ["close"])


async def test_a_missing_schema_fails_the_start_with_the_command_that_mends_it(
    asgi_sqlite: Backend, postgres_url: str
) -> None:
    life = Life(LedgerApp(asgi_sqlite))
    server = Server(asgi_sqlite.protect(life, receipts=postgres_url))

    await server.live()

    assert server.types == ["lifespan.startup.failed"]
    assert "replayfloor migrate" in server.sent[0]["message"]
    assert postgres_url.rpartition("/")[2] in server.sent[0]["message"]
    assert life.log == []


async def test_a_store_that_cannot_be_reached_at_the_start_refuses_requests_and_recovers(
    asgi: Backend, tmp_path: Path
) -> None:
    away = tmp_path / "away"
    # Nobody listens on port 1; the folder of the file does not exist yet.
    receipts: object = sqlite_url(away / "r.db")
    if asgi.is_postgres:
        receipts = AsyncPostgresReceipts("postgresql://u@127.0.0.1:1/d", operation_s=0.3)
    life = Life(LedgerApp(asgi))
    app = asgi.protect(life, receipts=receipts)
    answers: list[object] = []

    async def ask() -> None:
        answers.append((await send(app)).brief)
        if not asgi.is_postgres:
            away.mkdir()
            answers.append((await send(app)).brief)

    server = Server(app)
    await server.live(ask)

    assert server.types == COMPLETE
    assert answers[0] == (503, ProblemKind.STORE_UNAVAILABLE, False)
    assert answers[1:] == ([] if asgi.is_postgres else [(201, None, False)])
    assert len(asgi.ledger.rows()) == len(answers) - 1


async def test_a_store_that_refuses_to_be_used_fails_the_start(
    asgi_postgres: Backend, tmp_path: Path
) -> None:
    """An exception would tell the server "no lifespan": it would serve an application that was
    never started."""
    with psycopg.connect(asgi_postgres.receipts_url, autocommit=True) as connection:
        connection.execute("create role visitor login")
    visitor = asgi_postgres.receipts_url.replace("postgres@", "visitor@")
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"this is no database" * 100)

    try:
        for url in (visitor, sqlite_url(broken)):
            life = Life(LedgerApp(asgi_postgres))
            server = Server(asgi_postgres.protect(life, receipts=url))
            await server.live()
            assert server.types == ["lifespan.startup.failed"], url
            assert life.log == []
    finally:
        with psycopg.connect(asgi_postgres.receipts_url, autocommit=True) as connection:
            connection.execute("drop role visitor")


async def test_sqlite_makes_its_own_file(tmp_path: Path) -> None:
    store = open_async_receipts(sqlite_url(tmp_path / "new file.db"))

    await store.open()
    await store.close()
    await store.close()

    assert (tmp_path / "new file.db").exists()


async def test_without_a_lifespan_the_first_request_opens_the_store(asgi: Backend) -> None:
    app = asgi.protect(LedgerApp(asgi))

    assert [(await send(app)).brief for _ in range(2)] == [(201, None, False), (201, None, True)]
