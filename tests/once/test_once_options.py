"""What a guard refuses: options, ids, and uses that could not keep the promise."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import cast

import anyio
import psycopg
import pytest

from once.consumers import SOURCE, close_guard, consuming, make_guard, open_guard
from replayfloor.core.errors import ConfigurationError, SchemaMissing, UsageError
from replayfloor.retention import InboundPolicy, RetentionTooShort
from replayfloor.server.once import AlreadyApplied, AsyncGuard, Guard
from replayfloor.server.once_message import SOURCE_CHARACTERS_MAX, delivered_of
from replayfloor.server.perform_async import CLEANUP_S
from server.apps import Gate, raising
from server.backends import Backend, no_connection_is_left

GUARDS = [AsyncGuard, Guard]
LIKE_NONE: list[object] = ["", None, 7, b"m1", "\ud800"]


@pytest.mark.parametrize("kind", GUARDS)
def test_options_that_cannot_be_honoured_are_refused(kind: type[AsyncGuard | Guard]) -> None:
    make = cast("Callable[..., object]", kind)
    wrong: list[tuple[dict[str, object], str]] = [
        ({"required": True}, "unknown option required"),
        ({"past_horizon": "execute"}, "past_horizon"),
        ({"effects": "none"}, "effects"),
        ({"lease_s": 0}, "lease_s"),
        ({"maintain": True}, "retention"),
        ({"receipts": 7}, "receipts"),
    ]
    for options, told in wrong:
        with pytest.raises(ConfigurationError, match=told):
            make(**{"receipts": "sqlite:///never-opened.db", **options})


@pytest.mark.parametrize("kind", GUARDS)
def test_a_retention_below_the_floor_of_the_policy_is_refused(
    kind: type[AsyncGuard | Guard],
) -> None:
    policy = InboundPolicy("queue", broker_redelivery="4d", planned_outage="1d")
    with pytest.raises(RetentionTooShort, match="broker redelivery"):
        kind(receipts="sqlite:///never-opened.db", policy=policy, retention=4 * 86_400.0)
    kind(receipts="sqlite:///never-opened.db", policy=policy, retention=5 * 86_400.0)


def test_a_blocking_guard_refuses_awaited_stores() -> None:
    made = AsyncGuard(receipts="sqlite:///never-opened.db")
    with pytest.raises(ConfigurationError, match="asynchronous"):
        cast("Callable[..., object]", Guard)(receipts=made._uses.life.stores.receipts)


@pytest.mark.parametrize("message_id", LIKE_NONE)
def test_a_message_without_an_id_is_refused(message_id: object) -> None:
    """Brokers deliver messages whose sender gave them none; as one key they would be one."""
    with pytest.raises(UsageError, match="message_id"):
        delivered_of(cast("str", message_id), source=SOURCE)


@pytest.mark.parametrize("source", ["", None, "two\nlines", "q" * (SOURCE_CHARACTERS_MAX + 1)])
def test_a_source_without_a_name_is_refused(source: object) -> None:
    with pytest.raises(UsageError, match="source"):
        delivered_of("m1", source=cast("str", source))


def test_a_time_without_a_zone_and_a_body_that_is_a_text_are_refused() -> None:
    naive = datetime.now(UTC).replace(tzinfo=None)
    with pytest.raises(UsageError, match="time zone"):
        delivered_of("m1", source=SOURCE, occurred=naive)
    with pytest.raises(UsageError, match="body"):
        delivered_of("m1", source=SOURCE, body=cast("bytes", "text"))


@pytest.mark.anyio
async def test_a_guard_that_is_not_open_applies_nothing(backend: Backend) -> None:
    async with consuming(backend) as consumer:
        await close_guard(consumer.guard)
        with pytest.raises(UsageError, match="not open"):
            await consumer.deliver("m1", source=SOURCE)
        await open_guard(consumer.guard)
        await consumer.deliver("m1", source=SOURCE)

    await no_connection_is_left(backend.receipts_url)
    assert backend.ledger.rows() == ["m1"]


@pytest.mark.anyio
async def test_what_once_returns_is_for_one_block(awaited: Backend) -> None:
    async with AsyncGuard(receipts=awaited.receipts_url) as guard:
        once = guard.once("m1", source=SOURCE)
        async with once:
            with pytest.raises(UsageError, match="one block"):
                async with once:
                    pytest.fail("the block was run again")
        with pytest.raises(UsageError, match="one block"):
            await once.__aenter__()
    with Guard(receipts=awaited.receipts_url) as blocking:
        blocked = blocking.once("m2", source=SOURCE)
        with blocked:
            pass
        with pytest.raises(UsageError, match="one block"):
            blocked.__enter__()


@pytest.mark.anyio
async def test_a_database_that_was_not_migrated_fails_the_opening(
    awaited: Backend,
) -> None:
    """And what was opened until then is closed again."""
    with psycopg.connect(awaited.receipts_url, autocommit=True) as connection:
        connection.execute("drop database if exists test_once_empty")
        connection.execute("create database test_once_empty")
    empty = awaited.receipts_url.replace("/test_once", "/test_once_empty")
    try:
        guard = make_guard(awaited, receipts=empty)
        with pytest.raises(SchemaMissing):
            await open_guard(guard)
        await no_connection_is_left(empty)
    finally:
        with psycopg.connect(awaited.receipts_url, autocommit=True) as connection:
            connection.execute("drop database test_once_empty with (force)")


@pytest.mark.anyio
async def test_a_guard_whose_blocks_have_ended_closes_at_once(awaited: Backend) -> None:
    """However they ended, and also if they were never begun."""
    async with consuming(awaited) as consumer:
        await consumer.deliver("m1", source=SOURCE)
        with pytest.raises(AlreadyApplied):
            await consumer.deliver("m1", source=SOURCE)
        consumer.after = raising(LookupError())
        with pytest.raises(LookupError):
            await consumer.deliver("m2", source=SOURCE)
        began = time.monotonic()
    assert time.monotonic() - began < CLEANUP_S / 2


@pytest.mark.anyio
async def test_a_guard_is_closed_although_its_consumer_was_cancelled(awaited: Backend) -> None:
    with anyio.CancelScope() as scope:
        async with AsyncGuard(receipts=awaited.receipts_url, lock=awaited.lock_url) as guard:
            async with guard.once("m1", source=SOURCE):
                pass
            scope.cancel()
            await anyio.lowlevel.checkpoint()

    await no_connection_is_left(awaited.receipts_url)


@pytest.mark.anyio
async def test_a_block_that_was_cancelled_is_settled_before_the_guard_closes(
    awaited: Backend,
) -> None:
    """A consumer that cancels its tasks and leaves at once does not leave their keys taken."""
    gate = Gate()
    async with consuming(awaited) as consumer:
        consumer.after = gate
        task = asyncio.ensure_future(consumer.deliver("m1", source=SOURCE))
        await gate.entered.wait()
        task.cancel()
        await anyio.lowlevel.checkpoint()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert awaited.ledger.rows() == []
    await no_connection_is_left(awaited.receipts_url)
    async with consuming(awaited) as another:
        await another.deliver("m1", source=SOURCE)
    assert awaited.ledger.rows() == ["m1"]
