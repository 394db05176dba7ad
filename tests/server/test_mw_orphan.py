"""A lease that ran out: unknown where effects are external, taken over where they are atomic."""

from __future__ import annotations

import re

import anyio
import pytest
from starlette.types import Scope

from replayfloor.core.problem import ProblemKind
from replayfloor.server import EventKind, ServerEvent
from server.apps import Gate, LedgerApp
from server.backends import Backend, EffectsOption, claim_of
from server.stalling import LEASE_S, stalled
from server.wire import Answer, Request, send

pytestmark = pytest.mark.anyio

UNKNOWN = (409, ProblemKind.OUTCOME_UNKNOWN, False)
IN_FLIGHT = (409, ProblemKind.IN_FLIGHT, False)
FRESH = (201, None, False)
REPLAY = (201, None, True)


async def test_an_external_orphan_is_unknown_and_is_never_executed_again(backend: Backend) -> None:
    other = backend.protect(LedgerApp(backend), lease_s=LEASE_S)

    async with stalled(LedgerApp(backend, "external"), "after", []):
        answers = [await send(other) for _ in range(3)]

    assert [each.brief for each in answers] == [UNKNOWN] * 3
    assert re.fullmatch(rb"[1-9][0-9]*", answers[0].first(b"retry-after") or b"")
    assert len(backend.ledger.rows()) == 1


async def test_an_external_owner_that_comes_back_late_still_records_its_answer(
    backend: Backend,
) -> None:
    other = backend.protect(LedgerApp(backend), lease_s=LEASE_S)

    async with stalled(LedgerApp(backend, "external"), "after", []) as (_gate, answers):
        unknown = await send(other)

    assert unknown.brief == UNKNOWN
    assert [each.brief for each in answers] == [FRESH]
    assert (await send(other)).brief == REPLAY
    assert len(backend.ledger.rows()) == 1


async def test_an_atomic_orphan_is_taken_over_and_its_old_owner_is_rolled_back(
    backend: Backend,
) -> None:
    # On SQLite a handler that wrote holds the file's one write lock: it stands still before that.
    place = "after" if backend.is_postgres else "before"
    events: list[ServerEvent] = []
    other = backend.protect(
        LedgerApp(backend, "atomic"), effects="atomic", lease_s=30.0, on_event=events.append
    )
    old: list[ServerEvent] = []

    async with stalled(LedgerApp(backend, "atomic"), place, old) as (_gate, answers):
        taken = await send(other)
        assert backend.ledger.rows() == ["atomic"]

    assert taken.brief == FRESH
    assert [each.brief for each in answers] == [IN_FLIGHT]
    assert EventKind.TAKEN_OVER in [each.kind for each in events]
    assert EventKind.LEASE_LOST in [each.kind for each in old]
    assert (await send(other)).brief == REPLAY
    assert backend.ledger.rows() == ["atomic"]


async def test_the_old_owner_is_refused_while_the_new_one_still_runs(backend: Backend) -> None:
    place = "after" if backend.is_postgres else "before"
    second = Gate()
    # The one that stands still has not written yet, so on SQLite it does not hold the lock either.
    inner = LedgerApp(backend, "atomic", before=second)
    other = backend.protect(inner, effects="atomic", lease_s=30.0)
    new: list[Answer] = []

    async def run() -> None:
        new.append(await send(other))

    async with anyio.create_task_group() as group:
        async with stalled(LedgerApp(backend, "atomic"), place, []) as (_gate, old):
            group.start_soon(run)
            await second.entered.wait()
        assert [each.brief for each in old] == [IN_FLIGHT]
        assert backend.ledger.rows() == []
        assert (await send(other)).brief == IN_FLIGHT
        second.opened.set()

    assert [each.brief for each in new] == [FRESH]
    assert backend.ledger.rows() == ["atomic"]


async def test_the_handler_that_takes_over_is_told(backend: Backend) -> None:
    told: list[bool] = []

    class Telling(LedgerApp):
        async def write(self, scope: Scope) -> None:
            told.append(claim_of(scope).taken_over)
            await super().write(scope)

    other = backend.protect(Telling(backend, "atomic"), effects="atomic")

    async with stalled(LedgerApp(backend, "atomic"), "before", []):
        await send(other)
    await send(other, Request(key=b'"new"'))

    assert told == [True, False]


@pytest.mark.parametrize("effects", ["atomic", "external"])
async def test_an_owner_that_outlives_its_lease_unnoticed_is_recorded(
    backend: Backend, effects: EffectsOption
) -> None:
    async with stalled(LedgerApp(backend, effects), "before", []) as (_gate, answers):
        pass

    again = await send(backend.protect(LedgerApp(backend, effects), effects=effects))

    assert [each.brief for each in answers] == [FRESH]
    assert again.brief == REPLAY
    assert len(backend.ledger.rows()) == 1
