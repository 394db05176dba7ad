"""How long a message is remembered: for as long as its broker may deliver it again, and after."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Literal

import pytest

from once.consumers import SOURCE, Consumer, consuming, make_guard, open_guard
from replayfloor.retention import InboundPolicy, RetentionTooShort
from replayfloor.server import EventKind, ServerEvent
from replayfloor.server.once import AlreadyApplied, PastHorizon
from server.backends import Backend, no_connection_is_left
from server.moments import HOUR_S, Moments, moments_of

pytestmark = pytest.mark.anyio

DAY_S = 24 * HOUR_S
# A message is kept by the queue for four days, and by its dead-letter queue for fourteen.
POLICY = InboundPolicy("payments-queue", broker_redelivery="18d", planned_outage="2d")


@pytest.fixture
async def moments(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Moments]:
    """Both sides."""
    async with moments_of(backend, monkeypatch) as made:
        yield made


async def test_the_worked_failure_applies_a_message_once(moments: Moments) -> None:
    """Applied at hour 0, and killed before it acknowledged; delivered again at hour 30, from the
    dead-letter queue on day 12, and moved back by hand on day 18."""
    for after_s in (0, 30 * HOUR_S, 12 * DAY_S, 18 * DAY_S):
        moments.at(after_s)
        moments.flush()
        async with consuming(moments.backend, retention=POLICY) as consumer:
            if after_s:
                with pytest.raises(AlreadyApplied) as applied:
                    await consumer.deliver("m1", source=SOURCE)
                assert not isinstance(applied.value, PastHorizon)
            else:
                await consumer.deliver("m1", source=SOURCE)

    assert moments.backend.ledger.rows() == ["m1"]


async def test_a_retention_of_a_day_is_refused_by_what_the_database_was_told(
    backend: Backend,
) -> None:
    """A deployment that keeps receipts for a shorter time than the one before does not start."""
    async with consuming(backend, retention=POLICY):
        pass
    guard = make_guard(backend, retention=float(DAY_S))
    with pytest.raises(RetentionTooShort, match="broker redelivery"):
        await open_guard(guard)
    await no_connection_is_left(backend.receipts_url)

    async with consuming(backend, retention=float(DAY_S), accept_shorter=True) as consumer:
        await consumer.deliver("m1", source=SOURCE)
    noted = backend.ledger.run("select namespace, retention_s from replayfloor.policies")
    assert [(name, float(str(kept))) for name, kept in noted] == [("default", DAY_S)]


Way = Literal["old", "expired"]


async def _past(moments: Moments, consumer: Consumer, way: Way) -> datetime | None:
    """Let the next delivery of m1 be one of which nobody can tell whether it was applied."""
    if way == "old":
        return datetime.fromtimestamp(moments.start_ms / 1000 - 20 * DAY_S, UTC)
    await consumer.deliver("m1", source=SOURCE)
    moments.at(20 * DAY_S + 60)
    moments.flush()
    return None


@pytest.mark.parametrize("way", ["old", "expired"])
async def test_a_message_past_its_horizon_is_recorded_and_not_applied(
    moments: Moments, way: Way
) -> None:
    events: list[ServerEvent] = []
    async with consuming(
        moments.backend, retention=POLICY, lock="local", on_event=events.append
    ) as consumer:
        occurred = await _past(moments, consumer, way)
        before = moments.backend.ledger.rows()
        for _ in range(2):
            with pytest.raises(PastHorizon) as past:
                await consumer.deliver("m1", source=SOURCE, occurred=occurred)
            assert past.value.source == SOURCE
        assert await consumer.run("m1", source=SOURCE, occurred=occurred) is False

    assert moments.backend.ledger.rows() == before == (["m1"] if way == "expired" else [])
    assert [each.kind for each in events].count(EventKind.PAST_HORIZON) == 1


@pytest.mark.parametrize("way", ["old", "expired"])
async def test_a_message_past_its_horizon_may_be_given_to_its_block(
    moments: Moments, way: Way
) -> None:
    async with consuming(
        moments.backend, retention=POLICY, lock="local", past_horizon="handler"
    ) as consumer:
        occurred = await _past(moments, consumer, way)
        await consumer.deliver("m1", source=SOURCE, occurred=occurred)

    assert consumer.claims[-1].past_horizon
    assert not any(claim.past_horizon for claim in consumer.claims[:-1])


async def test_a_message_from_the_future_is_new(moments: Moments) -> None:
    """The clock is its producer's."""
    async with consuming(moments.backend, retention=POLICY) as consumer:
        tomorrow = datetime.fromtimestamp(moments.start_ms / 1000 + DAY_S, UTC)
        await consumer.deliver("m1", source=SOURCE, occurred=tomorrow)

    assert moments.backend.ledger.rows() == ["m1"]


async def test_a_guard_maintains_the_receipts_while_it_is_open_if_it_is_told_to(
    backend: Backend,
) -> None:
    async with consuming(backend, retention=POLICY, maintain=True):
        assert "replayfloor-maintenance" in [each.name for each in threading.enumerate()]
    assert "replayfloor-maintenance" not in [each.name for each in threading.enumerate()]
