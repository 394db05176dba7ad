"""A hundred operations at once on one transport, each with failures of its own: none is confused
with another, and each costs exactly the attempts that its own failures cost."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import anyio
import pytest

from client.clients import POLICY, info, named
from client.loopback import DROP, OK, Loopback, Reply, Step
from client.stacks import Stack, StackSetup, on_each_loop, on_each_stack_by_turns, slots_in_use
from replayfloor.client import OutcomePending
from replayfloor.client.budget import RetryBudget

pytestmark = on_each_stack_by_turns

OPERATIONS = 100
FAILURES: list[Step] = [DROP, Reply(503), Reply(500), Reply(201, cut=True), Reply(429)]
SENDERS = 20


def _setup(stack: Stack) -> StackSetup:
    # One clock, which every wait of any of them moves; and no breaker: attempts are counted here.
    return StackSetup(
        stack=stack,
        retry=replace(POLICY, budget_s=10_000),
        budget=RetryBudget(10_000),
        connections_max=SENDERS,
    )


def _scripts(loopback: Loopback) -> dict[str, int]:
    """Give every operation a script of its own; return how many attempts each needs."""
    dice = random.Random(22)
    needed: dict[str, int] = {}
    for number in range(OPERATIONS):
        path = f"/charges/{number}"
        # The last failure but one is never mere refusals: those would be handed over.
        failures = [DROP, *dice.choices(FAILURES, k=4)][: number % 5]
        loopback.script(*failures, OK, path=path)
        needed[path] = min(len(failures) + 1, POLICY.attempts_max)
    return needed


def _check(loopback: Loopback, needed: dict[str, int], told: dict[str, int]) -> None:
    assert dict(loopback.counts) == needed
    assert told == needed
    keys = {(each.path, *each.values("idempotency-key")) for each in loopback.received}
    assert len(keys) == OPERATIONS
    assert len({key for _, key in keys}) == OPERATIONS
    assert Counter(each.body for each in loopback.received) == Counter(
        {path.encode(): count for path, count in needed.items()}
    )


def test_threads(stack: Stack, loopback: Loopback) -> None:
    needed = _scripts(loopback)
    setup = _setup(stack)
    inner = setup.connections()
    with setup.client(inner) as client, ThreadPoolExecutor(SENDERS) as threads:

        def post(path: str) -> int:
            url, options = loopback.url(path), named(path)
            try:
                return info(client.post(url, content=path, extensions=options)).attempts
            except OutcomePending as pending:
                return pending.attempts

        told = dict(zip(needed, threads.map(post, needed), strict=True))
        assert slots_in_use(inner) == 0

    _check(loopback, needed, told)


@pytest.mark.anyio
@on_each_loop
async def test_tasks(stack: Stack, loopback: Loopback) -> None:
    needed, told = _scripts(loopback), dict[str, int]()
    setup = _setup(stack)
    inner = setup.async_connections()
    async with setup.async_client(inner) as client:

        async def post(path: str) -> None:
            url, options = loopback.url(path), named(path)
            try:
                told[path] = info(await client.post(url, content=path, extensions=options)).attempts
            except OutcomePending as pending:
                told[path] = pending.attempts

        async with anyio.create_task_group() as group:
            for path in needed:
                group.start_soon(post, path)
        assert slots_in_use(inner) == 0

    _check(loopback, needed, told)
