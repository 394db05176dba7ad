"""Receipts are partitioned by time and claims are not: no edge of a partition lets a key run twice.

A unique index holds in its own partition only. What keeps a key unique over an edge is the index
on claims, and the look into every partition that may hold the receipt.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from functools import partial

import anyio
import psycopg
import pytest
from psycopg import sql
from starlette.types import ASGIApp

from replayfloor.core.problem import ProblemKind
from replayfloor.server.stores.migrate import migrate
from server.apps import Gate, LedgerApp
from server.backends import Backend, EffectsOption, Ledger, Side
from server.wire import Answer, Request, send, send_all

pytestmark = pytest.mark.anyio

FRESH, REPLAY = (201, None, False), (201, None, True)
IN_FLIGHT = (409, ProblemKind.IN_FLIGHT, False)
EDGE_S = 1.0
"""How far ahead the edge is: time for a first request on a busy machine."""


@pytest.fixture(params=["asgi", "wsgi"])
async def edged(
    request: pytest.FixtureRequest, postgres_url: str, redis_url: str
) -> AsyncIterator[Backend]:
    """A backend on a database of its own, whose partitions a test draws anew."""
    side: Side = request.param
    migrate(postgres_url)
    made = Backend("postgres", side, postgres_url, redis_url, Ledger(postgres_url))
    made.ledger.create()
    yield made
    await made.close()


class Edge:
    """Two partitions that meet a moment from now, by the clock of the database."""

    def __init__(self, url: str) -> None:
        self._url = url
        with psycopg.connect(url, autocommit=True) as database:
            for name in _partitions(database):
                database.execute(sql.SQL("drop table replayfloor.{}").format(sql.Identifier(name)))
            row = database.execute("select now() + %s", (timedelta(seconds=EDGE_S),)).fetchone()
            assert row is not None
            self.at: datetime = row[0]
            day = timedelta(days=1)
            _make(database, "before", self.at - day, self.at)
            _make(database, "after", self.at, self.at + day)

    async def passed(self) -> None:
        """Wait until it lies behind."""
        query = "select extract(epoch from %s - clock_timestamp())::float8"
        ((left_s,),) = self._query(query, (self.at,))
        assert isinstance(left_s, float)
        await anyio.sleep(max(0.0, left_s) + 0.01)

    def receipts(self) -> dict[str, int]:
        """Return how many receipts are in which partition."""
        query = "select tableoid::regclass::text, count(*) from replayfloor.receipts group by 1"
        counted = self._query(query)
        return {str(name).partition(".")[2]: int(str(count)) for name, count in counted}

    def _query(self, query: str, params: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        with psycopg.connect(self._url, autocommit=True) as database:
            return database.execute(query.encode(), params).fetchall()


def _partitions(database: psycopg.Connection) -> list[str]:
    query = "select inhrelid::regclass::text from pg_inherits where inhparent = %s::regclass"
    rows = database.execute(query, ("replayfloor.receipts",)).fetchall()
    return [str(name).partition(".")[2] for (name,) in rows]


def _make(database: psycopg.Connection, name: str, start: datetime, end: datetime) -> None:
    table = sql.Identifier("replayfloor", name)
    database.execute(
        sql.SQL(
            "create table {} partition of replayfloor.receipts for values from ({}) to ({})"
        ).format(table, sql.Literal(start), sql.Literal(end))
    )
    database.execute(sql.SQL("create unique index on {} (id)").format(table))


async def opened(edged: Backend, *workers: ASGIApp) -> None:
    """Let every worker connect, which takes a while, before the edge draws near."""
    for number, app in enumerate(workers):
        await send(app, Request(key=b'"opens-%d"' % number))
    edged.ledger.run("delete from ledger")


@pytest.mark.parametrize("effects", ["atomic", "external", "repeatable"])
async def test_a_retry_after_the_edge_finds_the_receipt_before_it(
    edged: Backend, effects: EffectsOption
) -> None:
    inner = LedgerApp(edged, effects)
    workers = [edged.protect(inner, effects=effects, lock="local") for _ in range(2)]
    await opened(edged, *workers)
    edge = Edge(edged.receipts_url)

    first = await send(workers[0])
    assert edge.receipts() == {"before": 1}
    await edge.passed()
    again = await send(workers[1])

    assert (first.brief, again.brief) == (FRESH, REPLAY)
    assert first.body == again.body
    assert edge.receipts() == {"before": 1}
    assert len(edged.ledger.rows()) == 1


@pytest.mark.parametrize("effects", ["atomic", "external"])
async def test_a_duplicate_on_either_side_of_the_edge_meets_an_operation_that_goes_over_it(
    edged: Backend, effects: EffectsOption
) -> None:
    gate, inner = Gate(), LedgerApp(edged, effects)
    slow = edged.protect(inner, effects=effects, lock="local")
    other = edged.protect(LedgerApp(edged, effects), effects=effects, lock="local")
    await opened(edged, slow, other)
    inner.before = gate
    first, answers = list[Answer](), list[Answer]()

    async def run() -> None:
        first.append(await send(slow))

    edge = Edge(edged.receipts_url)
    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await gate.entered.wait()
        answers.append(await send(other))
        await edge.passed()
        answers.append(await send(other))
        gate.opened.set()
    answers.append(await send(other))

    assert [each.brief for each in first] == [FRESH]
    assert [each.brief for each in answers] == [IN_FLIGHT, IN_FLIGHT, REPLAY]
    assert edge.receipts() == {"after": 1}
    assert len(edged.ledger.rows()) == 1


async def test_pairs_at_once_all_the_way_over_the_edge_are_executed_once_each(
    edged: Backend,
) -> None:
    workers = [edged.protect(LedgerApp(edged), lock="local") for _ in range(2)]
    await opened(edged, *workers)
    edge = Edge(edged.receipts_url)

    pairs: list[list[Answer]] = []
    while edge.receipts().get("after", 0) < 5:
        request = Request(key=b'"pair-%d"' % len(pairs))
        pair = await send_all([partial(send, app, request) for app in workers])
        pairs.append([*pair, await send(workers[0], request)])

    for one, other, later in pairs:
        assert sorted((one.brief == FRESH, other.brief == FRESH)) == [False, True]
        assert {one.brief, other.brief} - {FRESH} <= {IN_FLIGHT, REPLAY}
        assert later.brief == REPLAY
    assert edge.receipts()["before"] >= 1
    assert sum(edge.receipts().values()) == len(edged.ledger.rows()) == len(pairs)


async def test_dropping_a_partition_takes_no_claim_with_it(edged: Backend) -> None:
    """Claims are one table with one unique index; retention never touches it."""
    gate, inner = Gate(), LedgerApp(edged)
    slow, other = (edged.protect(inner, lock="local") for _ in range(2))
    await opened(edged, slow, other)
    inner.before = gate
    answers: list[Answer] = []

    async def run() -> None:
        answers.append(await send(slow))

    edge = Edge(edged.receipts_url)
    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await gate.entered.wait()
        await edge.passed()
        edged.ledger.run("drop table replayfloor.before")
        answers.append(await send(other))
        gate.opened.set()
    answers.append(await send(other))

    assert [each.brief for each in answers] == [IN_FLIGHT, FRESH, REPLAY]
    assert len(edged.ledger.rows()) == 1
    kind = "select relkind::text from pg_class where oid = 'replayfloor.claims'::regclass"
    assert edged.ledger.run(kind) == [("r",)]  # a table, not a partitioned one
