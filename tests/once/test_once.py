"""A message is applied once, by whatever consumer it is delivered to, and however often."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

import anyio
import pytest
import redis

from once.consumers import SOURCE, Block, consuming, outcome
from replayfloor.server import EventKind, ServerEvent
from replayfloor.server.once import AlreadyApplied, AsyncMessageClaim, MessageReused, StillInFlight
from server.apps import Gate, nothing, raising
from server.backends import Backend, EffectsOption
from server.own_transaction import own_transaction

pytestmark = pytest.mark.anyio

every_effect = pytest.mark.parametrize("effects", ["atomic", "external", "repeatable"])


class Refused(Exception):
    """What a block raises."""


@every_effect
async def test_a_message_is_applied_once_and_its_redelivery_is_told_so(
    backend: Backend, effects: EffectsOption
) -> None:
    async with consuming(backend, effects=effects) as consumer:
        await consumer.deliver("m1", source=SOURCE)
        with pytest.raises(AlreadyApplied) as applied:
            await consumer.deliver("m1", source=SOURCE)

    assert backend.ledger.rows() == ["m1"]
    assert (applied.value.source, applied.value.receipt_id) == (SOURCE, consumer.claims[0].id)
    assert "m1" not in str(applied.value)


async def test_a_consumer_that_dies_before_it_acknowledges_leaves_one_row(
    backend: Backend,
) -> None:
    """The effect and the receipt are one commit; what is in Redis does not matter."""
    async with consuming(backend, retention=3600.0) as consumer:
        await consumer.deliver("m1", source=SOURCE)
    with redis.Redis.from_url(backend.lock_url) as connection:
        connection.flushdb()

    async with consuming(backend, retention=3600.0) as another:
        with pytest.raises(AlreadyApplied) as applied:
            await another.deliver("m1", source=SOURCE)

    assert backend.ledger.rows() == ["m1"]
    assert applied.value.age is not None
    assert timedelta(0) <= applied.value.age < timedelta(seconds=60)


@every_effect
async def test_a_message_whose_block_raises_is_applied_by_its_redelivery(
    backend: Backend, effects: EffectsOption
) -> None:
    error = Refused("no such account")
    async with consuming(backend, effects=effects) as consumer:
        consumer.after = raising(error)
        with pytest.raises(Refused) as raised:
            await consumer.deliver("m1", source=SOURCE)
        left = backend.ledger.rows()
        consumer.after = nothing
        await consumer.deliver("m1", source=SOURCE)
        with pytest.raises(AlreadyApplied):
            await consumer.deliver("m1", source=SOURCE)

    assert raised.value is error
    assert left == ([] if effects == "atomic" else ["m1"])
    assert backend.ledger.rows() == [*left, "m1"]


async def test_a_message_in_flight_is_left_to_be_delivered_again(backend: Backend) -> None:
    gate = Gate()
    async with consuming(backend) as consumer, consuming(backend) as another:
        consumer.before = gate
        async with anyio.create_task_group() as group:
            group.start_soon(partial(consumer.deliver, "m1", source=SOURCE))
            await gate.entered.wait()
            with pytest.raises(StillInFlight) as busy:
                await another.deliver("m1", source=SOURCE)
            assert 1 <= busy.value.retry_after_s <= 30
            assert busy.value.receipt_id == consumer.claims[0].id
            gate.opened.set()
        assert await outcome(another) is AlreadyApplied

    assert backend.ledger.rows() == ["m1"]


async def test_a_second_delivery_may_wait_for_the_first(backend: Backend) -> None:
    gate = Gate()
    async with consuming(backend) as consumer, consuming(backend, wait_for_s=10.0) as another:
        consumer.before = gate
        async with anyio.create_task_group() as group:
            group.start_soon(partial(consumer.deliver, "m1", source=SOURCE))
            await gate.entered.wait()
            group.start_soon(_open_later, gate)
            with pytest.raises(AlreadyApplied):
                await another.deliver("m1", source=SOURCE)

    assert backend.ledger.rows() == ["m1"]


async def _open_later(gate: Gate) -> None:
    await anyio.sleep(0.1)
    gate.opened.set()


async def test_sources_and_namespaces_have_ids_of_their_own(backend: Backend) -> None:
    async with consuming(backend) as consumer, consuming(backend, namespace="other") as other:
        await consumer.deliver("c", source="a:b")
        await consumer.deliver("b:c", source="a")
        await consumer.deliver("c", source="a")
        await other.deliver("c", source="a")

    assert backend.ledger.rows() == ["c", "b:c", "c", "c"]
    assert len({claim.id for claim in (*consumer.claims, *other.claims)}) == 4


async def test_an_id_that_is_used_for_another_body_is_refused(backend: Backend) -> None:
    gate = Gate()
    async with consuming(backend) as consumer:
        consumer.before = gate
        async with anyio.create_task_group() as group:
            group.start_soon(partial(consumer.deliver, "m1", source=SOURCE, body=b"one"))
            await gate.entered.wait()
            with pytest.raises(MessageReused):
                await consumer.deliver("m1", source=SOURCE, body=b"two")
            gate.opened.set()
        with pytest.raises(MessageReused) as reused:
            await consumer.deliver("m1", source=SOURCE, body=b"two")
        with pytest.raises(AlreadyApplied):
            await consumer.deliver("m1", source=SOURCE, body=b"one")

    assert reused.value.receipt_id == consumer.claims[0].id
    assert backend.ledger.rows() == ["m1"]


async def test_run_says_whether_the_message_was_applied_now(backend: Backend) -> None:
    async with consuming(backend) as consumer:
        assert await consumer.run("m1", source=SOURCE) is True
        assert await consumer.run("m1", source=SOURCE) is False

    assert backend.ledger.rows() == ["m1"]


async def test_run_does_not_take_another_messages_answer_for_its_own(backend: Backend) -> None:
    """A handler that applies a second message, which was applied before, has failed."""
    async with consuming(backend, effects="external") as consumer:
        await consumer.run("m2", source=SOURCE)

        async def apply_both(claim: AsyncMessageClaim) -> None:
            del claim
            await consumer.deliver("m2", source=SOURCE)

        with pytest.raises(AlreadyApplied):
            await consumer.run("m1", apply_both, source=SOURCE)
        assert await consumer.run("m1", source=SOURCE) is True


def finishing(backend: Backend, *, commits: bool, raises: bool) -> Block:
    """Return a block that writes its row and the receipt in a transaction of its own."""

    async def own(claim: AsyncMessageClaim) -> None:
        async with own_transaction(backend) as transaction:
            await transaction.write("own")
            await claim.finish_in(transaction.connection)
            if commits:
                await transaction.commit()
        if raises:
            raise Refused

    return own


@pytest.mark.parametrize("effects", ["external", "repeatable"])
async def test_a_block_may_finish_in_a_transaction_of_its_own(
    backend: Backend, effects: EffectsOption
) -> None:
    events: list[ServerEvent] = []
    async with consuming(backend, effects=effects, on_event=events.append) as consumer:
        await consumer.deliver("m1", finishing(backend, commits=True, raises=False), source=SOURCE)
        with pytest.raises(AlreadyApplied):
            await consumer.deliver("m1", source=SOURCE)

    assert backend.ledger.rows() == ["own"]
    kinds = [EventKind.CLAIMED, EventKind.FINISHED, EventKind.REPLAYED]
    assert [each.kind for each in events] == kinds


async def test_what_a_block_has_committed_is_applied_although_it_raises_then(
    backend: Backend,
) -> None:
    """Rolled back, it is not, and the redelivery runs it again."""
    events: list[ServerEvent] = []
    async with consuming(backend, effects="repeatable", on_event=events.append) as consumer:
        for commits in (False, True):
            with pytest.raises(Refused):
                await consumer.deliver(
                    "m1", finishing(backend, commits=commits, raises=True), source=SOURCE
                )
        with pytest.raises(AlreadyApplied):
            await consumer.deliver("m1", source=SOURCE)

    assert backend.ledger.rows() == ["own"]
    first, second = [EventKind.CLAIMED, EventKind.FREED], [EventKind.CLAIMED, EventKind.FINISHED]
    assert [each.kind for each in events] == [*first, *second, EventKind.REPLAYED]


async def test_a_redelivery_derives_the_same_keys_for_other_services(backend: Backend) -> None:
    async with consuming(backend, effects="repeatable") as consumer:
        consumer.before = raising(Refused())
        for _ in range(2):
            with pytest.raises(Refused):
                await consumer.deliver("m1", source=SOURCE)

    first, second = consumer.claims
    assert first.derived_key("charge") == second.derived_key("charge") != first.derived_key("mail")


async def test_the_claim_tells_the_age_of_the_message(backend: Backend) -> None:
    async with consuming(backend) as consumer:
        made = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=2)
        await consumer.deliver("m1", source=SOURCE, occurred=made)
        await consumer.deliver("m2", source=SOURCE)

    told, untold = (claim.age for claim in consumer.claims)
    assert told is not None
    assert timedelta(hours=2) <= told < timedelta(hours=2, minutes=1)
    assert untold is None


async def test_deliveries_are_counted_by_source(backend: Backend) -> None:
    """Also if nobody listens to events."""
    async with consuming(backend) as consumer:
        await consumer.deliver("m1", source=SOURCE, retried=False)
        with pytest.raises(AlreadyApplied):
            await consumer.deliver("m1", source=SOURCE, retried=True)
        consumer.before = raising(Refused())
        with pytest.raises(Refused):
            await consumer.deliver("m2", source="another-queue")
        counts = {each.source: each for each in consumer.guard.deliveries}

    ours = counts[SOURCE]
    assert (ours.first, ours.duplicates, ours.retried_duplicates, ours.hit_rate) == (1, 1, 1, 0.5)
    assert (counts["another-queue"].first, counts["another-queue"].failed) == (1, 1)


async def test_what_happens_to_a_message_is_told(backend: Backend) -> None:
    events: list[ServerEvent] = []
    async with consuming(backend, on_event=events.append) as consumer:
        await consumer.deliver("m1", source=SOURCE)
        with pytest.raises(AlreadyApplied):
            await consumer.deliver("m1", source=SOURCE)

    kinds = [EventKind.CLAIMED, EventKind.FINISHED, EventKind.REPLAYED]
    assert [each.kind for each in events] == kinds
    assert {each.source for each in events} == {SOURCE}
    assert {each.receipt_id for each in events} == {consumer.claims[0].id}
