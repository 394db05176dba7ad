"""exactly-once guards a block of code, on Postgres; the handler makes HTTP of it."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.handlers import routes, wait_if_told
from exactly_once import QuarantinedError, Store, once
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

store = Store.postgres(os.environ["PEER_POSTGRES"])


async def pay(request: Request) -> Response:
    """Charge, or answer with what is stored."""
    payment = json.loads(await request.body())
    try:
        async with once(store, key=request.headers["idempotency-key"]) as guard:
            if guard.fresh:
                await wait_if_told(request)
                guard.result = {"status": "charged", "id": payment["id"]}
    except QuarantinedError:
        return JSONResponse({"error": "in flight"}, 409)
    replayed = {} if guard.fresh else {"Idempotent-Replayed": "true"}
    return JSONResponse(guard.result, 201, headers=replayed)


@asynccontextmanager
async def lifespan(_app: Starlette) -> AsyncIterator[None]:
    """Connect before the first requests come."""
    await store.anow()
    yield


app = routes(pay, lifespan=lifespan)
