"""One clock for everybody: the middleware, its store and the database, moved on by the test.

Leases go by the database's own clock; so does the time that Redis keeps a receipt. `flush` stands
for the latter: no receipt stays there for as long as the steps of these tests are.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.utils import formatdate
from typing import Unpack

import psycopg
import pytest
import redis
from starlette.types import ASGIApp

from replayfloor.core.uuid7 import uuid7
from replayfloor.server.stores.sqlite import SQLiteReceipts
from replayfloor.server.stores.sqlite_async import AsyncSQLiteReceipts
from server.apps import LedgerApp
from server.backends import AnyReceipts, Backend, ProtectOptions, close_any
from server.wire import Request

HOUR_S = 3600
NOW = (
    "create or replace function replayfloor.now_v1() returns timestamptz language sql volatile as "
)
REAL = "$$ select clock_timestamp() $$"


class Moments:
    """The time of a test, in ms since 1970; `at` goes to so many seconds after its beginning."""

    def __init__(self, backend: Backend, start_ms: int) -> None:
        self.backend, self.start_ms = backend, start_ms
        self.now_ms = start_ms
        self._stores: list[AnyReceipts] = []

    def at(self, seconds: float, *, us: int = 0) -> None:
        """Let it be so long after the beginning; `us` more for the database, if it can tell."""
        self.now_ms = self.start_ms + round(seconds * 1000)
        if self.backend.is_postgres:
            moment = f"timestamptz 'epoch' + {self.now_ms * 1000 + us} * interval '1 us'"
            self._now_is(f"$$ select {moment} $$")

    def _now_is(self, body: str) -> None:
        with psycopg.connect(self.backend.receipts_url, autocommit=True) as connection:
            connection.execute((NOW + body).encode())

    def seconds(self) -> float:
        """Return the time as a store's clock; between two ms, so that no rounding moves it."""
        return (self.now_ms + 0.5) / 1000

    def receipts(self) -> AnyReceipts:
        """Return another store on the same data that goes by this time."""
        if self.backend.is_postgres:
            return self.backend.receipts()
        make = SQLiteReceipts if self.backend.is_wsgi else AsyncSQLiteReceipts
        path = self.backend.receipts_url.removeprefix("sqlite:///")
        made = make(path, clock=self.seconds)
        self._stores.append(made)
        return made

    def worker(self, inner: ASGIApp | None = None, **options: Unpack[ProtectOptions]) -> ASGIApp:
        """Return a worker that goes by this time."""
        options.setdefault("receipts", self.receipts())
        return self.backend.protect(inner or LedgerApp(self.backend), **options)

    def flush(self) -> None:
        """Lose what the lock's place has; a local lock of another worker has nothing of this."""
        if self.backend.lock_url.startswith("redis"):
            with redis.Redis.from_url(self.backend.lock_url) as connection:
                connection.flushdb()

    def drop_receipts(self, *, to_proofs: bool = False) -> None:
        """Remove every receipt, as when its partition is dropped; its id may become a proof."""
        schema = "replayfloor." if self.backend.is_postgres else "replayfloor_"
        if to_proofs:
            columns = "id, used_at" if self.backend.is_postgres else "id, used_ms"
            since = "finished_at" if self.backend.is_postgres else "finished_ms"
            self.backend.ledger.run(
                f"insert into {schema}proofs ({columns}) select id, {since} from {schema}receipts"
            )
        self.backend.ledger.run(f"delete from {schema}receipts")

    async def close(self) -> None:
        """Close the stores, and let the database have its own time again."""
        if self.backend.is_postgres:
            self._now_is(REAL)
        for each in self._stores:
            await close_any(each)

    # -- requests that tell, by this clock, when they began ---------------------------------------

    def minted(self, name: int = 0) -> Request:
        """Return a request whose key was made at the beginning."""
        key = uuid7(self.start_ms, name.to_bytes(10, "big"))
        return Request(key=f'"{key}"'.encode())

    def first_sent(self, key: bytes = b'"sent"') -> Request:
        """Return a request that says that its first attempt was at the beginning."""
        date = formatdate(self.start_ms // 1000, usegmt=True).encode()
        return Request(key=key, headers=[(b"repeatability-first-sent", date)])


@asynccontextmanager
async def moments_of(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Moments]:
    """Begin at a whole second of the present, so that there is a partition for it."""
    made = Moments(backend, int(time.time()) * 1000)
    monkeypatch.setattr("replayfloor.server.clock.wall_ms", lambda: made.now_ms)
    made.at(0)
    try:
        yield made
    finally:
        await made.close()
