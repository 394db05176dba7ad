"""Many operations at a time on one transport: each has its own key, count and schedule."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import anyio
import httpx
import pytest

from client.clients import NO_TLS, PATIENCE_S, POLICY, PROFILE, Setup, info, named
from client.loopback import DROP, OK, Loopback, Reply, Step
from replayfloor.client import IdempotentTransport, MemoryJournal, OutcomePending, SQLiteJournal
from replayfloor.client.budget import RetryBudget
from replayfloor.client.call import KEPT_BYTES_MAX
from replayfloor.client.journal import Journal
from replayfloor.core.journal import ReadOperation

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


# -- one operation, several calls -----------------------------------------------------------------

SLOW = Reply(201, delay_s=0.3)
REPLAY = Reply(201, (("Idempotent-Replayed", "true"),))


def _pay(journal: Journal, loopback: Loopback, *, keep: bool = False) -> httpx.Response:
    """Call once, with real clocks and waits."""
    transport = IdempotentTransport(
        httpx.HTTPTransport(verify=NO_TLS), profile=PROFILE, journal=journal, keep_responses=keep
    )
    with httpx.Client(transport=transport, timeout=PATIENCE_S) as client:
        return client.post(loopback.url(), content=b"pay", extensions=named("invoice-1"))


def test_of_two_calls_at_once_one_sends_and_the_other_waits_for_its_answer(
    loopback: Loopback,
) -> None:
    loopback.script(SLOW, REPLAY)
    journal = MemoryJournal()
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(_pay, journal, loopback)
        time.sleep(0.1)
        sent_meanwhile = len(loopback.received)
        second = threads.submit(_pay, journal, loopback)
        time.sleep(0.1)
        assert (sent_meanwhile, len(loopback.received)) == (1, 1)

    assert (info(first.result()).replayed, info(second.result()).replayed) == (False, True)
    assert len(set(loopback.keys())) == 1


def test_the_other_reads_the_answer_if_it_was_kept(loopback: Loopback) -> None:
    loopback.script(Reply(201, (("X-Charge", "1"),), delay_s=0.3))
    journal = MemoryJournal()
    with ThreadPoolExecutor(2) as threads:
        calls = [threads.submit(_pay, journal, loopback, keep=True) for _ in range(2)]

    answers = [call.result() for call in calls]
    assert len(loopback.received) == 1
    assert [each.json() for each in answers] == [{"id": 1}] * 2
    assert [each.headers["x-charge"] for each in answers] == ["1"] * 2
    assert sorted(info(each).replayed for each in answers) == [False, True]


def test_an_answer_too_large_to_be_kept_is_asked_for_again(loopback: Loopback) -> None:
    loopback.script(Reply(201, body=b"x" * (KEPT_BYTES_MAX + 1)))
    journal = MemoryJournal()

    answers = [_pay(journal, loopback, keep=True) for _ in range(2)]

    assert len(loopback.received) == 2
    assert len({each.content for each in answers}) == 1


def test_answers_are_not_kept_unless_it_is_asked_for(loopback: Loopback) -> None:
    journal = MemoryJournal()
    _pay(journal, loopback)

    entry = journal.read(ReadOperation("provider", "invoice-1"))

    assert entry is not None
    assert (entry.response, entry.lease_owner) == (None, b"")
