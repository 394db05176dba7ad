"""The primary is killed under load and its replica takes over: what was acknowledged is there.

Writers claim keys, have an effect and finish, through one store whose URL names both servers. The
link to the replica stalls for a moment before the kill, as it does when a machine or its network is
about to go; some have claimed before it and finish after it. Then every commit that waits for the
replica stays unanswered, and one that does not wait is acknowledged and lost: the test that expects
the loss shows that the other one would see it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from math import inf
from typing import LiteralString, TypeVar

import anyio
import psycopg
import pytest
from anyio import to_thread

from replayfloor.core.claims import Abandon, Claim, Claimed, Fence, Finish, Finished, Renew
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.resources import load
from replayfloor.server.stores import AsyncReceipts
from replayfloor.server.stores.migrate import migrate
from replayfloor.server.stores.postgres import PostgresReceipts
from replayfloor.server.stores.postgres_async import AsyncPostgresReceipts
from replayfloor.server.stores.postgres_batch import claims_parameters, finishes_parameters
from replayfloor.server.stores.postgres_values import (
    abandon_parameters,
    claim_parameters,
    finish_parameters,
    renew_parameters,
)
from replayfloor.testing.contract import claim, new_fence, new_id, receipt
from replayfloor.testing.threads import in_threads
from support.services.postgres_beside import Replicated, replicated

T = TypeVar("T")

WRITERS = 8
LOAD_S = 0.5
STALLED_S = 0.5
OPERATION_S = 1.0
RETRY_PAUSE_S = 0.05
ANSWERED_AFTER = 3
"""Keys that each writer finishes on the new primary before the load is over."""

DATABASE = "receipts"


@pytest.fixture(params=["remote_apply", "on"])
def waiting(request: pytest.FixtureRequest) -> Iterator[Replicated]:
    """Commits wait until the replica has them: applied there, or flushed to its disk."""
    with replicated(synchronous=True) as both:
        prepare(both, request.param)
        yield both


@pytest.fixture
def not_waiting() -> Iterator[Replicated]:
    """A replica all the same, but commits wait for the primary's own disk only."""
    with replicated(synchronous=True) as both:
        prepare(both, "local")
        yield both


def prepare(both: Replicated, synchronous_commit: str) -> None:
    """Make the database, as careful as that."""
    url = both.primary.database(DATABASE)
    migrate(url)
    with psycopg.connect(url, autocommit=True) as database:
        setting = f"alter database {DATABASE} set synchronous_commit = {synchronous_commit}"
        database.execute(setting.encode())


@dataclass
class Load:
    """Writers, the effects that they had, and the receipts that were acknowledged."""

    store: AsyncReceipts
    effects: Counter[ReceiptId] = field(default_factory=Counter)
    acknowledged: dict[ReceiptId, bytes] = field(default_factory=dict)
    gone: set[ReceiptId] = field(default_factory=set)
    refused: int = 0
    enough_at: float = inf

    async def write(self) -> None:
        """Use one key after the other, each until it has an answer."""
        while len(self.acknowledged) < self.enough_at:
            await self.use(new_id())

    async def use(self, id_: ReceiptId) -> None:
        """Do what the middleware does for one request and its retries."""
        fence = new_fence()
        if not isinstance(
            await self.until_answered(lambda: self.claim(claim(id_, fence))), Claimed
        ):
            return
        self.effects[id_] += 1
        await self.finish(id_, fence)

    async def finish(self, id_: ReceiptId, fence: Fence) -> None:
        """Finish a claim, and note what has become of it."""
        kept = receipt(id_)
        if await self.until_answered(lambda: self.store.finish(Finish(id_, fence, kept))):
            self.acknowledged[id_] = kept.response.body
            return
        # Only its first answer may have been lost; or the claim itself is.
        again = await self.until_answered(lambda: self.claim(claim(id_, fence)))
        if again == Finished(kept):
            self.acknowledged[id_] = kept.response.body
        else:
            self.gone.add(id_)

    async def held(self) -> tuple[ReceiptId, Fence]:
        """Claim a key and have its effect, but do not finish yet."""
        id_, fence = new_id(), new_fence()
        assert isinstance(await self.claim(claim(id_, fence)), Claimed)
        self.effects[id_] += 1
        return id_, fence

    async def claim(self, asked: Claim) -> object:
        """Claim."""
        return await self.store.claim(asked)

    async def until_answered(self, call: Callable[[], Awaitable[T]]) -> T:
        """Ask until the database answers."""
        while True:
            try:
                return await call()
            except StoreUnavailable:
                self.refused += 1
                await anyio.sleep(RETRY_PAUSE_S)

    async def through(self, both: Replicated) -> int:
        """Run while the primary is killed and the replica takes over, until it works again.

        Returns how many keys were acknowledged while the link was stalled.
        """
        stalled = 0
        async with anyio.create_task_group() as group:
            for _ in range(WRITERS):
                group.start_soon(self.write)
            await anyio.sleep(LOAD_S)
            claimed = [await self.held() for _ in range(WRITERS)]
            await to_thread.run_sync(both.stall)
            for id_, fence in claimed:
                group.start_soon(self.finish, id_, fence)
            before = len(self.acknowledged)
            await anyio.sleep(STALLED_S)
            stalled = len(self.acknowledged) - before
            await to_thread.run_sync(both.fail_over)
            self.enough_at = len(self.acknowledged) + WRITERS * ANSWERED_AFTER
        return stalled

    async def retry_all(self) -> list[ReceiptId]:
        """Retry every key that was acknowledged; return those that are not replayed.

        A key that the store does not know is executed, as it would be by the middleware.
        """
        lost: list[ReceiptId] = []
        for id_, body in self.acknowledged.items():
            answer = await self.claim(claim(id_, new_fence(), takeover=True))
            if isinstance(answer, Claimed):
                self.effects[id_] += 1
            if not (isinstance(answer, Finished) and answer.receipt.response.body == body):
                lost.append(id_)
        return lost


def store_of(both: Replicated, *, blocking: bool) -> AsyncReceipts:
    """Return a store that finds whichever server takes writes."""
    url = both.url_of(DATABASE)
    if blocking:
        return in_threads(PostgresReceipts(url, operation_s=OPERATION_S))
    return AsyncPostgresReceipts(url, operation_s=OPERATION_S)


@pytest.mark.anyio
@pytest.mark.slow
@pytest.mark.parametrize("blocking", [False, True], ids=["async", "blocking"])
async def test_no_receipt_that_was_acknowledged_is_lost_when_the_replica_takes_over(
    waiting: Replicated, blocking: bool
) -> None:
    loaded = Load(store_of(waiting, blocking=blocking))
    stalled = await loaded.through(waiting)
    lost = await loaded.retry_all()
    await loaded.store.close()

    assert lost == []
    assert loaded.gone == set()
    assert set(loaded.effects.values()) == {1}
    # What had been sent to the replica before the stall may still be answered, and no more.
    assert stalled <= WRITERS
    assert loaded.refused


@pytest.mark.anyio
@pytest.mark.slow
async def test_without_waiting_for_the_replica_acknowledged_receipts_are_lost(
    not_waiting: Replicated,
) -> None:
    loaded = Load(store_of(not_waiting, blocking=False))
    stalled = await loaded.through(not_waiting)
    lost = await loaded.retry_all()
    await loaded.store.close()

    assert stalled > WRITERS
    assert len(lost) >= stalled
    # Of a key that was claimed before the stall, the claim is there, and refuses the retry.
    twice = [id_ for id_ in lost if loaded.effects[id_] == 2]
    assert len(twice) >= stalled - WRITERS


@pytest.mark.anyio
@pytest.mark.slow
@pytest.mark.parametrize(("setting", "waits"), [("local", False), ("remote_apply", True)])
async def test_a_receipt_is_acknowledged_when_the_replica_has_it_if_the_database_says_so(
    setting: str, waits: bool
) -> None:
    with replicated(synchronous=True) as both:
        prepare(both, setting)
        store = store_of(both, blocking=False)
        id_, fence = new_id(), new_fence()
        await store.claim(claim(id_, fence))
        both.replica.freeze()
        try:
            with pytest.raises(StoreUnavailable) if waits else nullcontext():
                assert await store.finish(Finish(id_, fence, receipt()))
        finally:
            both.replica.thaw()
            await store.close()


@pytest.mark.parametrize("setting", ["local", "remote_write", "on", "remote_apply"])
def test_what_a_commit_waits_for_is_left_as_it_was_set_unless_it_waits_for_nothing(
    postgres_url: str, setting: str
) -> None:
    migrate(postgres_url)
    asked, others = (claim(new_id(), new_fence()) for _ in range(2)), [claim(new_id(), new_fence())]
    finished, abandoned = asked
    calls: list[tuple[LiteralString, Mapping[str, object]]] = [
        (load("sql/postgres/claim.sql"), claim_parameters(finished)),
        (load("sql/postgres/claim.sql"), claim_parameters(abandoned)),
        (load("sql/postgres/claim_batch.sql"), claims_parameters(others)),
        (
            load("sql/postgres/renew.sql"),
            renew_parameters(Renew(finished.id, finished.fence, finished.lease_ms)),
        ),
        (load("sql/postgres/finish.sql"), finish_parameters(finish_of(finished))),
        (load("sql/postgres/finish_batch.sql"), finishes_parameters([finish_of(*others)])),
        (
            load("sql/postgres/abandon.sql"),
            abandon_parameters(Abandon(abandoned.id, abandoned.fence)),
        ),
    ]
    with psycopg.connect(postgres_url) as database:
        for query, parameters in calls:
            database.execute("select set_config('synchronous_commit', %s, true)", (setting,))
            database.execute(query, parameters)
            assert database.execute("show synchronous_commit").fetchone() == (setting,), query


def finish_of(claimed: Claim) -> Finish:
    """Return what finishes a claim."""
    return Finish(claimed.id, claimed.fence, receipt())
