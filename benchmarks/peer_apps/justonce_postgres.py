"""justonce runs a function once, its blocking Postgres store in threads; the handler makes HTTP."""

import json
import os

from benchmarks.handlers import routes, wait_if_told
from justonce.asyncio import AsyncIdempotent
from justonce.errors import OperationInFlightError
from justonce.stores.postgres import PostgresStore
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

engine = AsyncIdempotent(PostgresStore(os.environ["PEER_POSTGRES"]))


async def pay(request: Request) -> Response:
    """Charge, or answer with what is stored."""
    payment = json.loads(await request.body())

    async def charge() -> dict[str, str]:
        await wait_if_told(request)
        return {"status": "charged", "id": payment["id"]}

    try:
        result = await engine.run(request.headers["idempotency-key"], charge, payload=payment)
    except OperationInFlightError:
        return JSONResponse({"error": "in flight"}, 409)
    replayed = {} if result.executed else {"Idempotent-Replayed": "true"}
    return JSONResponse(result.value, 201, headers=replayed)


app = routes(pay)
