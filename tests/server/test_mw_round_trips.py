"""How often the stores are asked for one request: what it costs beyond the application itself.

Each of these is one statement and one commit, or one script.
"""

from __future__ import annotations

import asyncio

import pytest
import redis

from server.apps import LedgerApp
from server.backends import Backend, EffectsOption
from server.doubles import watched_lock, watched_receipts
from server.wire import Request, send

pytestmark = pytest.mark.anyio

FIRST, REPLAY, BUSY = (201, None, False), (201, None, True), (409, "in-flight", False)


@pytest.mark.parametrize(
    ("effects", "asked"),
    [
        ("external", ["claim", "finish"]),
        ("repeatable", ["claim", "finish"]),
        ("atomic", ["claim", "begin", "commit"]),
    ],
)
async def test_a_first_request_asks_as_little_as_it_can(
    backend: Backend, effects: EffectsOption, asked: list[str]
) -> None:
    receipts, lock = watched_receipts(backend.receipts()), watched_lock(backend.lock())
    app = backend.protect(
        LedgerApp(backend, effects), receipts=receipts, lock=lock, effects=effects
    )

    answer = await send(app)

    assert answer.brief == FIRST
    assert lock.calls == ["acquire", "release"]
    # The end of the loan of an atomic handler's connection is no round trip.
    assert [call for call in receipts.calls if call != "rollback"] == asked


async def test_a_replay_asks_the_lock_once_and_nobody_else(postgres: Backend) -> None:
    assert (await send(postgres.protect(LedgerApp(postgres)))).brief == FIRST
    receipts, lock = watched_receipts(postgres.receipts()), watched_lock(postgres.lock())

    again = await send(postgres.protect(LedgerApp(postgres), receipts=receipts, lock=lock))

    assert again.brief == REPLAY
    assert (lock.calls, receipts.calls) == (["acquire"], [])


async def test_a_duplicate_in_flight_asks_the_lock_once_and_nobody_else(backend: Backend) -> None:
    goes_on = asyncio.Event()
    reached = asyncio.Event()

    async def stay() -> None:
        reached.set()
        await goes_on.wait()

    inner = LedgerApp(backend, before=stay)
    receipts, lock = watched_receipts(backend.receipts()), watched_lock(backend.lock())
    app = backend.protect(inner, receipts=receipts, lock=lock)
    held = asyncio.create_task(send(app))
    await asyncio.wait_for(reached.wait(), 10)
    receipts.calls.clear()
    lock.calls.clear()

    answer = await send(app)
    goes_on.set()
    await held

    assert answer.status == 409
    assert lock.calls[0] == "acquire"
    assert receipts.calls == ["finish"]  # that of the first request
    assert lock.calls[1:] == ["release"]  # likewise


async def test_a_request_is_two_scripts_and_its_replay_one_more(postgres: Backend) -> None:
    """Counted by Redis itself."""
    app = postgres.protect(LedgerApp(postgres))
    await send(app, Request(key=b'"opens what is opened once"'))
    with redis.Redis.from_url(postgres.lock_url) as client:
        before = _scripts(client)
        assert (await send(app)).brief == FIRST
        # The answer does not wait for the second of them; the next request comes after it.
        assert (await send(app)).brief == REPLAY

        assert _scripts(client) - before == 3


def _scripts(client: redis.Redis) -> int:
    stats = client.info("commandstats")
    assert isinstance(stats, dict)
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("eval", "evalsha"))
