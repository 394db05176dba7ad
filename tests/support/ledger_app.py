"""An application whose handlers write one row per execution, for tests that count effects.

Started under uvicorn by `support.worker`; told by environment variables which stores to use.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import closing

import psycopg
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route as AppRoute

from replayfloor.server import IdempotencyMiddleware, Route

RECEIPTS = os.environ["LEDGER_RECEIPTS"]
POSTGRES = RECEIPTS.startswith("postgresql")
INSERT = f"insert into ledger (payment, worker) values ({'%s, %s' if POSTGRES else '?, ?'})"


async def pause(request: Request, name: str) -> None:
    """Wait for as long as a header of the request says (milliseconds)."""
    await asyncio.sleep(int(request.headers.get(name, "0")) / 1000)


async def atomic(request: Request) -> Response:
    """Write through the claim's connection."""
    payment = (await request.json())["payment"]
    await pause(request, "x-before-ms")
    connection = request.state.idempotency.connection
    await connection.execute(INSERT, (payment, os.getpid()))
    await pause(request, "x-after-ms")
    return JSONResponse({"payment": payment, "worker": os.getpid()}, 201)


async def external(request: Request) -> Response:
    """Write and commit on a connection of our own, as another service would."""
    payment = (await request.json())["payment"]
    await pause(request, "x-before-ms")
    await asyncio.to_thread(commit_at_once, payment)
    await pause(request, "x-after-ms")
    return JSONResponse({"payment": payment, "worker": os.getpid()}, 201)


def commit_at_once(payment: str) -> None:
    """One row, committed before this returns."""
    if POSTGRES:
        with psycopg.connect(RECEIPTS) as database:
            database.execute(INSERT, (payment, os.getpid()))
    else:
        with closing(
            sqlite3.connect(RECEIPTS.removeprefix("sqlite:///"), timeout=10, isolation_level=None)
        ) as database:
            database.execute(INSERT, (payment, os.getpid()))


async def ready(request: Request) -> Response:
    """Say which process answers."""
    return JSONResponse({"worker": os.getpid(), "path": request.url.path})


app = IdempotencyMiddleware(
    Starlette(
        routes=[
            AppRoute("/atomic", atomic, methods=["POST"]),
            AppRoute("/external", external, methods=["POST"]),
            AppRoute("/ready", ready),
        ]
    ),
    receipts=RECEIPTS,
    lock=os.environ.get("LEDGER_LOCK", "local"),
    principal=None,
    required=True,
    routes=[Route("POST", "/atomic", effects="atomic")],
    lease_s=float(os.environ.get("LEDGER_LEASE_S", "30")),
)
