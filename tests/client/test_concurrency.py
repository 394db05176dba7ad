"""Many operations at a time on one transport: each has its own key, count and schedule."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import anyio
import httpx
import pytest

from client.clients import POLICY, Setup, info, named
from client.loopback import DROP, OK, Loopback, Reply, Step
from replayfloor.client import OutcomePending, SQLiteJournal
from replayfloor.client.budget import RetryBudget

OPERATIONS = 100
LIMITS = httpx.Limits(max_connections=20)
# All operations share one clock, which every wait of any of them moves.
PATIENT = replace(POLICY, budget_s=10_000)
# More than all of them need: what is counted here is not what an outage would cost.
AMPLE = 10_000
FAILURES: list[Step] = [DROP, Reply(503), Reply(500), Reply(201, cut=True)]


def _scripts(loopback: Loopback) -> dict[str, int]:
    """Give every operation a script of its own; return how many attempts each needs."""
    dice = random.Random(7)
    needed: dict[str, int] = {}
    for number in range(OPERATIONS):
        path = f"/charges/{number}"
        failures = number % (POLICY.attempts_max + 1)
        loopback.script(*dice.choices(FAILURES, k=failures), OK, path=path)
        needed[path] = min(failures + 1, POLICY.attempts_max)
    return needed


def _check(loopback: Loopback, needed: dict[str, int], told: dict[str, int]) -> None:
    assert dict(loopback.counts) == needed
    assert told == needed
    keys: dict[str, set[str]] = {}
    for received in loopback.received:
        keys.setdefault(received.path, set()).update(received.values("idempotency-key"))
    assert all(len(each) == 1 for each in keys.values())
    assert len(set.union(*keys.values())) == OPERATIONS


@pytest.mark.anyio
async def test_a_hundred_tasks_on_one_transport(loopback: Loopback, tmp_path: Path) -> None:
    needed, told = _scripts(loopback), dict[str, int]()
    journal = SQLiteJournal(tmp_path / "outbound.db")
    async with Setup(
        journal=journal, retry=PATIENT, limits=LIMITS, budget=RetryBudget(AMPLE)
    ).async_client() as client:

        async def post(path: str) -> None:
            try:
                response = await client.post(loopback.url(path), extensions=named(path))
                told[path] = info(response).attempts
            except OutcomePending as pending:
                told[path] = pending.attempts

        async with anyio.create_task_group() as group:
            for path in needed:
                group.start_soon(post, path)

    _check(loopback, needed, told)
    unfinished = sum(number % 5 == 4 for number in range(OPERATIONS))
    assert len(journal.pending()) == unfinished
    journal.close()


def test_a_hundred_threads_on_one_transport(loopback: Loopback) -> None:
    needed = _scripts(loopback)
    setup = Setup(retry=PATIENT, limits=LIMITS, budget=RetryBudget(AMPLE))
    with setup.client() as client, ThreadPoolExecutor(20) as threads:

        def post(path: str) -> int:
            try:
                return info(client.post(loopback.url(path), extensions=named(path))).attempts
            except OutcomePending as pending:
                return pending.attempts

        told = dict(zip(needed, threads.map(post, needed), strict=True))

    _check(loopback, needed, told)


def test_one_operation_id_used_by_many_threads_has_one_key(loopback: Loopback) -> None:
    with Setup(retry=PATIENT, limits=LIMITS).client() as client, ThreadPoolExecutor(10) as threads:
        sends = [
            threads.submit(client.post, loopback.url(), extensions=named("invoice-1"))
            for _ in range(10)
        ]

    assert {send.result().status_code for send in sends} == {201}
    assert len(set(loopback.keys())) == 1
