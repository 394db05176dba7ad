"""A server process: three routes that charge, behind the middleware, under uvicorn; until killed.

`python -m chaos.worker` waits for a WorkerPlan, one line of JSON on its standard input, and ends
when that is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import sys
import threading
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route as AppRoute
from starlette.types import ASGIApp

from chaos.bank import HOST, charge_at
from chaos.broken import receipts_without
from chaos.plan import Route
from chaos.trail import BEGUN, ENDED, STALLED, Trail
from replayfloor.server import AsyncActiveClaim, IdempotencyMiddleware
from replayfloor.server import Route as Rule

LEDGER = (
    "create table ledger (charge bigint generated always as identity, payment text not null, "
    "amount bigint not null, run text not null, at double precision not null)"
)
CHARGE = "insert into ledger (payment, amount, run, at) values (%s, %s, %s, %s) returning charge"

TICK_S = 0.1
STALL_S = 0.4
"""A loop that is later than this was kept from running: by SIGSTOP, or by the machine."""

RUN_HEADER = "X-Run"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlan:
    """How one worker is to serve; `broken` is the protection it lacks."""

    port: int
    receipts: str
    lock: str
    bank_port: int
    trail: str
    lease_s: float
    broken: str


@dataclass(frozen=True, slots=True)
class Payment:
    """What a request asks for; the pauses, in ms, are the handler's before and after its effect."""

    payment: str
    amount: int
    before_ms: int
    after_ms: int


class Charges:
    """The handlers."""

    def __init__(self, plan: WorkerPlan, trail: Trail) -> None:
        """Charge where the plan says."""
        self._plan, self._trail = plan, trail

    async def serve(self, request: Request) -> Response:
        """Charge once in the way of the route, and say which charge it was."""
        claim = request.state.idempotency
        assert isinstance(claim, AsyncActiveClaim)
        order = Payment(**await request.json())
        run = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._trail.note(BEGUN, claim.id, run)
        await asyncio.sleep(order.before_ms / 1000)
        charge = await self._charge(Route(request.url.path[1:]), claim, order, run)
        await asyncio.sleep(order.after_ms / 1000)
        self._trail.note(ENDED, claim.id, run)
        content = {"payment": order.payment, "charge": charge, "amount": order.amount}
        return JSONResponse(content, 201, {RUN_HEADER: run})

    async def _charge(self, route: Route, claim: AsyncActiveClaim, order: Payment, run: str) -> int:
        if route is Route.ATOMIC:
            values = (order.payment, order.amount, run, time.time())
            row = await (await claim.connection.execute(CHARGE, values)).fetchone()
            assert row is not None
            return int(str(row[0]))
        name = claim.derived_key("charge") if route is Route.REPEATABLE else None
        return await charge_at(self._plan.bank_port, order.payment, order.amount, run, name)


def make_app(plan: WorkerPlan, trail: Trail) -> ASGIApp:
    """Return the application behind the middleware."""
    charges = Charges(plan, trail)

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        watching = asyncio.create_task(_watch_the_loop(trail))
        yield
        watching.cancel()

    routes = [AppRoute(f"/{route}", charges.serve, methods=["POST"]) for route in Route]
    return IdempotencyMiddleware(
        Starlette(routes=routes, lifespan=lifespan),
        receipts=receipts_without(plan.broken, plan.receipts),
        lock=plan.lock,
        principal=None,
        required=True,
        routes=[
            Rule("POST", "/atomic", effects="atomic"),
            Rule("POST", "/repeatable", effects="repeatable"),
        ],
        lease_s=plan.lease_s,
        on_event=trail.on_event,
    )


async def _watch_the_loop(trail: Trail) -> None:
    while True:
        before = time.time()
        await asyncio.sleep(TICK_S)
        late_s = time.time() - before - TICK_S
        if late_s > STALL_S:
            trail.note(STALLED, "", f"{late_s:.3f}")


def _die_with_parent() -> None:
    def watch() -> None:
        # Nothing is ever written to the pipe: a read returns when its other end is closed.
        os.read(sys.stdin.fileno(), 1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Serve."""
    line = sys.stdin.readline()
    if not line:
        return
    _die_with_parent()
    plan = WorkerPlan(**json.loads(line))
    app = make_app(plan, Trail(Path(plan.trail)))
    uvicorn.run(app, host=HOST, port=plan.port, log_level="warning", lifespan="on", ws="none")


if __name__ == "__main__":
    main()
