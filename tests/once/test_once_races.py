"""Two copies of a message at the same time, in two consumers: one is applied."""

from __future__ import annotations

from collections import Counter
from functools import partial

import anyio
import pytest
from anyio import to_thread

from once.consumers import SOURCE, consuming
from replayfloor.server.once import AlreadyApplied, AsyncGuard, Guard, StillInFlight
from server.backends import Backend

pytestmark = pytest.mark.anyio

ROUNDS = 200
AT_ONCE = 8
"""Rounds that go on at the same time."""


async def test_of_two_copies_at_once_one_is_applied(backend: Backend) -> None:
    outcomes: dict[str, list[str]] = {}
    begun = Counter[str]()
    async with consuming(backend) as one, consuming(backend) as other:
        ledger = backend.ledger

        async def awaited(guard: AsyncGuard, name: str) -> None:
            async with guard.once(name, source=SOURCE) as claim:
                begun[name] += 1
                await claim.connection.execute(ledger.insert, (name,))

        def blocking(guard: Guard, name: str) -> None:
            with guard.once(name, source=SOURCE) as claim:
                begun[name] += 1
                claim.connection.execute(ledger.insert, (name,))

        async def deliver(guard: AsyncGuard | Guard, name: str) -> None:
            try:
                if isinstance(guard, AsyncGuard):
                    await awaited(guard, name)
                else:
                    await to_thread.run_sync(blocking, guard, name)
            except (AlreadyApplied, StillInFlight) as error:
                outcomes[name].append(type(error).__name__)
            else:
                outcomes[name].append("applied")

        async def race(names: list[str]) -> None:
            for name in names:
                outcomes[name] = []
                async with anyio.create_task_group() as group:
                    for consumer in (one, other):
                        group.start_soon(partial(deliver, consumer.guard, name))

        names = [f"m{number}" for number in range(ROUNDS)]
        async with anyio.create_task_group() as group:
            for first in range(AT_ONCE):
                group.start_soon(race, names[first::AT_ONCE])

    # The other block was not even begun: it may be one whose writes cannot be rolled back.
    assert Counter(ledger.rows()) == begun == dict.fromkeys(names, 1)
    assert {each.count("applied") for each in outcomes.values()} == {1}
    assert {len(each) for each in outcomes.values()} == {2}
    # Most of them met: else this would be a test of redelivery.
    met = sum("StillInFlight" in each for each in outcomes.values())
    assert met > ROUNDS // 4
