"""The handler's transaction: its writes and the receipt are one commit, whatever it does."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from typing import cast

import psycopg
import pytest
from starlette.types import Receive, Scope, Send

from replayfloor.core.errors import UsageError
from replayfloor.server import AsyncActiveClaim
from replayfloor.server.stores import AsyncConnection
from server.apps import LedgerApp
from server.backends import Backend, claim_of
from server.wire import Request, send

pytestmark = pytest.mark.anyio

Body = Callable[[AsyncConnection], Awaitable[None]]
FRESH = (201, None, False)
REPLAY = (201, None, True)
DATABASE_ERRORS = (psycopg.Error, sqlite3.Error)


class BodyApp(LedgerApp):
    """Runs something on the claim's connection in place of the one write."""

    body: Body

    async def write(self, scope: Scope) -> None:
        await self.body(claim_of(scope).connection)


def atomic(backend: Backend, body: Body, status: int = 201) -> BodyApp:
    app = BodyApp(backend, "atomic", status)
    app.body = body
    return app


async def test_several_writes_and_the_receipt_are_one_commit(backend: Backend) -> None:
    async def body(connection: AsyncConnection) -> None:
        for entry in ("a", "b"):
            await backend.ledger.write_in(connection, entry)
            assert backend.ledger.rows() == []
        cursor = await connection.execute("select count(*) from ledger")
        assert await cursor.fetchone() == (2,)

    app = backend.protect(atomic(backend, body), effects="atomic")

    answers = [await send(app) for _ in range(2)]

    assert [each.brief for each in answers] == [FRESH, REPLAY]
    assert backend.ledger.rows() == ["a", "b"]


async def test_a_handler_that_writes_nothing_is_recorded_too(backend: Backend) -> None:
    async def body(connection: AsyncConnection) -> None:
        return None

    app = backend.protect(atomic(backend, body), effects="atomic")

    assert [(await send(app)).brief for _ in range(2)] == [FRESH, REPLAY]


async def test_a_failed_statement_that_is_swallowed_is_not_recorded_as_done(
    postgres: Backend,
) -> None:
    async def body(connection: AsyncConnection) -> None:
        await postgres.ledger.write_in(connection)
        with pytest.raises(psycopg.Error):
            await connection.execute("select no_such_function()")

    first = await send(postgres.protect(atomic(postgres, body), effects="atomic"))
    cured = await send(postgres.protect(LedgerApp(postgres, "atomic"), effects="atomic"))

    assert first.status == 500
    assert cured.brief == FRESH
    assert postgres.ledger.rows() == ["atomic"]


async def test_a_constraint_that_fails_at_commit_is_not_recorded_as_done(
    postgres: Backend,
) -> None:
    async def body(connection: AsyncConnection) -> None:
        await postgres.ledger.write_in(connection)
        await connection.execute(
            "create temp table late (n int unique deferrable initially deferred) on commit drop"
        )
        await connection.execute("insert into late values (1), (1)")

    first = await send(postgres.protect(atomic(postgres, body), effects="atomic"))

    assert first.status == 500
    assert postgres.ledger.rows() == []
    cured = await send(postgres.protect(LedgerApp(postgres, "atomic"), effects="atomic"))
    assert cured.brief == FRESH


@pytest.mark.parametrize("word", ["commit", "rollback"])
async def test_the_handlers_own_commit_and_rollback_are_errors(
    postgres: Backend, word: str
) -> None:
    async def body(connection: AsyncConnection) -> None:
        await postgres.ledger.write_in(connection)
        with pytest.raises(psycopg.ProgrammingError):
            await getattr(cast("psycopg.AsyncConnection", connection), word)()

    app = postgres.protect(atomic(postgres, body), effects="atomic")

    assert [(await send(app)).brief for _ in range(2)] == [FRESH, REPLAY]
    assert postgres.ledger.rows() == ["atomic"]


SPELLINGS = ["COMMIT", "commit;", "  end", "Rollback", "/* by hand */ commit", "-- done\ncommit"]


@pytest.mark.parametrize("statement", SPELLINGS)
async def test_a_handler_that_ends_the_transaction_by_a_statement_gets_an_error_and_no_commit(
    backend: Backend, statement: str
) -> None:
    """Else its writes stand without a receipt, and the retry of a failure writes them again."""

    async def body(connection: AsyncConnection) -> None:
        await backend.ledger.write_in(connection)
        await connection.execute(statement)

    first = await send(backend.protect(atomic(backend, body), effects="atomic"))

    assert first.status == 500
    assert backend.ledger.rows() == []
    cured = await send(backend.protect(LedgerApp(backend, "atomic"), effects="atomic"))
    assert cured.status in (201, 409)
    assert len(backend.ledger.rows()) <= 1


async def test_a_handler_that_committed_by_a_statement_and_failed_is_not_executed_again(
    backend: Backend,
) -> None:
    async def body(connection: AsyncConnection) -> None:
        await backend.ledger.write_in(connection)
        try:
            await connection.execute("/* by hand */ commit")
        except (UsageError, *DATABASE_ERRORS):
            pass
        raise RuntimeError("afterwards")

    await send(backend.protect(atomic(backend, body), effects="atomic"))
    await send(backend.protect(LedgerApp(backend, "atomic"), effects="atomic"))

    assert len(backend.ledger.rows()) <= 1


async def test_a_transaction_that_sqlite_ended_itself_is_not_gone_on_with(sqlite: Backend) -> None:
    """`or rollback` (as a full disk does) ends it; what follows would be committed one by one."""

    async def body(connection: AsyncConnection) -> None:
        await connection.execute("create table once (n integer primary key)")
        await connection.execute("insert into once values (1)")
        with pytest.raises(sqlite3.IntegrityError):
            await connection.execute("insert or rollback into once values (1)")
        await sqlite.ledger.write_in(connection)
        raise RuntimeError("afterwards")

    await send(sqlite.protect(atomic(sqlite, body), effects="atomic"))

    assert sqlite.ledger.rows() == []


@pytest.mark.parametrize("statement", ["savepoint a", "release a", "rollback to a"])
async def test_savepoints_are_the_handlers_own(backend: Backend, statement: str) -> None:
    async def body(connection: AsyncConnection) -> None:
        await backend.ledger.write_in(connection, "kept")
        await connection.execute("savepoint a")
        if statement != "savepoint a":
            await backend.ledger.write_in(connection, "inside")
            await connection.execute(statement)

    app = backend.protect(atomic(backend, body), effects="atomic")

    assert (await send(app)).brief == FRESH
    inside = ["inside"] if statement == "release a" else []
    assert backend.ledger.rows() == ["kept", *inside]


async def test_a_nested_transaction_of_psycopg_is_a_savepoint(postgres: Backend) -> None:
    async def body(connection: AsyncConnection) -> None:
        own = cast("psycopg.AsyncConnection", connection)
        await postgres.ledger.write_in(connection, "kept")
        async with own.transaction():
            await postgres.ledger.write_in(connection, "undone")
            raise psycopg.Rollback

    app = postgres.protect(atomic(postgres, body), effects="atomic")

    assert (await send(app)).brief == FRESH
    assert postgres.ledger.rows() == ["kept"]


async def test_an_external_route_has_no_connection(backend: Backend) -> None:
    errors: list[UsageError] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        with pytest.raises(UsageError) as raised:
            _ = claim_of(scope).connection
        errors.append(raised.value)
        await LedgerApp(backend)(scope, receive, send)

    await send(backend.protect(app))

    assert "atomic" in str(errors[0])


@pytest.mark.parametrize("status", [201, 500])
async def test_the_claims_connection_is_refused_once_the_answer_is_complete(
    backend: Backend, status: int
) -> None:
    claims: list[AsyncActiveClaim] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        claims.append(claim_of(scope))
        await LedgerApp(backend, "atomic", status)(scope, receive, send)
        with pytest.raises(UsageError, match="ended"):
            _ = claims[0].connection

    answer = await send(backend.protect(app, effects="atomic"), Request())

    assert (answer.status, answer.raised) == (status, None)
