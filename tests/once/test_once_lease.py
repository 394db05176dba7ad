"""How long a message is a consumer's own: renewed while its block runs, lost, cancelled."""

from __future__ import annotations

import asyncio
from functools import partial

import anyio
import pytest
import redis

from once.consumers import SOURCE, consuming, expire
from replayfloor.core.errors import ClaimLost
from replayfloor.server import EventKind, ServerEvent
from replayfloor.server.once import (
    AlreadyApplied,
    AsyncMessageClaim,
    OutcomeNotKnown,
    StillInFlight,
)
from server.apps import Gate, Killed, nothing, raising
from server.backends import Backend, EffectsOption
from server.doubles import watched_receipts
from server.own_transaction import own_transaction

pytestmark = pytest.mark.anyio

LEASE_S = 0.3
TAKEN = "update replayfloor.claims set fence = gen_random_uuid()"


async def test_a_block_may_take_longer_than_its_lease(backend: Backend) -> None:
    """The claim is renewed meanwhile, also if Redis has lost the lock."""
    gate = Gate()
    async with consuming(backend, lease_s=LEASE_S) as consumer, consuming(backend) as another:
        consumer.after = gate
        async with anyio.create_task_group() as group:
            group.start_soon(partial(consumer.deliver, "m1", source=SOURCE))
            await gate.entered.wait()
            await anyio.sleep(2 * LEASE_S)
            with redis.Redis.from_url(backend.lock_url) as connection:
                connection.flushdb()
            with pytest.raises(StillInFlight):
                await another.deliver("m1", source=SOURCE)
            assert not consumer.claims[0].lost
            gate.opened.set()

    assert backend.ledger.rows() == ["m1"]


async def test_nothing_is_renewed_after_the_end_of_a_block(backend: Backend) -> None:
    """A renewal that finds no claim would be told as a loss."""
    events: list[ServerEvent] = []
    async with consuming(backend, lease_s=LEASE_S, on_event=events.append) as consumer:
        await consumer.deliver("m1", source=SOURCE)
        consumer.after = partial(anyio.sleep, 0.5 * LEASE_S)
        await consumer.deliver("m2", source=SOURCE)
        await anyio.sleep(LEASE_S)

    assert [each.kind for each in events] == [EventKind.CLAIMED, EventKind.FINISHED] * 2


async def test_a_lease_that_ran_out_while_nobody_answered_is_told(backend: Backend) -> None:
    """The commit decides: here nobody else has come."""
    events: list[ServerEvent] = []
    silence, receipts = Gate(), watched_receipts(backend.receipts())
    receipts.before["renew"] = silence
    async with consuming(
        backend, lease_s=LEASE_S, receipts=receipts, on_event=events.append
    ) as consumer:

        async def outlast() -> None:
            await silence.entered.wait()
            await anyio.sleep(1.5 * LEASE_S)
            assert consumer.claims[0].lost

        consumer.after = outlast
        await consumer.deliver("m1", source=SOURCE)
        silence.opened.set()

    kinds = [EventKind.CLAIMED, EventKind.LEASE_LOST, EventKind.FINISHED]
    assert [each.kind for each in events] == kinds
    assert backend.ledger.rows() == ["m1"]


async def test_a_block_that_lost_its_claim_is_rolled_back_and_told(backend: Backend) -> None:
    """And by `claim.lost` while it runs, with the first renewal that fails."""
    events: list[ServerEvent] = []
    lease_s = 10 * LEASE_S
    async with consuming(backend, lease_s=lease_s, on_event=events.append) as consumer:

        async def lose() -> None:
            backend.ledger.run(TAKEN)
            # Sooner than the lease would have ended by itself.
            with anyio.fail_after(0.8 * lease_s):
                while not consumer.claims[0].lost:  # noqa: ASYNC110
                    await anyio.sleep(0.02)

        consumer.after = lose
        with pytest.raises(StillInFlight, match="claim was lost") as lost:
            await consumer.deliver("m1", source=SOURCE)

    assert lost.value.receipt_id == consumer.claims[0].id
    assert EventKind.LEASE_LOST in [each.kind for each in events]
    assert backend.ledger.rows() == []


async def test_a_block_cannot_finish_in_its_own_transaction_what_is_anothers(
    backend: Backend,
) -> None:
    async with consuming(backend, effects="repeatable") as consumer:

        async def own(claim: AsyncMessageClaim) -> None:
            backend.ledger.run(TAKEN)
            async with own_transaction(backend) as transaction:
                await transaction.write("own")
                await claim.finish_in(transaction.connection)

        with pytest.raises(ClaimLost):
            await consumer.deliver("m1", own, source=SOURCE)

    assert backend.ledger.rows() == []


@pytest.mark.parametrize("effects", ["atomic", "repeatable"])
async def test_an_orphan_is_taken_over_where_that_does_no_harm(
    backend: Backend, effects: EffectsOption
) -> None:
    gate = Gate()
    async with (
        consuming(backend, effects=effects) as consumer,
        consuming(backend, effects=effects, lock="local") as another,
    ):
        consumer.before = gate
        async with anyio.create_task_group() as group:
            group.start_soon(partial(_is_late, consumer.deliver, "m1"))
            await gate.entered.wait()
            expire(backend)
            await another.deliver("m1", source=SOURCE)
            gate.opened.set()

    assert another.claims[0].taken_over
    # The late one has written elsewhere, or was rolled back.
    assert backend.ledger.rows() == ["m1"] * (1 if effects == "atomic" else 2)


async def _is_late(deliver: object, name: str) -> None:
    with pytest.raises(StillInFlight):
        await deliver(name, source=SOURCE)  # type: ignore[operator]


@pytest.mark.parametrize("effects", ["atomic", "external", "repeatable"])
async def test_what_stops_a_block_from_outside_leaves_only_an_external_outcome_unknown(
    backend: Backend, effects: EffectsOption
) -> None:
    async with consuming(backend, effects=effects) as consumer:
        consumer.after = raising(Killed())
        with pytest.raises(Killed):
            await consumer.deliver("m1", source=SOURCE)
        expire(backend)
        consumer.after = nothing
        if effects == "external":
            with pytest.raises(OutcomeNotKnown) as unknown:
                await consumer.deliver("m1", source=SOURCE)
            assert unknown.value.receipt_id == consumer.claims[0].id
            assert unknown.value.retry_after_s >= 1
        else:
            await consumer.deliver("m1", source=SOURCE)

    assert backend.ledger.rows() == ["m1"] * (2 if effects == "repeatable" else 1)


@pytest.mark.parametrize("effects", ["atomic", "external"])
@pytest.mark.parametrize("by", ["task", "scope"])
async def test_a_cancelled_block_is_settled_although_it_is_cancelled(
    awaited: Backend, effects: EffectsOption, by: str
) -> None:
    gate = Gate()
    async with consuming(awaited, effects=effects) as consumer:
        consumer.after = gate
        if by == "task":
            task = asyncio.ensure_future(consumer.deliver("m1", source=SOURCE))
            await gate.entered.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            async with anyio.create_task_group() as group:
                group.start_soon(partial(consumer.deliver, "m1", source=SOURCE))
                await gate.entered.wait()
                group.cancel_scope.cancel()
        left = awaited.ledger.run("select count(*) from replayfloor.claims")
        expire(awaited)
        if effects == "external":
            with pytest.raises(OutcomeNotKnown):
                await consumer.deliver("m1", source=SOURCE)
        else:
            await consumer.deliver("m1", source=SOURCE)
            with pytest.raises(AlreadyApplied):
                await consumer.deliver("m1", source=SOURCE)

    assert left == [(1 if effects == "external" else 0,)]
    assert awaited.ledger.rows() == ["m1"]
