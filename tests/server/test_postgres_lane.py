"""Claims and finishes, and threads, keep connections, and lose nothing by it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import psycopg
import pytest

from replayfloor.core.claims import Abandon, Claimed, Finish, Finished, InFlight, Renew
from replayfloor.core.message import Response
from replayfloor.core.receipt import Receipt
from replayfloor.server.stores import postgres_lane
from replayfloor.server.stores.postgres import PostgresReceipts
from replayfloor.server.stores.postgres_direct import numbered
from replayfloor.server.stores.postgres_lane import KEPT_S
from replayfloor.server.stores.postgres_options import LANES_FROM
from replayfloor.testing.contract import LONG_MS, claim, new_fence, new_id, receipt
from server.coalescing import until

SOON_S = 1.0
FEW = 3
MANY = 12


@pytest.fixture
def store(migrated_url: str) -> Iterator[PostgresReceipts]:
    store = PostgresReceipts(migrated_url)
    yield store
    store.close()


def execute(store: PostgresReceipts) -> None:
    """Claim a key and finish it."""
    id_, fence = new_id(), new_fence()
    assert store.claim(claim(id_, fence)) == Claimed()
    assert store.finish(Finish(id_, fence, receipt()))
    assert store.claim(claim(id_, new_fence())) == Finished(receipt())


@pytest.mark.parametrize("connections", [1, 2, LANES_FROM])
def test_a_small_pool_has_a_connection_for_every_kind_of_operation(
    migrated_url: str, connections: int
) -> None:
    store = PostgresReceipts(migrated_url, pool_connections=connections, operation_s=SOON_S)
    id_, fence = new_id(), new_fence()
    store.claim(claim(id_, fence))
    execute(store)

    assert store.renew(Renew(id_, fence, LONG_MS))
    assert store.abandon(Abandon(id_, fence))
    store.close()


def test_operations_that_follow_one_another_have_the_same_connection(
    store: PostgresReceipts, migrated_url: str
) -> None:
    with psycopg.connect(migrated_url, autocommit=True) as watching:
        execute(store)
        seen = {tuple(sorted(backends(watching)))}
        for _ in range(5):
            execute(store)
            seen.add(tuple(sorted(backends(watching))))

    assert len(seen) == 1


def test_no_operation_is_lost_on_a_connection_that_the_server_has_closed(
    store: PostgresReceipts, migrated_url: str
) -> None:
    with psycopg.connect(migrated_url, autocommit=True) as killing:
        for _ in range(3):
            execute(store)
            for pid in backends(killing):
                killing.execute("select pg_terminate_backend(%s, 5000)", (pid,))
        execute(store)


def test_what_the_server_refuses_is_raised_and_the_next_operation_goes_on(
    store: PostgresReceipts,
) -> None:
    id_, fence = new_id(), new_fence()
    store.claim(claim(id_, fence))
    refused = Receipt(receipt().fingerprint, Response(7, (), b""))  # no status of HTTP
    with pytest.raises(psycopg.errors.CheckViolation):
        store.finish(Finish(id_, fence, refused))

    assert isinstance(store.claim(claim(id_, new_fence())), InFlight)
    assert store.finish(Finish(id_, fence, receipt()))


def test_closing_leaves_no_connection(store: PostgresReceipts, migrated_url: str) -> None:
    execute(store)
    store.close()
    with psycopg.connect(migrated_url, autocommit=True) as watching:
        assert backends(watching) == []
    execute(store)


@pytest.mark.parametrize("own", [1, FEW])
def test_a_claim_that_has_to_wait_holds_up_no_other_thread(migrated_url: str, own: int) -> None:
    """Those that share one statement have to; so threads have connections of their own."""
    store = PostgresReceipts(migrated_url, pool_connections=LANES_FROM + own)
    held = new_id()
    store.claim(claim(held, new_fence(), 1))
    with psycopg.connect(migrated_url) as holding:
        holding.execute("select 1 from replayfloor.claims where id = %s for update", (held.hex(),))
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(store.claim, claim(held, new_fence(), takeover=True))
            until(lambda: waits_for_a_lock(migrated_url))
            execute(store)
            assert not waiting.done()
            holding.rollback()
            assert waiting.result() == Claimed(taken_over=True)
    store.close()


def test_a_thread_has_the_same_connection_every_time(migrated_url: str) -> None:
    store = PostgresReceipts(migrated_url, pool_connections=LANES_FROM + 2)
    seen: dict[int, set[int]] = {}
    barrier = threading.Barrier(2)

    def work(thread: int) -> None:
        for _ in range(5):
            barrier.wait()
            execute(store)
            seen.setdefault(thread, set()).add(own_backend(store))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))
    store.close()

    assert [len(backends) for backends in seen.values()] == [1, 1]
    assert len(set().union(*seen.values())) == 2


def test_more_threads_than_connections_lose_nothing(migrated_url: str) -> None:
    store = PostgresReceipts(migrated_url, pool_connections=LANES_FROM + 1)
    with ThreadPoolExecutor(MANY) as pool:
        for done in [pool.submit(execute, store) for _ in range(10 * MANY)]:
            done.result()
        with psycopg.connect(migrated_url, autocommit=True) as watching:
            assert len(backends(watching)) <= LANES_FROM + 1
    store.close()


def test_after_a_while_the_pool_has_back_what_threads_kept_that_are_gone(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresReceipts(migrated_url)
    barrier = threading.Barrier(FEW)

    def work() -> None:
        barrier.wait()
        execute(store)

    with ThreadPoolExecutor(FEW) as pool:
        for done in [pool.submit(work) for _ in range(FEW)]:
            done.result()
    execute(store)  # with a lane of its own, as one thread more
    assert len(kept(store)) == FEW + 1
    now = monotonic()
    monkeypatch.setattr(postgres_lane, "monotonic", lambda: now + KEPT_S)
    execute(store)

    assert len(kept(store)) == 1
    store.close()


def test_an_interrupted_claim_has_ended_when_its_thread_goes_on(
    store: PostgresReceipts, migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It undoes what was done; an undoing that overtook the doing would leave that behind."""
    execute(store)

    class Interrupting:
        def register(self, _descriptor: int, _events: int) -> None: ...

        def poll(self, _ms: int) -> list[object]:
            until(lambda: waits_for_a_lock(migrated_url))
            raise KeyboardInterrupt

    id_ = new_id()
    with psycopg.connect(migrated_url) as holding:
        holding.execute("lock table replayfloor.claims in share mode")
        with monkeypatch.context() as patched:
            patched.setattr("select.poll", Interrupting)
            with pytest.raises(KeyboardInterrupt):
                store.claim(claim(id_, new_fence()))
        assert not waits_for_a_lock(migrated_url)
    assert store.claim(claim(id_, new_fence())) == Claimed()


def test_a_parameter_that_is_named_twice_has_one_number() -> None:
    assert numbered("f(%(a)s, cast(%(b)s as int), %(a)s)") == (
        b"f($1, cast($2 as int), $1)",
        ("a", "b"),
    )


def backends(connection: psycopg.Connection[tuple[object, ...]]) -> list[int]:
    """Return the processes that serve the store's protocol."""
    query = (
        "select pid from pg_stat_activity where application_name = 'replayfloor'"
        " and datname = current_database()"
    )
    return [int(str(pid)) for (pid,) in connection.execute(query).fetchall()]


def waits_for_a_lock(url: str) -> bool:
    """Whether a statement of the store's protocol waits for another transaction."""
    query = (
        "select 1 from pg_stat_activity where application_name = 'replayfloor'"
        " and datname = current_database() and wait_event_type = 'Lock'"
    )
    with psycopg.connect(url) as watching:
        return bool(watching.execute(query).fetchall())


def kept(store: PostgresReceipts) -> list[int]:
    """Return the backends of the connections that threads have for themselves."""
    lanes = (lane._connection for lane in store._own_lanes._lanes)
    return [connection.info.backend_pid for connection in lanes if connection is not None]


def own_backend(store: PostgresReceipts) -> int:
    """Return that of this thread."""
    connection = store._own_lanes._own.lane._connection
    assert connection is not None
    return int(connection.info.backend_pid)
