"""Deliveries as senders make them: again, late, in another order, in batches, until they are taken.

`storm` runs workers that are killed now and then, and counts what was applied.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import anyio
import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route as Served

from replayfloor.retention import Sender
from replayfloor.server import IdempotencyMiddleware, Route
from replayfloor.server.webhooks.route import webhook
from replayfloor.server.webhooks.source import WebhookSource
from server.backends import Ledger
from support.services.server import free_port
from support.sources import ROOT

WORKERS = 2
SENDERS = 24
BATCH_MAX = 5
LEASE_S = 2.0
FAILS_PER_MILLE = 30
"""How often the handler raises after it has written."""

AGAIN_PER_MILLE = 400
"""How often a delivery that was taken is made again all the same."""

KILL_EVERY_S = 0.3
"""Counted from when all workers are there."""

SENDER = Sender("storm", automatic_retry="72h")
SINGLE = WebhookSource("single", "body /id", sender=SENDER)
BATCHES = WebhookSource("batches", "body /id", batch="body /events", sender=SENDER)


@dataclass
class Storm:
    """What was sent, and how often each event was applied."""

    deliveries: int = 0
    statuses: Counter[int] = field(default_factory=Counter[int])
    lost: int = 0
    """Without an answer; some of them were applied."""
    kills: int = 0
    acknowledged: set[str] = field(default_factory=set[str])
    applied: Counter[str] = field(default_factory=Counter[str])


@dataclass(frozen=True)
class Sending:
    """One delivery: a path and the events that it tells of."""

    path: str
    events: tuple[str, ...]

    def body(self) -> bytes:
        """Return what is sent."""
        told = [{"id": event} for event in self.events]
        return json.dumps({"events": told} if self.path == "/batches" else told[0]).encode()

    def names(self) -> list[str]:
        """Return the names under which its events are counted: the endpoints are two."""
        return [f"{self.path}:{event}" for event in self.events]


def plan(events: int, dice: random.Random) -> list[Sending]:
    """Return deliveries that tell of every event once or more, shuffled."""
    made = [Sending("/single", (f"s{number}",)) for number in range(events)]
    left = [f"b{number}" for number in range(events)]
    for first in range(0, events, BATCH_MAX):
        some = left[first : first + BATCH_MAX]
        made.append(Sending("/batches", tuple(some)))
        mixed = {*dice.sample(left, min(len(left), dice.randint(1, BATCH_MAX))), some[0]}
        made.append(Sending("/batches", tuple(dice.sample(sorted(mixed), len(mixed)))))
    dice.shuffle(made)
    return made


async def storm(
    url: str, lock: str, *, events: int, deliveries: int, seed: int, kill_every_s: float
) -> Storm:
    """Deliver until everything was taken, and at least so many times."""
    dice, found = random.Random(seed), Storm()
    waiting = plan(events, dice)
    every = list(waiting)
    with workers(url, lock) as ports:
        async with (
            httpx.AsyncClient(trust_env=False, timeout=20.0) as client,
            _killing(ports, dice, found, kill_every_s),
            anyio.create_task_group() as senders,
        ):
            for _ in range(SENDERS):
                senders.start_soon(_send, client, ports, waiting, every, deliveries, dice, found)
    found.applied = Counter(Ledger(url).rows())
    return found


async def _send(
    client: httpx.AsyncClient,
    ports: Workers,
    waiting: list[Sending],
    every: list[Sending],
    deliveries: int,
    dice: random.Random,
    found: Storm,
) -> None:
    while waiting or found.deliveries < deliveries:
        sending = waiting.pop(dice.randrange(len(waiting))) if waiting else dice.choice(every)
        found.deliveries += 1
        port = dice.choice(ports.ports)
        try:
            answer = await client.post(
                f"http://127.0.0.1:{port}{sending.path}", content=sending.body()
            )
        except httpx.ConnectError:
            found.deliveries -= 1  # nobody was there
            waiting.append(sending)
            await anyio.sleep(0.1)
            continue
        except httpx.TransportError:
            found.lost += 1
            waiting.append(sending)
            await anyio.sleep(0.05)
            continue
        found.statuses[answer.status_code] += 1
        if answer.is_success:
            found.acknowledged.update(sending.names())
            if dice.randrange(1000) < AGAIN_PER_MILLE and found.deliveries < deliveries:
                waiting.append(sending)
        else:
            waiting.append(sending)
            await anyio.sleep(0.02)


@asynccontextmanager
async def _killing(
    ports: Workers, dice: random.Random, found: Storm, every_s: float
) -> AsyncIterator[None]:
    async def kill() -> None:
        while True:
            for port in ports.ports:
                await answering(port)
            await anyio.sleep(every_s)
            ports.kill(dice.randrange(WORKERS))
            found.kills += 1

    async with anyio.create_task_group() as group:
        group.start_soon(kill)
        yield
        group.cancel_scope.cancel()


async def answering(port: int) -> None:
    """Wait until somebody listens."""
    while True:
        try:
            await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
        except OSError:
            await anyio.sleep(0.05)
        else:
            return


# -- the workers ----------------------------------------------------------------------------------


class Workers:
    """Processes that serve; one that was killed is started again on its port."""

    def __init__(self, url: str, lock: str) -> None:
        self._arguments = [url, lock]
        self.ports = [free_port() for _ in range(WORKERS)]
        self._processes = [self._start(port) for port in self.ports]

    def _start(self, port: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "server.hooks_storm", *self._arguments, str(port)]
        environment = {"PYTHONPATH": str(ROOT / "tests"), "PATH": os.environ["PATH"]}
        return subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)

    def kill(self, index: int) -> None:
        """Kill one, without warning, and start it again."""
        self._processes[index].send_signal(signal.SIGKILL)
        self._processes[index].wait()
        self._processes[index] = self._start(self.ports[index])

    def stop(self) -> None:
        """End all of them."""
        for process in self._processes:
            process.kill()
            process.wait()


@contextmanager
def workers(url: str, lock: str) -> Iterator[Workers]:
    """Run the workers."""
    made = Workers(url, lock)
    try:
        yield made
    finally:
        made.stop()


async def apply(request: Request) -> Response:
    """Write one row for each event that is told of: of a batch, that is one."""
    told = await request.json()
    events = [told] if "id" in told else told["events"]
    connection = request.state.idempotency.connection
    for event in events:
        entry = f"{request.url.path}:{event['id']}"
        await connection.execute(b"insert into ledger values (%s)", (entry,))
    if random.randrange(1000) < FAILS_PER_MILLE:
        raise RuntimeError("the handler fails after it has written")
    return PlainTextResponse("applied")


def main(url: str, lock: str, port: str) -> None:
    """Serve until killed."""
    routes = [
        Route("POST", f"/{name}", effects="atomic", key=webhook(source, verify=None))
        for name, source in (("single", SINGLE), ("batches", BATCHES))
    ]
    served = [Served(f"/{name}", apply, methods=["POST"]) for name in ("single", "batches")]
    app = IdempotencyMiddleware(
        Starlette(routes=served),
        receipts=url,
        lock=lock,
        principal=None,
        routes=routes,
        lease_s=LEASE_S,
    )
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.run(app, port=int(port), log_level="critical")


if __name__ == "__main__":
    main(*sys.argv[1:])
