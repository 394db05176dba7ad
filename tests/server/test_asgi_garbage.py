"""A request leaves nothing behind that only the garbage collector could remove.

A circle costs its request nothing, and every later one the passes over all that is alive.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from starlette.types import Receive, Scope, Send

from replayfloor.server import IdempotencyMiddleware
from replayfloor.testing.simulated import SimulatedLock, SimulatedReceipts
from replayfloor.testing.world import World
from server.wire import Request, send

pytestmark = pytest.mark.anyio

REQUESTS = 20


@pytest.fixture(autouse=True)
def _no_collection() -> Iterator[None]:
    gc.collect()
    # What other tests of this process left alive may die during this one: it does not count here.
    gc.freeze()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()
    gc.unfreeze()


async def pay(_scope: Scope, _receive: Receive, answer: Send) -> None:
    await answer({"type": "http.response.start", "status": 201, "headers": []})
    await answer({"type": "http.response.body", "body": b"paid"})


@pytest.mark.parametrize("repeated", [False, True], ids=["first requests", "replays"])
async def test_requests_leave_no_circles(*, repeated: bool) -> None:
    world = World()
    app = IdempotencyMiddleware(
        pay,
        receipts=SimulatedReceipts(world),
        lock=SimulatedLock(world),
        principal=None,
    )
    await send(app, Request(key=b'"warm"'))
    gc.collect()
    gc.garbage.clear()

    for number in range(REQUESTS):
        key = b'"same"' if repeated else b'"key-%d"' % number
        assert (await send(app, Request(key=key))).status == 201

    gc.collect()
    # Other tests of this process, and their threads, may leave circles of their own behind.
    ours = [each for each in gc.garbage if type(each).__module__.startswith("replayfloor.server")]
    assert ours == []
