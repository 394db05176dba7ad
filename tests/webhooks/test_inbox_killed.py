"""Workers that are killed (SIGKILL) in the middle of an event: processes of their own."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import anyio
import pytest
from anyio import to_thread

from replayfloor.server.events import EventKind
from replayfloor.server.policy import Effects
from replayfloor.server.webhooks.inbox.apply import DEAD
from support.services import Postgres
from webhooks.inbox_crews import Handler, Side, crew, item, until_empty, until_told
from webhooks.inbox_process import Where, started
from webhooks.inboxes import Database, until

pytestmark = pytest.mark.anyio

ATOMIC, EXTERNAL, REPEATABLE = Effects.ATOMIC, Effects.EXTERNAL, Effects.REPEATABLE
BEFORE: Where = "before the write"
AFTER: Where = "after the write"

CASES: list[tuple[Side, Effects, Where]] = [
    ("asgi", ATOMIC, AFTER),
    ("wsgi", ATOMIC, AFTER),
    ("asgi", ATOMIC, BEFORE),
    ("wsgi", ATOMIC, BEFORE),
    ("asgi", REPEATABLE, AFTER),
    ("wsgi", REPEATABLE, BEFORE),
    ("asgi", EXTERNAL, AFTER),
    ("wsgi", EXTERNAL, BEFORE),
]
EVENTS, KILLS = 200, 6


@pytest.fixture
def database(inbox_url: str) -> Database:
    """An empty inbox."""
    return Database(inbox_url)


@contextmanager
def killed(database: Database, side: Side, effects: Effects, where: Where) -> Iterator[None]:
    """Let a process take what is there and be killed."""
    process = started(database.url, side, effects, where)
    try:
        assert process.wait(60) == -signal.SIGKILL
        yield
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("side", "effects", "where"),
    [
        pytest.param(*case, marks=[] if at == 0 else pytest.mark.slow)
        for at, case in enumerate(CASES)
    ],
)
async def test_what_a_killed_worker_was_at_is_applied_once_or_left_to_a_person(
    database: Database, side: Side, effects: Effects, where: Where
) -> None:
    handler = Handler(database, effects, run="next")
    database.put(item("evt_1"))
    with killed(database, side, effects, where):
        async with crew(side, handler):
            if effects is EXTERNAL:
                await until_told(handler, DEAD)
            else:
                await until_empty(database)

    wrote = ["killed"] if where == AFTER and effects is not ATOMIC else []
    match effects:
        case Effects.ATOMIC:
            assert database.runs() == ["next"]
        case Effects.REPEATABLE:
            assert database.runs() == [*wrote, "next"]
            assert {claim.id for claim in handler.claims} == {handler.claims[0].id}
        case Effects.EXTERNAL:
            assert database.runs() == wrote
            assert handler.called == []
            assert database.left()["evt_1"][0] == "dead"


@pytest.mark.slow
@pytest.mark.parametrize("side", ["asgi", "wsgi"])
async def test_each_of_many_events_is_applied_once_although_workers_are_killed_all_the_time(
    database: Database, side: Side
) -> None:
    names = [f"evt_{number}" for number in range(EVENTS)]
    database.put(*map(item, names))
    for round_ in range(KILLS):
        process = started(database.url, side, ATOMIC, "never")
        written = len(database.applied())
        await until(partial(_more_than, database, written), 60)
        await anyio.sleep(0.02 * round_)
        process.kill()
        await to_thread.run_sync(process.wait)
    handler = Handler(database, run="last")
    async with crew(side, handler):
        await until_empty(database)

    assert Counter(database.applied()) == Counter(names)


@pytest.mark.slow
async def test_a_database_that_is_restarted_ends_no_worker_and_loses_no_event(
    database: Database, postgres_server: Postgres
) -> None:
    handler = Handler(database)
    async with crew("asgi", handler):
        await to_thread.run_sync(postgres_server.crash)
        await until_told(handler, EventKind.STORE_UNAVAILABLE)
        await to_thread.run_sync(postgres_server.restore)
        await to_thread.run_sync(database.put, item("evt_1"))
        await until_empty(database)

    assert database.applied() == ["evt_1"]


def _more_than(database: Database, count: int) -> bool:
    return len(database.applied()) > count
