"""What the tests of webhooks share: senders, deliveries, and a handler that writes a ledger."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Unpack

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from replayfloor.retention import Sender
from replayfloor.server import Route
from replayfloor.server.routes import EffectsOption
from replayfloor.server.webhooks.delivery import Delivery, InvalidSignature
from replayfloor.server.webhooks.key import Acknowledge, PastHorizon
from replayfloor.server.webhooks.route import webhook
from replayfloor.server.webhooks.source import WebhookSource
from server.apps import Hook, nothing, read_body
from server.backends import Backend, ProtectOptions, claim_of
from server.wire import Request

PATH = "/hooks/shop"
SIGNED = (b"x-signature", b"good")

SHOP = WebhookSource(
    name="shop",
    event_id="body /id",
    event_time="body /created",
    attempt="header x-attempt",
    sender=Sender("shop", automatic_retry="72h"),
)
BATCHES = WebhookSource(
    name="batches",
    event_id="body /id",
    batch="body /events",
    sender=Sender("batches", automatic_retry="72h"),
)


def check(delivery: Delivery) -> None:
    """Verify as a sender's scheme would; the signature covers nothing here."""
    if delivery.header("X-Signature") != "good":
        raise InvalidSignature("the signature is of another secret")


@dataclass
class Applying:
    """A handler: writes the id of each event that its body tells of into the ledger."""

    backend: Backend
    effects: EffectsOption = "atomic"
    statuses: list[int] = field(default_factory=list)
    before: Hook = nothing
    after: Hook = nothing
    bodies: list[bytes] = field(default_factory=list)
    past: list[bool] = field(default_factory=list)
    fails_for: Sequence[str] = ()
    headers: Sequence[tuple[bytes, bytes]] = ()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Apply one delivery, or live through a server's start and stop."""
        if scope["type"] == "lifespan":
            for _ in range(2):
                message = await receive()
                await send({"type": f"{message['type']}.complete"})
            return
        body = await read_body(receive)
        self.bodies.append(body)
        self.past.append(claim_of(scope).past_horizon)
        await self.before()
        told = json.loads(body)
        names = [str(each["id"]) for each in told.get("events", [told])]
        for name in names:
            await self.write(scope, name)
        await self.after()
        status = self.statuses.pop(0) if self.statuses else 200
        if set(names) & set(self.fails_for):
            status = 500
        start: Message = {
            "type": "http.response.start",
            "status": status,
            "headers": [(b"content-type", b"text/plain"), *self.headers],
        }
        await send(start)
        await send({"type": "http.response.body", "body": b"applied"})

    async def write(self, scope: Scope, name: str) -> None:
        """Write one row."""
        ledger = self.backend.ledger
        if self.effects == "atomic":
            await ledger.write_in(claim_of(scope).connection, name)
        else:
            await anyio.to_thread.run_sync(ledger.write, name)


def receiving(
    handler: Applying,
    source: str | WebhookSource = SHOP,
    *,
    verify: Callable[[Delivery], None] | None = check,
    ack: Acknowledge = "after",
    past_horizon: PastHorizon = "acknowledge",
    path: str = PATH,
    **options: Unpack[ProtectOptions],
) -> ASGIApp:
    """Return a worker that receives webhooks with this handler."""
    key = webhook(source, verify=verify, ack=ack, past_horizon=past_horizon)
    options["routes"] = [Route("POST", path, effects=handler.effects, key=key)]
    return handler.backend.protect(handler, **options)


def delivery(
    event: str = "evt_1", *headers: tuple[bytes, bytes], path: str = PATH, **members: object
) -> Request:
    """Return one delivery of an event, signed."""
    body = json.dumps({"id": event, **members}).encode()
    return Request(path=path, key=None, chunks=(body,), headers=[SIGNED, *headers])


def batch(*events: str, **members: object) -> Request:
    """Return one delivery of several events, signed."""
    told = {"events": [{"id": event, "amount": 1} for event in events], **members}
    return Request(path=PATH, key=None, chunks=(json.dumps(told).encode(),), headers=[SIGNED])
