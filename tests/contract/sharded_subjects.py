"""Receipts on several databases made ready for the receipts contract.

The contract opens a handler's own connection without saying for which key: here it is for the key
that was claimed last, to the database that the key belongs to.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass

import psycopg
import pytest

from contract.own_connections import Own, psycopg_async, psycopg_blocking
from contract.subjects import sleep_ms, writer
from replayfloor.core.claims import Claim, ClaimAnswer
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.adapters.protocol import AsyncOnReceipts, OnReceipts
from replayfloor.server.stores import AsyncReceipts, AsyncTransaction, Transaction
from replayfloor.server.stores.shard_places import place_of
from replayfloor.server.stores.sharded import ShardedReceipts
from replayfloor.server.stores.sharded_async import AsyncShardedReceipts
from replayfloor.testing.contract import OwnTransaction, ReceiptsSubject, new_id
from replayfloor.testing.threads import in_threads

both_colours = pytest.mark.parametrize("blocking", [False, True], ids=["async", "blocking"])


@dataclass
class Last:
    """The key that was claimed last, by any store of a subject."""

    id: ReceiptId | None = None


class _AsyncOfLast(AsyncOnReceipts):
    def __init__(self, receipts: AsyncShardedReceipts, last: Last) -> None:
        super().__init__(receipts)
        self._sharded, self._last = receipts, last

    async def claim(self, claim: Claim) -> ClaimAnswer:
        self._last.id = claim.id
        return await self._sharded.claim(claim)

    async def begin(self, id_: ReceiptId | None = None, /) -> AsyncTransaction:
        return await self._sharded.begin(id_)


class _OfLast(OnReceipts):
    def __init__(self, receipts: ShardedReceipts, last: Last) -> None:
        super().__init__(receipts)
        self._sharded, self._last = receipts, last

    def claim(self, claim: Claim) -> ClaimAnswer:
        self._last.id = claim.id
        return self._sharded.claim(claim)

    def begin(self, id_: ReceiptId | None = None, /) -> Transaction:
        return self._sharded.begin(id_)


def id_of(number: int, shards: int = 2) -> ReceiptId:
    """Return a new id that belongs to a place."""
    while place_of(id_ := new_id(), shards) != number:
        pass
    return id_


def place(urls: Sequence[str]) -> None:
    """Tell each of the databases, which are migrated, its place, in this order."""
    for number, url in enumerate(urls, 1):
        with psycopg.connect(url, autocommit=True) as database:
            database.execute("select replayfloor.place_shard_v1(%s, %s)", (number, len(urls)))
            database.execute("create table if not exists ledger (id bytea)")


@asynccontextmanager
async def sharded_subject(urls: Sequence[str]) -> AsyncGenerator[ReceiptsSubject]:
    """Two asynchronous stores on databases that were told their places."""
    last = Last()
    stores = [_AsyncOfLast(AsyncShardedReceipts(urls), last) for _ in range(2)]
    async with _on(urls, stores, last, psycopg_async) as subject:
        yield subject


@asynccontextmanager
async def blocking_sharded_subject(urls: Sequence[str]) -> AsyncGenerator[ReceiptsSubject]:
    """Two blocking stores on databases that were told their places."""
    last = Last()
    stores = [in_threads(_OfLast(ShardedReceipts(urls), last)) for _ in range(2)]
    async with _on(urls, stores, last, psycopg_blocking) as subject:
        yield subject


@asynccontextmanager
async def _on(
    urls: Sequence[str], stores: Sequence[AsyncReceipts], last: Last, own: Own
) -> AsyncGenerator[ReceiptsSubject]:
    def url() -> str:
        assert last.id is not None
        return urls[place_of(last.id, len(urls)) - 1]

    def opened() -> AbstractAsyncContextManager[OwnTransaction]:
        return own(url())

    def autocommitting() -> AbstractAsyncContextManager[OwnTransaction]:
        return own(url(), autocommit=True)

    with ExitStack() as stack:
        databases = [stack.enter_context(psycopg.connect(each, autocommit=True)) for each in urls]

        async def count(id_: ReceiptId) -> int:
            query = "select count(*) from ledger where id = %s"
            rows = [database.execute(query, (id_,)).fetchone() for database in databases]
            return sum(int(row[0]) for row in rows if row is not None)

        write = writer("insert into ledger values (%s)")
        yield ReceiptsSubject(stores[0], stores[1], sleep_ms, write, count, opened, autocommitting)
        for store in stores:
            await store.close()
