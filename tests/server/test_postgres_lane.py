"""Claims and finishes keep a connection each, and lose nothing by it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from replayfloor.core.claims import Abandon, Claimed, Finish, Finished, InFlight, Renew
from replayfloor.core.message import Response
from replayfloor.core.receipt import Receipt
from replayfloor.server.stores.postgres import PostgresReceipts
from replayfloor.server.stores.postgres_direct import numbered
from replayfloor.server.stores.postgres_options import LANES_FROM
from replayfloor.testing.contract import LONG_MS, claim, new_fence, new_id, receipt

SOON_S = 1.0


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
