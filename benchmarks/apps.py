"""The application that is measured, bare and behind what protects it.

One Starlette route that answers 201 with a little JSON. It is the same in every row of a table;
only what is mounted around it differs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, assert_never

from benchmarks.app_spec import AppSpec
from benchmarks.floor.app import Floor
from benchmarks.handlers import pay, routes
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from replayfloor.server import IdempotencyMiddleware

LEDGER: Final = Path(__file__).with_name("ledger.sql").read_bytes()
LEDGER_TABLE: Final = "create table ledger (payment text not null, amount_minor bigint not null)"


async def pay_through_floor(request: Request) -> Response:
    """Write one row in the floor's transaction."""
    payment = json.loads(await request.body())
    await request.state.transaction.execute(LEDGER, (payment["id"], payment["amount_minor"]))
    return JSONResponse({"status": "charged", "id": payment["id"]}, 201)


async def pay_through_claim(request: Request) -> Response:
    """Write one row in the receipt's transaction."""
    payment = json.loads(await request.body())
    connection = request.state.idempotency.connection
    await connection.execute(LEDGER, (payment["id"], payment["amount_minor"]))
    return JSONResponse({"status": "charged", "id": payment["id"]}, 201)


def make_app(spec: AppSpec) -> ASGIApp:
    """Return the application of a specification."""
    match spec.protection:
        case "bare":
            return routes(pay)
        case "floor":
            redis = None if spec.lock == "local" else spec.lock
            inner = routes(pay_through_floor if spec.atomic else pay)
            return Floor(inner, spec.receipts, redis, atomic=spec.atomic)
        case "ours":
            return IdempotencyMiddleware(
                routes(pay_through_claim if spec.atomic else pay),
                receipts=spec.receipts,
                lock=spec.lock,
                principal=None,
                effects="atomic" if spec.atomic else "external",
            )
        case _:
            assert_never(spec.protection)
