"""Thousands of deliveries, duplicated, reordered and overlapping, while workers are killed."""

from __future__ import annotations

import pytest

from server.hooks_storm import KILL_EVERY_S, storm

pytestmark = pytest.mark.anyio

DELIVERIES = 10_000
EVENTS = 2_000
"""At each of the two endpoints."""


@pytest.mark.parametrize(
    ("deliveries", "events"),
    [
        pytest.param(500, 100, id="500", marks=pytest.mark.slow),
        pytest.param(DELIVERIES, EVENTS, id="10,000", marks=pytest.mark.slow),
    ],
)
async def test_each_event_is_applied_once(
    emptied_url: str, redis_url: str, deliveries: int, events: int
) -> None:
    found = await storm(
        emptied_url,
        redis_url,
        events=events,
        deliveries=deliveries,
        seed=7,
        kill_every_s=KILL_EVERY_S,
    )

    expected = {f"/single:s{number}" for number in range(events)}
    expected |= {f"/batches:b{number}" for number in range(events)}
    assert found.deliveries >= deliveries
    assert found.kills >= 1
    assert found.lost >= 1
    assert found.acknowledged == expected
    assert found.applied.keys() == expected
    assert {name: count for name, count in found.applied.items() if count != 1} == {}
