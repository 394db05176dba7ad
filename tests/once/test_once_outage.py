"""What a consumer is told while Postgres or Redis is away, and that nothing runs without them."""

from __future__ import annotations

import pytest

from once.consumers import SOURCE, consuming, expire, make_guard, open_guard
from replayfloor.core.errors import StoreUnavailable
from replayfloor.server.once import AlreadyApplied, OutcomeNotKnown
from server.apps import Hook
from server.backends import Backend, no_connection_is_left
from server.doubles import unavailable, watched_receipts
from support.services import Postgres, Redis

pytestmark = pytest.mark.anyio


async def test_without_postgres_nothing_is_run(backend: Backend, postgres_server: Postgres) -> None:
    receipts = backend.postgres_receipts(operation_s=1.0)
    async with consuming(backend, receipts=receipts) as consumer:
        postgres_server.stop()
        with pytest.raises(StoreUnavailable) as away:
            await consumer.deliver("m1", source=SOURCE)
        postgres_server.restore()
        ran = len(consumer.claims)
        await consumer.deliver("m1", source=SOURCE)

    assert (ran, away.value.performed) == (0, False)
    assert backend.ledger.rows() == ["m1"]


async def test_without_postgres_a_guard_does_not_open(
    backend: Backend, postgres_server: Postgres
) -> None:
    guard = make_guard(backend, receipts=backend.postgres_receipts(operation_s=1.0))
    postgres_server.stop()
    with pytest.raises(StoreUnavailable):
        await open_guard(guard)
    postgres_server.restore()

    await no_connection_is_left(backend.receipts_url)


async def test_a_guard_that_does_not_open_leaves_nothing_open(backend: Backend) -> None:
    receipts = watched_receipts(backend.receipts())
    receipts.after["open"] = unavailable(times=1)
    with pytest.raises(StoreUnavailable):
        await open_guard(make_guard(backend, receipts=receipts))

    assert receipts.calls == ["open", "close"]


async def test_without_redis_a_message_is_applied_once(
    backend: Backend, redis_server: Redis
) -> None:
    async with consuming(backend) as consumer, consuming(backend) as another:
        redis_server.stop()
        await consumer.deliver("m1", source=SOURCE)
        with pytest.raises(AlreadyApplied):
            await another.deliver("m1", source=SOURCE)

    assert backend.ledger.rows() == ["m1"]


async def test_a_commit_whose_answer_is_lost_is_looked_up(backend: Backend) -> None:
    receipts = watched_receipts(backend.receipts())
    receipts.after["commit"] = unavailable(times=1)
    async with consuming(backend, receipts=receipts) as consumer:
        await consumer.deliver("m1", source=SOURCE)

    assert backend.ledger.rows() == ["m1"]


@pytest.mark.parametrize("where", ["before", "after"])
async def test_a_commit_of_which_nothing_is_known_is_told_so_and_the_redelivery_knows(
    backend: Backend, where: str
) -> None:
    receipts = watched_receipts(backend.receipts())
    hooks: dict[str, Hook] = getattr(receipts, where)
    hooks["commit"] = unavailable(times=1)
    receipts.before["abandon"] = unavailable(times=1)
    async with consuming(backend, receipts=receipts, lease_s=0.2) as consumer:
        with pytest.raises(OutcomeNotKnown, match="next delivery"):
            await consumer.deliver("m1", source=SOURCE)
        expire(backend)
        if where == "before":
            await consumer.deliver("m1", source=SOURCE)
        with pytest.raises(AlreadyApplied):
            await consumer.deliver("m1", source=SOURCE)

    assert backend.ledger.rows() == ["m1"]
