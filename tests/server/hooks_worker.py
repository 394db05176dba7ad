"""A process that receives Stripe's webhooks, by a clock that its test sets.

    python -m server.hooks_worker RECEIPTS LOCK CLOCK_FILE PORT [kill]

With "kill" it dies by SIGKILL when an event's commit has been answered by the database, and before
the sender gets a byte.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route as Served

from replayfloor.retention import InboundPolicy
from replayfloor.server import EventKind, IdempotencyMiddleware, Route, ServerEvent, clock
from replayfloor.server.webhooks.route import webhook

STRIPE = webhook("stripe", verify=None)
POLICY = InboundPolicy("stripe", senders=(STRIPE.sender,), planned_outage="5d")


async def apply(request: Request) -> Response:
    """Write one row in the receipt's transaction."""
    event = await request.json()
    connection = request.state.idempotency.connection
    await connection.execute(b"insert into ledger values (%s)", (event["id"],))
    return PlainTextResponse("applied")


def main(receipts: str, lock: str, clock_file: str, port: str, *kill: str) -> None:
    """Serve until the end."""
    clock.wall_ms = lambda: int(Path(clock_file).read_text())

    def on_event(event: ServerEvent) -> None:
        if kill and event.kind is EventKind.FINISHED:
            os.kill(os.getpid(), signal.SIGKILL)

    app = IdempotencyMiddleware(
        Starlette(routes=[Served("/hooks/stripe", apply, methods=["POST"])]),
        receipts=receipts,
        lock=lock,
        retention=POLICY,
        principal=None,
        routes=[Route("POST", "/hooks/stripe", effects="atomic", key=STRIPE)],
        on_event=on_event,
    )
    uvicorn.run(app, port=int(port), log_level="warning")


if __name__ == "__main__":
    main(*sys.argv[1:])
