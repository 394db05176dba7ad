"""An application on SQLAlchemy, blocking under WSGI and asynchronous under ASGI.

Its handlers are blocking functions of a connection or of an ORM session, the same under both:
SQLAlchemy runs them in a greenlet where it has to.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Unpack, cast

import anyio
from anyio import to_thread
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.pool import QueuePool
from starlette.types import ASGIApp, Receive, Scope, Send

from replayfloor.server import ActiveClaim, IdempotencyMiddleware
from replayfloor.server.adapters.sqlalchemy import SQLAlchemyReceipts, session
from replayfloor.server.adapters.sqlalchemy_async import AsyncSQLAlchemyReceipts, async_session
from replayfloor.server.options import MiddlewareOptions
from replayfloor.server.wsgi import WSGIIdempotencyMiddleware
from server.adapters_common import FRESH, IN_A_TRANSACTION, OTHER, REPLAY
from server.apps import read_body
from server.backends import Ledger, claim_of
from server.wire import Request, send
from server.wsgi_server import Environ, StartResponse, ValidatingServer, validated

BLOCKING = ["psycopg-blocking", "sqlite"]
ASYNCHRONOUS = ["psycopg", "asyncpg"]
ON_POSTGRES = ["psycopg-blocking", *ASYNCHRONOUS]

POOL_OF_ONE = {"pool_size": 1, "max_overflow": 0}

OnConnection = Callable[[Connection], int | None]
OnSession = Callable[[Session], int | None]
"""A handler; it returns the status of its answer, or nothing for 201."""


class Base(DeclarativeBase):
    """The tables of the application."""


class Entry(Base):
    """A row of the ledger, which has no key; the mapper wants one."""

    __tablename__ = "ledger"

    entry: Mapped[str] = mapped_column(primary_key=True)


def write(connection: Connection | Session, entry: str = "atomic") -> None:
    """Write a row of the ledger."""
    connection.execute(text("insert into ledger values (:entry)"), {"entry": entry})


@dataclass
class Site:
    """An engine, the receipts on it, and the ledger that the handlers write to.

    `on_connection` and `on_session` return one worker each, to be served as ASGI.
    """

    name: str
    engine: Engine | AsyncEngine
    ledger: Ledger
    receipts: SQLAlchemyReceipts | AsyncSQLAlchemyReceipts

    @property
    def is_sqlite(self) -> bool:
        """Say which of the two databases it is."""
        return self.name == "sqlite"

    def on_connection(self, body: OnConnection, **options: Unpack[MiddlewareOptions]) -> ASGIApp:
        """Run a handler on `claim.connection`."""

        async def asynchronous(scope: Scope) -> int | None:
            connection = cast("AsyncConnection", claim_of(scope).connection)
            return await connection.run_sync(body)

        def blocking(claim: ActiveClaim) -> int | None:
            return body(cast("Connection", claim.connection))

        return self.protect(blocking, asynchronous, **options)

    def on_session(self, body: OnSession, **options: Unpack[MiddlewareOptions]) -> ASGIApp:
        """Run a handler on a session of the claim."""

        async def asynchronous(scope: Scope) -> int | None:
            async with async_session(claim_of(scope)) as own:
                return await own.run_sync(body)

        def blocking(claim: ActiveClaim) -> int | None:
            with session(claim) as own:
                return body(own)

        return self.protect(blocking, asynchronous, **options)

    def protect(
        self,
        blocking: Callable[[ActiveClaim], int | None],
        asynchronous: Callable[[Scope], Awaitable[int | None]],
        **options: Unpack[MiddlewareOptions],
    ) -> ASGIApp:
        """Return a worker around a handler in the colour of the engine."""
        options.setdefault("effects", "atomic")

        async def asgi(scope: Scope, receive: Receive, send: Send) -> None:
            await read_body(receive)
            status = await asynchronous(scope) or 201
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": b"done"})

        def wsgi(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
            status = blocking(cast("ActiveClaim", environ["replayfloor.claim"])) or 201
            start_response(f"{status} Done", [("Content-Type", "text/plain")])
            return [b"done"]

        if isinstance(self.receipts, AsyncSQLAlchemyReceipts):
            return IdempotencyMiddleware(asgi, receipts=self.receipts, principal=None, **options)
        app = WSGIIdempotencyMiddleware(
            validated(wsgi), receipts=self.receipts, principal=None, **options
        )
        return ValidatingServer(app)

    async def close(self) -> None:
        """Close what was made."""
        if isinstance(self.receipts, AsyncSQLAlchemyReceipts):
            await self.receipts.close()
            await cast("AsyncEngine", self.engine).dispose()
        else:
            await to_thread.run_sync(self.receipts.close)
            cast("Engine", self.engine).dispose()


@asynccontextmanager
async def site_on(
    name: str, ledger: Ledger, url: str | None = None, /, **options: object
) -> AsyncGenerator[Site]:
    """Make an application with an engine of one of the kinds; `url` is another way to its ledger's
    database, which the receipts do not take."""
    protocol = None if url is None else ledger.url
    address = url or ledger.url
    if name in ASYNCHRONOUS:
        asynchronous = create_async_engine(_with_driver(address, name), **options)
        receipts = AsyncSQLAlchemyReceipts(asynchronous, protocol)
        made = Site(name, asynchronous, ledger, receipts)
    else:
        make = cast("Callable[..., Engine]", create_engine)
        engine = make(_with_driver(address, name.partition("-")[0]), **options)
        made = Site(name, engine, ledger, SQLAlchemyReceipts(engine, protocol))
    try:
        yield made
    finally:
        await made.close()


def _with_driver(address: str, driver: str) -> str:
    return address.replace("postgresql:", f"postgresql+{driver}:", 1)


async def check_nothing_happened(site: Site) -> None:
    """Nothing was written, and the key is free: the next request is executed."""
    assert site.ledger.rows() == []
    assert (await send(site.on_connection(write))).brief == FRESH
    assert site.ledger.rows() == ["atomic"]


async def check_recovered(site: Site) -> None:
    """The key is free, other keys are served, and each of the two is executed once."""
    app = site.on_connection(write)
    assert [(await send(app, each)).brief for each in (OTHER, Request())] == [FRESH, FRESH]
    assert [(await send(app, each)).brief for each in (OTHER, Request())] == [REPLAY, REPLAY]
    assert site.ledger.rows() == ["atomic", "atomic"]
    await check_given_back(site)


async def check_given_back(site: Site) -> None:
    """No connection is missing in the pool, and none is in the middle of a transaction."""
    assert cast("QueuePool", site.engine.pool).checkedout() == 0
    tries = 50
    while (busy := site.ledger.run(IN_A_TRANSACTION)) and tries:
        await anyio.sleep(0.05)  # the server notices the end of a connection a little later
        tries -= 1
    assert not busy
