"""Requests to an ASGI application inside one process, counted by callgrind if it runs under it.

`python -m benchmarks.in_process SPEC LOAD REQUESTS AT_A_TIME`, started by instructions.py. No
server and no socket of HTTP: what is counted is the application and what is around it.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import Final

import uvloop
from benchmarks.app_spec import AppSpec
from benchmarks.apps import make_app
from benchmarks.dict_stores import DictLock, DictReceipts
from benchmarks.handlers import HOLD, pay, routes
from benchmarks.load_plan import BODY, key_of
from starlette.types import ASGIApp, Message, Scope

from replayfloor.server import IdempotencyMiddleware

WARM_UP: Final = 50
"""Requests before the count: the interpreter specialises its bytecode after a few runs."""

SETTLE_S: Final = 0.5
"""For what nobody waits for."""

STATUS: Final = {"first": 201, "keyless": 201, "replay": 201, "in-flight": 409}


class WrongAnswer(Exception):
    """An answer is not the one that is to be counted."""


def application(spec: AppSpec) -> ASGIApp:
    """Return the application; the middleware on dictionaries if there are no receipts."""
    if spec.protection != "ours" or spec.receipts:
        return make_app(spec)
    return IdempotencyMiddleware(
        routes(pay), receipts=DictReceipts(), lock=DictLock(), principal=None
    )


def scope_of(key: str | None) -> Scope:
    """Return what uvicorn makes of a request."""
    headers = [
        (b"host", b"127.0.0.1:8000"),
        (b"accept", b"*/*"),
        (b"content-type", b"application/json"),
        (b"content-length", str(len(BODY)).encode()),
    ]
    if key is not None:
        headers.append((b"idempotency-key", f'"{key}"'.encode()))
    return {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1", "server": ("127.0.0.1", 8000), "client": ("127.0.0.1", 40000),
        "scheme": "http", "method": "POST", "root_path": "", "path": "/payments",
        "raw_path": b"/payments", "query_string": b"", "headers": headers, "state": {},
    }  # fmt: skip


@asynccontextmanager
async def started(app: ASGIApp) -> AsyncGenerator[None]:
    """Let the application start and stop as a server would."""
    told: asyncio.Queue[Message] = asyncio.Queue()
    up = asyncio.Event()

    async def send(message: Message) -> None:
        if message["type"].endswith(".failed"):
            raise WrongAnswer(str(message))
        up.set()

    async def live() -> None:
        await app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, told.get, send)

    async with asyncio.TaskGroup() as group:
        group.create_task(live())
        told.put_nowait({"type": "lifespan.startup"})
        await up.wait()
        yield
        told.put_nowait({"type": "lifespan.shutdown"})


async def request(app: ASGIApp, scope: Scope, status: int) -> None:
    """Send one request to the application, and look at its answer."""
    body: list[Message] = [{"type": "http.request", "body": BODY, "more_body": False}]
    found = 0

    async def receive() -> Message:
        if not body:
            await asyncio.Event().wait()  # the client stays
        return body.pop()

    async def send(message: Message) -> None:
        nonlocal found
        found = message.get("status", found)

    await app(scope, receive, send)
    if found != status:
        raise WrongAnswer(f"{found} instead of {status}")


async def requests(app: ASGIApp, scopes: Iterator[Scope], at_a_time: int, status: int) -> None:
    """Send all the requests, so many at a time."""

    async def some() -> None:
        for scope in scopes:
            await request(app, scope, status)

    await asyncio.gather(*(some() for _ in range(at_a_time)))


async def run(spec: AppSpec, load: str, number: int, at_a_time: int) -> None:
    """Bring the application into its state, warm up, and count."""
    app = application(spec)
    status = 201 if spec.protection == "bare" else STATUS[load]
    every = 2 * WARM_UP + number
    async with started(app), asyncio.TaskGroup() as group:
        if load == "in-flight" and spec.protection != "bare":
            held = scope_of(key_of(load, 0))
            held["headers"].append((HOLD.encode(), b"1"))
            group.create_task(request(app, held, 201))
        if load == "replay":
            await requests(app, scopes_of(load, every), at_a_time, 201)
        await asyncio.sleep(SETTLE_S)
        scopes = scopes_of(load, every)
        await requests(app, islice(scopes, WARM_UP), at_a_time, status)
        counting("on")
        await requests(app, islice(scopes, number), at_a_time, status)
        counting("off")
        await request(app, {**scope_of(None), "method": "GET", "path": "/release"}, 200)


def scopes_of(load: str, number: int) -> Iterator[Scope]:
    """Return as many requests, made beforehand: making them is not what is counted."""
    if load == "keyless":
        return iter([scope_of(None) for _ in range(number)])
    if load == "in-flight":
        return iter([scope_of(key_of(load, 0)) for _ in range(number)])
    return iter([scope_of(key_of(load, n)) for n in range(number)])


def counting(state: str) -> None:
    """Tell callgrind, if there is one, to begin or to end counting."""
    if "BENCH_CALLGRIND" in os.environ:
        subprocess.run(
            ["vgdb", f"--pid={os.getpid()}", "instrumentation", state],
            check=True,
            stdout=subprocess.DEVNULL,
        )


if __name__ == "__main__":
    given, load, number, at_a_time = sys.argv[1:]
    uvloop.run(run(AppSpec.of_json(given), load, int(number), int(at_a_time)))
