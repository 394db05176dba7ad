"""Duplicates at the same time: one execution; the others are told to wait, or wait themselves."""

from __future__ import annotations

from functools import partial

import anyio
import pytest
from starlette.types import ASGIApp

from replayfloor.core.problem import ProblemKind
from server.apps import Gate, LedgerApp
from server.backends import Backend, EffectsOption, no_connection_is_left
from server.wire import Answer, Request, send, send_all

pytestmark = pytest.mark.anyio

MANY = 32
both_effects = pytest.mark.parametrize("effects", ["atomic", "external"])
IN_FLIGHT = (409, ProblemKind.IN_FLIGHT, False)
FRESH = (201, None, False)
REPLAY = (201, None, True)


async def _pause() -> None:
    await anyio.sleep(0.1)


@pytest.mark.parametrize(("effects", "workers"), [("atomic", 4), ("external", 4), ("external", 1)])
async def test_of_many_duplicates_at_once_one_is_executed_and_none_is_a_server_error(
    backend: Backend, effects: EffectsOption, workers: int
) -> None:
    inner = LedgerApp(backend, effects, after=_pause)
    apps = [backend.protect(inner, effects=effects) for _ in range(workers)]

    answers = await send_all([partial(send, apps[n % workers]) for n in range(MANY)])

    fresh = [each for each in answers if each.brief == FRESH]
    others = [each for each in answers if each.brief != FRESH]
    assert len(fresh) == 1
    assert {each.brief for each in others} <= {IN_FLIGHT, REPLAY}
    assert len(backend.ledger.rows()) == 1
    assert (await send(apps[0])).brief == REPLAY


@both_effects
async def test_while_one_is_held_up_every_duplicate_gets_409_with_the_rest_of_the_lease(
    backend: Backend, effects: EffectsOption
) -> None:
    gate = Gate()
    app = backend.protect(LedgerApp(backend, effects, after=gate), effects=effects, lease_s=7.0)
    other = backend.protect(LedgerApp(backend, effects), effects=effects, lease_s=7.0)
    first, answers = list[Answer](), list[Answer]()

    async with anyio.create_task_group() as group:
        group.start_soon(_collect, first, app)
        await gate.entered.wait()
        answers += await send_all([partial(send, app) for _ in range(MANY)])
        if backend.is_postgres or effects == "external":
            # On SQLite the handler holds the one write lock, so another process has to wait.
            answers.append(await send(other))
        gate.opened.set()

    assert {each.brief for each in answers} == {IN_FLIGHT}
    assert {each.first(b"retry-after") for each in answers} <= {b"7", b"6"}
    assert [each.brief for each in first] == [FRESH]
    assert (await send(app)).brief == REPLAY
    assert len(backend.ledger.rows()) == 1


async def _collect(answers: list[Answer], app: ASGIApp, request: Request | None = None) -> None:
    answers.append(await send(app, request))


@both_effects
async def test_duplicates_that_may_wait_get_the_replay(
    backend: Backend, effects: EffectsOption
) -> None:
    inner = LedgerApp(backend, effects, after=_pause)
    app = backend.protect(inner, effects=effects, wait_for_s=10.0)

    answers = await send_all([partial(send, app) for _ in range(8)])

    assert sorted(each.brief for each in answers) == [FRESH, *[REPLAY] * 7]
    assert len(backend.ledger.rows()) == 1


async def test_a_duplicate_waits_for_another_worker_too(backend: Backend) -> None:
    inner = LedgerApp(backend, after=_pause)
    apps = [backend.protect(inner, wait_for_s=10.0, lock="local") for _ in range(2)]

    answers = await send_all([partial(send, app) for app in apps])

    assert sorted(each.brief for each in answers) == [FRESH, REPLAY]
    assert len(backend.ledger.rows()) == 1


async def test_a_duplicate_waits_no_longer_than_it_may(backend: Backend) -> None:
    gate = Gate()
    app = backend.protect(LedgerApp(backend, after=gate), wait_for_s=0.1)
    answers: list[Answer] = []

    async with anyio.create_task_group() as group:
        group.start_soon(_collect, [], app)
        await gate.entered.wait()
        with anyio.fail_after(3):
            await _collect(answers, app)
        gate.opened.set()

    assert [each.brief for each in answers] == [IN_FLIGHT]
    assert len(backend.ledger.rows()) == 1


async def test_a_waiting_duplicate_executes_if_the_first_freed_the_key(backend: Backend) -> None:
    gate = Gate()
    inner = LedgerApp(backend, status=429, after=gate)
    app = backend.protect(inner, wait_for_s=10.0)
    answers: list[Answer] = []

    async with anyio.create_task_group() as group:
        group.start_soon(_collect, answers, app)
        await gate.entered.wait()
        group.start_soon(_collect, answers, app)
        await anyio.sleep(0.1)
        gate.opened.set()

    assert [each.brief for each in answers] == [(429, None, False)] * 2
    assert len(inner.bodies_read) == 2


async def test_different_keys_do_not_wait_for_each_other(backend: Backend) -> None:
    gate = Gate()
    app = backend.protect(LedgerApp(backend, before=gate))
    answers: list[Answer] = []

    async with anyio.create_task_group() as group:
        group.start_soon(_collect, answers, app)
        await gate.entered.wait()
        await _collect(answers, app, Request(key=b'"k-2"'))
        gate.opened.set()

    assert [each.brief for each in answers] == [FRESH, FRESH]
    assert len(backend.ledger.rows()) == 2


async def test_many_atomic_operations_at_once_are_all_executed_once(backend: Backend) -> None:
    app = backend.protect(LedgerApp(backend, "atomic"), effects="atomic")
    requests = [Request(key=b'"k-%d"' % (n % 20)) for n in range(60)]

    answers = await send_all([partial(send, app, request) for request in requests])

    assert {each.status for each in answers} <= {201, 409}
    assert sum(each.brief == FRESH for each in answers) == 20
    assert len(backend.ledger.rows()) == 20


async def test_first_requests_at_once_without_lifespan_leave_no_connection_behind(
    postgres: Backend,
) -> None:
    app = postgres.protect(LedgerApp(postgres))
    requests = [Request(key=b'"k-%d"' % n) for n in range(20)]

    answers = await send_all([partial(send, app, request) for request in requests])
    await postgres.close()

    assert {each.brief for each in answers} == {FRESH}
    await no_connection_is_left(postgres.receipts_url)
