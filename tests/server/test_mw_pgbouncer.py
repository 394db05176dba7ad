"""Behind PgBouncer in transaction mode: the store has no session there, and needs none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import anyio
import pytest
from psycopg.conninfo import conninfo_to_dict

from replayfloor.core.problem import ProblemKind
from server.apps import LedgerApp, raising
from server.backends import Backend, EffectsOption, Ledger, Side
from server.wire import Request, send, send_all
from support.services.pgbouncer import PgBouncer

pytestmark = pytest.mark.anyio

FRESH, REPLAY = (201, None, False), (201, None, True)
IN_FLIGHT = (409, ProblemKind.IN_FLIGHT, False)
MANY = 24
every_effect = pytest.mark.parametrize("effects", ["atomic", "external", "repeatable"])


@pytest.fixture(params=["asgi", "wsgi"])
async def pooled(
    request: pytest.FixtureRequest, pgbouncer: PgBouncer, emptied_url: str
) -> AsyncIterator[Backend]:
    """Workers that reach Postgres by way of PgBouncer; effects are counted without it."""
    side: Side = request.param
    url = pgbouncer.url_of(str(conninfo_to_dict(emptied_url)["dbname"]))
    made = Backend("postgres", side, url, "local", Ledger(emptied_url))
    yield made
    await made.close()


@every_effect
async def test_behind_a_pooler_one_of_many_duplicates_is_executed(
    pooled: Backend, effects: EffectsOption
) -> None:
    inner = LedgerApp(pooled, effects, after=partial(anyio.sleep, 0.1))
    apps = [pooled.protect(inner, effects=effects) for _ in range(2)]

    answers = await send_all([partial(send, apps[n % 2]) for n in range(MANY)])
    again = await send(apps[1])

    assert [each.brief for each in answers].count(FRESH) == 1
    assert {each.brief for each in answers} <= {FRESH, REPLAY, IN_FLIGHT}
    assert again.brief == REPLAY
    assert len(pooled.ledger.rows()) == 1


@every_effect
async def test_behind_a_pooler_requests_with_keys_of_their_own_are_all_executed(
    pooled: Backend, effects: EffectsOption
) -> None:
    app = pooled.protect(LedgerApp(pooled, effects), effects=effects)
    requests = [Request(key=b'"k-%d"' % number) for number in range(MANY)]

    first = await send_all([partial(send, app, each) for each in requests])
    again = await send_all([partial(send, app, each) for each in requests])

    assert {each.brief for each in first} == {FRESH}
    assert {each.brief for each in again} == {REPLAY}
    assert len(pooled.ledger.rows()) == MANY


async def test_behind_a_pooler_an_atomic_handler_that_fails_leaves_nothing(
    pooled: Backend,
) -> None:
    failing = pooled.protect(
        LedgerApp(pooled, "atomic", after=raising(LookupError())), effects="atomic"
    )
    sound = pooled.protect(LedgerApp(pooled, "atomic"), effects="atomic")

    first = await send(failing)
    assert (first.status, pooled.ledger.rows()) == (500, [])
    answers = [await send(sound) for _ in range(2)]

    assert [each.brief for each in answers] == [FRESH, REPLAY]
    assert pooled.ledger.rows() == ["atomic"]
