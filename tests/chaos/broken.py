"""Stores of receipts that lack one protection: what the checker has to find out.

Each is the real store with one promise broken from outside, so that it stays broken in the same
way however the store is built.
"""

from __future__ import annotations

import asyncio
from typing import cast

import psycopg

from replayfloor.core.claims import (
    Claim,
    ClaimAnswer,
    Claimed,
    Finish,
    InFlight,
    Orphaned,
    Renew,
)
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.stores import AsyncReceipts, AsyncTransaction
from replayfloor.server.stores.postgres_async import AsyncPostgresReceipts
from replayfloor.server.stores.postgres_transaction_async import AsyncPostgresTransaction
from replayfloor.server.stores.protocols import AsyncConnection

OPERATION_S = 2.0
"""How long the stores of a run wait for Postgres: well below the patience of the clients."""

HASTE_S = 0.7
"""By how much the hasty store says too early that a receipt is durable."""

STEAL = """
insert into replayfloor.claims (id, fingerprint, fence, claimed_at, lease_until)
values (%(id)s, %(fence)s, %(fence)s, clock_timestamp(), clock_timestamp() + interval '1 minute')
on conflict (id) do update set fence = excluded.fence
"""
FORGET = "delete from replayfloor.receipts where id = %(id)s"


class Breaking(AsyncPostgresReceipts):
    """The real store, with a way around it."""

    def __init__(self, url: str) -> None:
        """Keep the address."""
        super().__init__(url, operation_s=OPERATION_S)
        self.url = url

    async def steal(self, id_: ReceiptId, fence: bytes, *, finished: bool = False) -> None:
        """Put a claim of this fence in the place of whatever is there; of a receipt, if asked."""
        values = {"id": id_.hex(), "fence": fence.hex()}
        try:
            async with await psycopg.AsyncConnection.connect(self.url, connect_timeout=2) as link:
                if finished:
                    await link.execute(FORGET, values)
                await link.execute(STEAL, values)
        except psycopg.Error as error:
            raise StoreUnavailable(str(error), performed=False) from error


class WithoutClaims(Breaking):
    """Only the lock in Redis keeps a key that is in flight."""

    async def claim(self, claim: Claim) -> ClaimAnswer:
        """Give the key to whoever comes, unless it is finished."""
        answer = await super().claim(claim)
        if isinstance(answer, InFlight | Orphaned):
            await self.steal(claim.id, claim.fence)
            return Claimed()
        return answer


class WithoutFence(Breaking):
    """The last one to finish wins, also if its claim was taken over."""

    async def begin(self, id_: ReceiptId | None = None, /) -> AsyncPostgresTransaction:
        """Begin a transaction whose commit is not fenced."""
        unfenced: AsyncTransaction = _UnfencedTransaction(self, await super().begin(id_))
        return cast("AsyncPostgresTransaction", unfenced)


class _UnfencedTransaction:
    """A transaction that commits as if its claim were still there."""

    def __init__(self, store: Breaking, inner: AsyncTransaction) -> None:
        self._store, self._inner = store, inner

    @property
    def connection(self) -> AsyncConnection:
        """The handler's connection."""
        return self._inner.connection

    async def commit(self, finish: Finish) -> bool:
        """Take the claim back by force, and commit."""
        await self._store.steal(finish.id, finish.fence, finished=True)
        return await self._inner.commit(finish)

    async def rollback(self) -> None:
        """Roll back."""
        await self._inner.rollback()


class WithoutWaiting(Breaking):
    """A receipt is called durable before it is: the answer leaves earlier than the commit."""

    def __init__(self, url: str) -> None:
        """Owe nothing yet."""
        super().__init__(url)
        self._owed: set[asyncio.Task[bool]] = set()

    async def finish(self, finish: Finish) -> bool:
        """Say that it is done, and do it later."""
        task = asyncio.create_task(self._later(finish))
        self._owed.add(task)
        task.add_done_callback(self._owed.discard)
        return True

    async def _later(self, finish: Finish) -> bool:
        await asyncio.sleep(HASTE_S)
        try:
            return await super().finish(finish)
        except StoreUnavailable:
            return False


class WithoutRenewals(Breaking):
    """A lease is never renewed, and nobody notices."""

    async def renew(self, renew: Renew) -> bool:
        """Do nothing."""
        return True


PROTECTIONS: dict[str, type[Breaking]] = {
    "claims": WithoutClaims,
    "fence": WithoutFence,
    "waiting": WithoutWaiting,
    "renewals": WithoutRenewals,
}
"""What can be taken away, by its name."""


def receipts_without(protection: str, url: str) -> AsyncReceipts:
    """Return the store of a run; the whole one for ""."""
    if not protection:
        return AsyncPostgresReceipts(url, operation_s=OPERATION_S)
    return PROTECTIONS[protection](url)
