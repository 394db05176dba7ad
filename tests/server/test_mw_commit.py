"""Postgres, the commit itself: what fails in it is undone, told truly, and costs no connection."""

from __future__ import annotations

import contextlib
from typing import cast

import psycopg
import pytest
from starlette.types import ASGIApp

from replayfloor.core.errors import UsageError
from replayfloor.core.problem import ProblemKind
from replayfloor.server.stores import AsyncConnection
from server.apps import LedgerApp
from server.backends import AnyReceipts, Backend
from server.test_mw_transaction import atomic
from server.wire import Request, send

pytestmark = pytest.mark.anyio

FRESH = (201, None, False)
OTHER = Request(key=b'"other"')

FAILS_AT_COMMIT = """
create temp table late (n int unique deferrable initially deferred) on commit drop;
insert into late values (1), (1)
"""
LOSES_ITS_CONNECTION_AT_COMMIT = """
create temp table last (n int) on commit drop;
create function pg_temp.gone() returns trigger language plpgsql as
  'begin perform pg_terminate_backend(pg_backend_pid()); return null; end';
create constraint trigger gone after insert on last deferrable initially deferred
  for each row execute function pg_temp.gone();
insert into last values (1)
"""


def _worker(backend: Backend) -> tuple[AnyReceipts, LedgerApp, ASGIApp]:
    """A worker that has one connection for handlers: one that is lost is missed at once."""
    store = backend.postgres_receipts(operation_s=1.0, handler_connections=1)
    inner = LedgerApp(backend, "atomic")
    return store, inner, backend.protect(inner, effects="atomic", receipts=store)


async def _fails(backend: Backend, store: AnyReceipts, script: str) -> tuple[int, object]:
    async def body(connection: AsyncConnection) -> None:
        await backend.ledger.write_in(connection)
        for statement in script.split(";\n"):
            await connection.execute(statement)

    failing = backend.protect(atomic(backend, body), effects="atomic", receipts=store)
    answer = await send(failing)
    return answer.status, answer.problem or type(answer.raised)


async def test_a_commit_that_a_constraint_refuses_costs_no_connection(postgres: Backend) -> None:
    store, _inner, app = _worker(postgres)

    failed = await _fails(postgres, store, FAILS_AT_COMMIT)
    other = await send(app, OTHER)
    again = await send(app)

    assert failed == (500, psycopg.errors.UniqueViolation)
    assert (other.brief, again.brief) == (FRESH, FRESH)
    assert postgres.ledger.rows() == ["atomic", "atomic"]


async def test_a_commit_that_loses_its_connection_is_a_store_that_is_unavailable(
    postgres: Backend,
) -> None:
    store, _inner, app = _worker(postgres)
    script = LOSES_ITS_CONNECTION_AT_COMMIT.replace(";\n  'begin", "\n  'begin")

    failed = await _fails(postgres, store, script)
    other = await send(app, OTHER)
    again = await send(app)

    assert failed == (503, ProblemKind.STORE_UNAVAILABLE)
    assert (other.brief, again.brief) == (FRESH, FRESH)
    assert postgres.ledger.rows() == ["atomic", "atomic"]


async def test_a_cursor_kept_beyond_the_answer_spoils_no_later_operation(
    postgres: Backend,
) -> None:
    """A connection that comes out of the pool inside a transaction is not committed by ours."""
    store, inner, app = _worker(postgres)
    cursors: list[psycopg.AsyncCursor[object]] = []

    async def body(connection: AsyncConnection) -> None:
        cursors.append(cast("psycopg.AsyncCursor[object]", await connection.execute("select 1")))

    async def late() -> None:
        with contextlib.suppress(UsageError):
            await cursors[0].execute("select 'late'")

    keeping = atomic(postgres, body)
    keeping.last = late
    first = await send(postgres.protect(keeping, effects="atomic", receipts=store))
    second = await send(app, OTHER)

    assert (first.status, first.raised, second.brief) == (201, None, FRESH)
    assert postgres.ledger.rows() == ["atomic"]
    assert len(inner.bodies_read) == 1
