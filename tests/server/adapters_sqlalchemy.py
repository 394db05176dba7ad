"""An application on SQLAlchemy, blocking under WSGI and asynchronous under ASGI.

Its handlers are blocking functions of a connection or of an ORM session, the same under both:
SQLAlchemy runs them in a greenlet where it has to.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Unpack, cast

from anyio import to_thread
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from starlette.types import ASGIApp, Receive, Scope, Send

from replayfloor.server import ActiveClaim, IdempotencyMiddleware
from replayfloor.server.adapters.sqlalchemy import SQLAlchemyReceipts, session
from replayfloor.server.adapters.sqlalchemy_async import AsyncSQLAlchemyReceipts, async_session
from replayfloor.server.options import MiddlewareOptions
from replayfloor.server.wsgi import WSGIIdempotencyMiddleware
from server.apps import Hook, nothing, read_body
from server.backends import Ledger, claim_of
from server.wsgi_server import Environ, StartResponse, ValidatingServer, validated

BLOCKING = ["psycopg-blocking", "sqlite"]
ASYNCHRONOUS = ["psycopg", "asyncpg"]

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
    receipts: SQLAlchemyReceipts | AsyncSQLAlchemyReceipts = field(init=False)

    def __post_init__(self) -> None:
        """Make the receipts."""
        self.receipts = (
            AsyncSQLAlchemyReceipts(self.engine)
            if isinstance(self.engine, AsyncEngine)
            else SQLAlchemyReceipts(self.engine)
        )

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
        last: Hook = nothing,
        **options: Unpack[MiddlewareOptions],
    ) -> ASGIApp:
        """Return a worker around a handler in the colour of the engine.

        `last` runs, asynchronously only, after the answer.
        """
        options.setdefault("effects", "atomic")

        async def asgi(scope: Scope, receive: Receive, send: Send) -> None:
            await read_body(receive)
            status = await asynchronous(scope) or 201
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": b"done"})
            await last()

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


def engine_for(name: str, url: str, **options: object) -> Engine | AsyncEngine:
    """Return an engine of one of the kinds, for the URL of a database."""
    make = cast("Callable[..., Engine]", create_engine)
    if name == "sqlite":
        return make(url, **options)
    if name == "psycopg-blocking":
        return make(url.replace("postgresql:", "postgresql+psycopg:", 1), **options)
    make_async = cast("Callable[..., AsyncEngine]", create_async_engine)
    return make_async(url.replace("postgresql:", f"postgresql+{name}:", 1), **options)
