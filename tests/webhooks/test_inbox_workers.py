"""What is in the inbox is applied once, by workers of either colour, on a real Postgres."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import replace

import anyio
import pytest
from cryptography.fernet import Fernet

from replayfloor.core.derived import derived_key
from replayfloor.core.errors import ConfigurationError
from replayfloor.server.claim import BaseClaim
from replayfloor.server.events import EventKind
from replayfloor.server.policy import Effects
from replayfloor.server.sealing import Sealer
from replayfloor.server.stores.inbox_blocking import PostgresInbox
from replayfloor.server.stores.sqlite_async import AsyncSQLiteReceipts
from replayfloor.server.webhooks.inbox import flow
from replayfloor.server.webhooks.inbox.apply import APPLIED, DEAD, PUT_OFF
from replayfloor.server.webhooks.inbox.options import WorkerOptions
from replayfloor.server.webhooks.inbox.workers import InboxWorkers
from replayfloor.server.webhooks.inbox.workers_async import AsyncInboxWorkers
from replayfloor.testing.inbox_subject import AFTER_SHORT_MS, SHORT_MS, new_fence
from webhooks.inbox_crews import Gate, Handler, Side, crew, item, until_empty, until_told
from webhooks.inboxes import Database, until

pytestmark = pytest.mark.anyio

EVENTS = 300


@pytest.fixture(params=["asgi", "wsgi"])
def side(request: pytest.FixtureRequest) -> Side:
    """Either interface."""
    chosen: Side = request.param
    return chosen


@pytest.fixture
def database(inbox_url: str) -> Database:
    """An empty inbox."""
    return Database(inbox_url)


def abandon(database: Database) -> None:
    """Take an event as a worker that dies does; its lease has run out afterwards."""
    dying = PostgresInbox(database.url, namespace="default", workers=1)
    assert dying.take(new_fence(), SHORT_MS) is not None
    dying.close()
    time.sleep(AFTER_SHORT_MS / 1000)


# -- once ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("effects", list(Effects))
async def test_an_event_is_applied_and_gone(
    side: Side, database: Database, effects: Effects
) -> None:
    handler = Handler(database, effects)
    database.put(item("evt_1"))
    async with crew(side, handler):
        await until_empty(database)
        await until_told(handler, APPLIED)

    assert database.applied() == ["evt_1"]
    assert [each.kind for each in handler.events] == [APPLIED]
    assert handler.events[0].source == "shop"


async def test_many_events_at_many_workers_are_each_applied_once(
    side: Side, database: Database
) -> None:
    names = [f"evt_{number}" for number in range(EVENTS)]
    handlers = [Handler(database, run=f"process {number}") for number in range(3)]
    database.put(*map(item, names[: EVENTS // 2]))
    async with AsyncExitStack() as stack:
        for each in handlers:
            await stack.enter_async_context(crew(side, each, workers=4))
        await anyio.to_thread.run_sync(database.put, *map(item, names[EVENTS // 2 :]))
        await until_empty(database)

    assert Counter(database.applied()) == Counter(names)
    assert sum(len(each.called) for each in handlers) == EVENTS
    assert len(set(database.runs())) == 3


async def test_a_handler_sees_the_claim_by_which_its_event_was_acknowledged(
    side: Side, database: Database
) -> None:
    handler = Handler(database)
    event = replace(item("evt_1"), past_horizon=True)
    database.put(event)
    async with crew(side, handler):
        await until_empty(database)
    (claim,) = handler.claims

    assert claim.id == event.id.hex()
    assert claim.derived_key("charge") == derived_key(event.id, "charge")
    assert claim.past_horizon
    assert not claim.taken_over
    assert claim.age is not None
    assert claim.age.days > 365


async def test_what_a_handler_wrote_before_it_failed_is_undone_and_the_event_comes_again(
    side: Side, database: Database
) -> None:
    statuses = iter([500, None, 302, 200])

    def fail_at_first(_event_id: str, _claim: BaseClaim) -> int:
        status = next(statuses)
        if status is None:
            raise ValueError("no")
        return status

    handler = Handler(database, after=fail_at_first)
    database.put(item("evt_1"))
    async with crew(side, handler):
        await until_empty(database)
        await until_told(handler, APPLIED)

    assert database.applied() == ["evt_1"]
    assert handler.called == ["evt_1"] * 4
    assert handler.kinds(PUT_OFF) == 3


async def test_an_event_that_never_succeeds_is_dead_in_the_end_and_holds_up_nobody(
    side: Side, database: Database
) -> None:
    def poison(event_id: str, _claim: BaseClaim) -> int:
        return 500 if event_id == "poison" else 200

    handler = Handler(database, after=poison)
    database.put(item("poison"), item("evt_1"), item("evt_2"))
    async with crew(side, handler, workers=1, attempts_max=3):
        await until_told(handler, DEAD)
        await until(lambda: len(database.left()) == 1)

    assert sorted(database.applied()) == ["evt_1", "evt_2"]
    assert handler.called.count("poison") == 3
    assert database.left() == {"poison": ("dead", 3, "status 500")}


async def test_requests_are_enciphered_at_rest_and_handed_over_in_clear(
    side: Side, database: Database
) -> None:
    cipher, handler = Fernet(Fernet.generate_key()), Handler(database)
    database.put(item("evt_1"), cipher=cipher)
    ((stored, sealed),) = database.run("select request, sealed from replayfloor.inbox")
    async with crew(side, handler, sealer=Sealer(cipher)):
        await until_empty(database)

    assert sealed
    assert isinstance(stored, bytes)
    assert b"hooks" not in stored
    assert database.applied() == ["evt_1"]


async def test_a_request_that_no_key_opens_is_kept_for_one_that_does(
    side: Side, database: Database
) -> None:
    handler = Handler(database)
    database.put(item("evt_1"), cipher=Fernet(Fernet.generate_key()))
    async with crew(side, handler, attempts_max=2):
        await until_told(handler, DEAD)

    assert handler.called == []
    assert database.left() == {"evt_1": ("dead", 2, "UsageError")}


# -- leases ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("effects", [Effects.ATOMIC, Effects.REPEATABLE])
async def test_an_event_whose_worker_died_is_applied_by_another(
    side: Side, database: Database, effects: Effects
) -> None:
    handler = Handler(database, effects)
    database.put(item("evt_1"))
    abandon(database)
    async with crew(side, handler):
        await until_empty(database)
    (claim,) = handler.claims

    assert claim.taken_over
    assert database.applied() == ["evt_1"]


async def test_an_external_event_whose_worker_died_is_left_to_a_person(
    side: Side, database: Database
) -> None:
    handler = Handler(database, Effects.EXTERNAL)
    database.put(item("evt_1"))
    abandon(database)
    async with crew(side, handler):
        await until_told(handler, DEAD)

    assert handler.called == []
    ((state, attempts, error),) = database.left().values()
    assert (state, attempts) == ("dead", 2)
    assert str(error).startswith("outcome-unknown")


async def test_a_handler_that_takes_longer_than_the_lease_keeps_its_event(
    side: Side, database: Database
) -> None:
    gate = Gate()
    slow, other = Handler(database, before=gate), Handler(database)
    database.put(item("evt_1"))
    async with crew(side, slow, lease_s=0.3), crew(side, other, lease_s=0.3):
        await until(lambda: gate.entered.is_set() or other.called)
        await anyio.sleep(0.8)
        gate.opened.set()
        await until_empty(database)

    assert len(slow.called) + len(other.called) == 1
    assert database.applied() == ["evt_1"]


async def test_a_stalled_worker_whose_event_was_taken_over_commits_nothing(
    side: Side, database: Database
) -> None:
    gate = Gate()
    stalled, other = Handler(database, after=gate, run="stalled"), Handler(database, run="other")
    database.put(item("evt_1"))
    async with crew(side, stalled, workers=1, lease_s=30.0) as first:
        await until(gate.entered.is_set)
        # As if nothing had been heard of it for the whole of its lease.
        database.run("update replayfloor.inbox set lease_until = now() - interval '1 s'")
        async with crew(side, other):
            await until_empty(database)
        gate.opened.set()
        await until_told(stalled, EventKind.LEASE_LOST)
        await first.stop()

    assert database.runs() == ["other"]


# -- stopping --------------------------------------------------------------------------------------


async def test_a_worker_that_is_told_to_stop_finishes_what_it_is_at_and_takes_no_more(
    side: Side, database: Database
) -> None:
    gate = Gate()
    handler = Handler(database, before=gate)
    database.put(item("evt_1"), item("evt_2"))
    async with crew(side, handler, workers=1) as made, anyio.create_task_group() as group:
        await until(gate.entered.is_set)
        group.start_soon(made.stop)
        await anyio.sleep(0.1)
        gate.opened.set()
    await until(lambda: database.applied() == ["evt_1"])

    assert handler.called == ["evt_1"]
    assert database.left() == {"evt_2": ("waiting", 0, "")}


async def test_what_does_not_end_in_time_is_given_back_and_its_late_end_is_refused(
    side: Side, database: Database
) -> None:
    gate = Gate()
    handler = Handler(database, before=gate)
    database.put(item("evt_1"))
    try:
        async with crew(side, handler, workers=1) as made:
            await until(gate.entered.is_set)
            with anyio.move_on_after(1.0) as waited:
                # A thread that blocks cannot be stopped, under either interface.
                await made.stop(0.1)
            if side == "wsgi":
                assert not waited.cancelled_caught
                assert database.left() == {"evt_1": ("waiting", 0, "")}
            gate.opened.set()
    finally:
        gate.opened.set()
    async with crew(side, Handler(database, run="next")):
        await until_empty(database)

    assert database.runs() == ["next"]


@pytest.mark.parametrize(
    ("effects", "left"), [(Effects.ATOMIC, ("waiting", 0)), (Effects.EXTERNAL, ("dead", 1))]
)
async def test_a_handler_that_is_cancelled_at_the_end_leaves_its_event_due_or_dead(
    database: Database, effects: Effects, left: tuple[str, int]
) -> None:
    entered = anyio.Event()

    async def hang(_scope: object, _receive: object, _send: object) -> None:
        entered.set()
        await anyio.sleep_forever()

    database.put(item("evt_1"))
    workers = AsyncInboxWorkers(database.url, hang, lambda _item: effects)
    await workers.start()
    await entered.wait()
    in_time = await workers.stop(0.1)

    assert not in_time
    assert database.left()["evt_1"][:2] == left


# -- waking ----------------------------------------------------------------------------------------


async def test_a_worker_is_woken_by_the_commit_of_an_event(
    side: Side, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow, "SOON_MS", 60_000)  # nobody looks by himself
    handler = Handler(database)
    async with crew(side, handler, poll_s=60.0):
        await until(lambda: _listens(database))
        await anyio.to_thread.run_sync(database.put, item("evt_1"))
        await until_empty(database)

    assert handler.called == ["evt_1"]


def _listens(database: Database) -> bool:
    query = "select pid from pg_stat_activity where query = 'listen replayfloor_inbox'"
    return bool(database.run(query))


async def test_without_any_notification_an_event_is_found_by_looking(
    side: Side, database: Database
) -> None:
    handler = Handler(database)
    async with crew(side, handler, listen=False):
        await anyio.to_thread.run_sync(database.put, item("evt_1"))
        await until_empty(database)

    assert handler.called == ["evt_1"]


# -- options ---------------------------------------------------------------------------------------


def test_receipts_in_sqlite_have_no_inbox() -> None:
    handler = Handler(Database(""))
    for receipts in ("sqlite:///r.db", AsyncSQLiteReceipts("r.db")):
        with pytest.raises(ConfigurationError, match="Postgres only"):
            AsyncInboxWorkers(receipts, handler.asgi, lambda _item: Effects.ATOMIC)
        with pytest.raises(ConfigurationError, match="Postgres only"):
            InboxWorkers(receipts, handler.wsgi, lambda _item: Effects.ATOMIC)


@pytest.mark.parametrize(
    "options",
    [
        {"workers": 0},
        {"workers": 1000},
        {"lease_s": 0.0},
        {"poll_s": 0.0},
        {"attempts_max": 0},
        {"backoff_first_s": 2.0, "backoff_longest_s": 1.0},
    ],
)
def test_options_that_cannot_be_honoured_are_refused(options: WorkerOptions) -> None:
    url, handler = "postgresql://h/d", Handler(Database(""))
    with pytest.raises(ConfigurationError):
        AsyncInboxWorkers(url, handler.asgi, lambda _item: Effects.ATOMIC, **options)
    with pytest.raises(ConfigurationError):
        InboxWorkers(url, handler.wsgi, lambda _item: Effects.ATOMIC, **options)
