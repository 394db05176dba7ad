"""A blocking store in the shape of an asynchronous one, so that one contract suite tests both.

Each call runs in a worker thread; calls that come at once run at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from anyio import to_thread

from replayfloor.core.claims import Abandon, Claim, ClaimAnswer, Finish, Renew
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.stores import (
    AsyncConnection,
    AsyncCursor,
    AsyncReceipts,
    AsyncTransaction,
    Connection,
    Cursor,
    Parameters,
    Receipts,
    Row,
    Transaction,
)
from replayfloor.server.stores.policies import Declaration, Declared


def in_threads(receipts: Receipts) -> AsyncReceipts:
    """Return the store as an asynchronous one."""
    return _Receipts(receipts)


class _Receipts:
    def __init__(self, receipts: Receipts) -> None:
        self._receipts = receipts

    async def open(self) -> None:
        await to_thread.run_sync(self._receipts.open)

    async def close(self) -> None:
        await to_thread.run_sync(self._receipts.close)

    async def claim(self, claim: Claim) -> ClaimAnswer:
        return await to_thread.run_sync(self._receipts.claim, claim)

    async def finish(self, finish: Finish) -> bool:
        return await to_thread.run_sync(self._receipts.finish, finish)

    async def abandon(self, abandon: Abandon) -> bool:
        return await to_thread.run_sync(self._receipts.abandon, abandon)

    async def renew(self, renew: Renew) -> bool:
        return await to_thread.run_sync(self._receipts.renew, renew)

    async def declare(self, declaration: Declaration) -> Declared:
        return await to_thread.run_sync(self._receipts.declare, declaration)

    async def begin(self, id_: ReceiptId | None = None, /) -> AsyncTransaction:
        return _Transaction(await to_thread.run_sync(self._receipts.begin, id_))

    async def finish_in(self, connection: object, finish: Finish) -> bool:
        return await to_thread.run_sync(self._receipts.finish_in, connection, finish)


class _Transaction:
    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    @property
    def connection(self) -> AsyncConnection:
        return _Connection(self._transaction.connection)

    async def commit(self, finish: Finish) -> bool:
        return await to_thread.run_sync(self._transaction.commit, finish)

    async def rollback(self) -> None:
        await to_thread.run_sync(self._transaction.rollback)


class _Connection:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def execute(self, query: str, params: Parameters | None = None) -> AsyncCursor:
        run = partial(self._connection.execute, query, params)
        return _Cursor(await to_thread.run_sync(run))


class _Cursor:
    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor

    async def fetchone(self) -> Row | None:
        return await to_thread.run_sync(self._cursor.fetchone)

    async def fetchall(self) -> Sequence[Row]:
        return await to_thread.run_sync(self._cursor.fetchall)
