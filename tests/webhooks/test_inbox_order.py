"""Order within a subject, applied by several workers; and the one race that an index decides."""

from __future__ import annotations

import threading
from collections import defaultdict
from contextlib import AsyncExitStack
from functools import partial
from typing import cast

import anyio
import psycopg
import pytest

from replayfloor.server.claim import BaseClaim
from replayfloor.server.sealing import Sealer
from replayfloor.server.stores import Connection
from replayfloor.server.stores.inbox_put import put
from replayfloor.server.webhooks.inbox.apply import DEAD
from webhooks.inbox_crews import Handler, Side, crew, item, until_empty, until_told
from webhooks.inboxes import Database, until

pytestmark = pytest.mark.anyio

SUBJECTS, EACH = 6, 12

TAKE = "select event_id from replayfloor.inbox_take_v1('default', gen_random_uuid(), 60000, false)"


@pytest.fixture(params=["asgi", "wsgi"])
def side(request: pytest.FixtureRequest) -> Side:
    """Either interface."""
    chosen: Side = request.param
    return chosen


@pytest.fixture
def database(inbox_url: str) -> Database:
    """An empty inbox."""
    return Database(inbox_url)


class Watch:
    """Notes whether two events of one subject were ever at work at once."""

    def __init__(self) -> None:
        self._lock, self._at_work = threading.Lock(), defaultdict[str, int](int)
        self.met = False

    def enter(self, event_id: str, _claim: BaseClaim) -> None:
        with self._lock:
            subject = event_id.partition(":")[0]
            self._at_work[subject] += 1
            self.met = self.met or self._at_work[subject] > 1

    def leave(self, event_id: str, _claim: BaseClaim) -> int:
        with self._lock:
            self._at_work[event_id.partition(":")[0]] -= 1
        return 200


async def test_events_of_one_subject_are_applied_one_by_one_in_their_order(
    side: Side, database: Database
) -> None:
    watch = Watch()
    handlers = [Handler(database, before=watch.enter, after=watch.leave) for _ in range(2)]
    names = [f"{subject}:{at}" for at in range(EACH) for subject in range(SUBJECTS)]
    async with AsyncExitStack() as stack:
        for each in handlers:
            await stack.enter_async_context(crew(side, each, workers=4))
        events = [item(name, subject=name.partition(":")[0]) for name in names]
        await anyio.to_thread.run_sync(database.put, *events)
        await until_empty(database)
    applied = database.applied()

    assert sorted(applied) == sorted(names)
    for subject in map(str, range(SUBJECTS)):
        order = [int(name.partition(":")[2]) for name in applied if name.startswith(f"{subject}:")]
        assert order == list(range(EACH))
    assert not watch.met


async def test_a_subject_whose_first_event_is_dead_waits_and_others_go_on(
    side: Side, database: Database
) -> None:
    def poison(event_id: str, _claim: BaseClaim) -> int:
        return 500 if event_id == "a:1" else 200

    handler = Handler(database, after=poison)
    database.put(item("a:1", subject="a"), item("a:2", subject="a"))
    async with crew(side, handler, attempts_max=2):
        await until_told(handler, DEAD)
        database.put(item("b:1", subject="b"), item("none"))
        await until(lambda: len(database.applied()) == 2)
        dead = database.left()
        database.run("delete from replayfloor.inbox where state = 'dead'")
        await until_empty(database)

    assert dead == {"a:1": ("dead", 2, "status 500"), "a:2": ("waiting", 0, "")}
    assert sorted(database.applied()[:2]) == ["b:1", "none"]
    assert database.applied()[2:] == ["a:2"]


def test_of_two_takes_that_each_find_another_event_to_be_the_first_one_gets_nothing(
    database: Database,
) -> None:
    """One has taken the later event, and not committed that yet, when the earlier one appears."""
    earlier, later = item("earlier", subject="a"), item("later", subject="a")
    connect = psycopg.connect
    with (
        connect(database.url) as sender,
        connect(database.url) as one,
        connect(database.url) as two,
    ):
        put(cast("Connection", sender), earlier, Sealer(None))
        database.put(later)
        first = one.execute(TAKE).fetchall()
        sender.commit()
        second: list[tuple[object, ...]] = []
        taking = threading.Thread(target=lambda: second.extend(two.execute(TAKE).fetchall()))
        taking.start()
        taking.join(0.3)  # it waits for whoever holds the subject, if it has got so far
        one.commit()
        taking.join(20)

    assert not taking.is_alive()
    assert first == [("later",)]
    assert second == []


def test_a_take_does_not_wait_for_another_that_is_not_committed(database: Database) -> None:
    database.put(item("evt_1"), item("evt_2"))
    connect = partial(psycopg.connect, database.url)
    with connect() as one, connect() as two:
        first = one.execute(TAKE).fetchall()
        two.execute("set local lock_timeout = '100ms'")
        second = two.execute(TAKE).fetchall()

    assert sorted([*first, *second]) == [("evt_1",), ("evt_2",)]


HELD = 6000
FILL = """
    insert into replayfloor.inbox (
        id, namespace, source, endpoint, event_id, subject_id, past_horizon, request, sealed, state)
    select gen_random_uuid(), 'default', 'shop', '/', 'held ' || n, %s, false, '', false,
           case when n = 0 then 'dead' else 'waiting' end
    from generate_series(0, %s) as n
"""


@pytest.mark.slow
def test_what_a_dead_event_holds_does_not_slow_down_others(database: Database) -> None:
    subject_id = item("a", subject="a").subject_id
    assert subject_id is not None
    database.run(FILL, subject_id.hex(), HELD)
    database.put(item("other"))
    due = "select count(*) from replayfloor.inbox where due_at <= now() and state = 'waiting'"
    first = database.run(TAKE)
    for _ in range(10):
        assert database.run(TAKE) == []
    ((left,),) = database.run(due)

    assert first == [("other",)]
    assert isinstance(left, int)
    assert left < HELD / 2

    # And as soon as the dead one is gone, the first of them is due.
    ((dead,),) = database.run("select id from replayfloor.inbox where state = 'dead'")
    dropped = database.run("select replayfloor.inbox_drop_v1(%s, 'me', 'r')", dead)
    taken = database.run(TAKE)

    assert dropped == [(True,)]
    assert taken == [("held 1",)]


@pytest.mark.parametrize("ends", ["applied", "dropped"])
def test_the_next_of_a_subject_is_due_when_the_one_before_it_is_gone(
    database: Database, ends: str
) -> None:
    database.put(item("first", subject="a"), item("second", subject="a"))
    fence = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
    take = "select id from replayfloor.inbox_take_v1('default', %s, 60000, false)"
    ((first,),) = database.run(take, fence)
    if ends == "dropped":
        database.run("select replayfloor.inbox_bury_v1(%s, %s, 'no')", first, fence)
    later = "clock_timestamp() + interval '1 hour'"  # so that no second of ours ends it
    database.run(f"select replayfloor.inbox_hold_v1('default', {later})")
    held = "select due_at > now() from replayfloor.inbox where event_id = 'second'"
    before = database.run(held)
    if ends == "dropped":
        database.run("select replayfloor.inbox_drop_v1(%s, 'me', 'r')", first)
    else:
        database.run("select replayfloor.inbox_done_v1(%s, %s)", first, fence)

    assert before == [(True,)]
    assert database.run(held) == [(False,)]
    assert database.run(TAKE) == [("second",)]
