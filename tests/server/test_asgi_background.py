"""A background task that is cancelled: its receipt stands."""

from __future__ import annotations

import anyio
import pytest

from server.backends import Backend, EffectsOption
from server.test_mw_background import app_with
from server.wire import Exchange, Request, send

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("effects", ["atomic", "external"])
async def test_a_background_task_that_is_cancelled_does_not_lose_the_receipt(
    asgi: Backend, effects: EffectsOption
) -> None:
    app = asgi.protect(app_with(asgi, effects, anyio.sleep_forever), effects=effects)
    exchange = Exchange(app, Request())

    async with anyio.create_task_group() as group:
        group.start_soon(exchange.run)
        await exchange.answered.wait()
        group.cancel_scope.cancel()

    assert (await send(app)).brief == (201, None, True)
    assert len(asgi.ledger.rows()) == 1
