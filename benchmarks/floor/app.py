"""The floor: a first request and a replay, by the fewest round trips that are as durable.

What it does for one request: one SHA-256 of the body, the lock (one round trip), the claim (one),
the application, the receipt (one), the answer, and the lock's end, for which nobody waits. What it
leaves out is what a middleware is for: it checks nothing, and loses nothing only while nothing
fails.
"""

from __future__ import annotations

import os
from hashlib import sha256

from benchmarks.floor.atomic import Handlers, Transaction
from benchmarks.floor.stores import Claims, Done, Entry, Locks, receipt_in
from starlette.types import ASGIApp, Message, Receive, Scope, Send

KEY = b"idempotency-key"
REPLAYED = (b"idempotent-replayed", b"true")
IN_FLIGHT = (409, b"content-type: application/problem+json\ncontent-length: 2\n\n{}")


class Floor:
    """An ASGI middleware without any of the checks."""

    def __init__(
        self, app: ASGIApp, postgres: str, redis: str | None, *, atomic: bool = False
    ) -> None:
        """Connect nothing. Without `redis` every request goes to Postgres."""
        self._app = app
        self._claims = Claims(postgres)
        self._locks = None if redis is None else Locks(redis)
        self._handlers = Handlers(postgres) if atomic else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] == "lifespan":
            stores = [s for s in (self._claims, self._locks, self._handlers) if s is not None]
            for store in stores:
                await store.open()
            await self._app(scope, receive, send)
            for store in stores:
                await store.close()
            return
        key = next((value for name, value in scope["headers"] if name == KEY), None)
        if key is None:
            await self._app(scope, receive, send)
        else:
            await self._keyed(scope, receive, send, key)

    async def _keyed(self, scope: Scope, receive: Receive, send: Send, key: bytes) -> None:
        message = await receive()
        body = message.get("body", b"")
        while message.get("more_body"):
            message = await receive()
            body += message.get("body", b"")
        entry = Entry(sha256(key).digest()[:16], sha256(body).digest()[:16], os.urandom(16))
        if self._locks is not None:
            there = await self._locks.acquire.ask(entry)
            if there is not None:
                await answer(send, *(receipt_in(there) or IN_FLIGHT), marked=there[:1] == b"R")
                return
        receipt = await self._claims.claim.ask(entry)
        if receipt is not None:
            await answer(send, *receipt, marked=True)
            return
        await self._first(scope, body, send, entry)

    async def _first(self, scope: Scope, body: bytes, send: Send, entry: Entry) -> None:
        transaction: Transaction | None = None
        if self._handlers is not None:
            transaction = scope.setdefault("state", {})[
                "transaction"
            ] = await self._handlers.begin()

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        messages: list[Message] = []

        async def keep(message: Message) -> None:
            messages.append(message)

        await self._app(scope, receive, keep)
        start, *rest = messages
        content = b"".join(message.get("body", b"") for message in rest)
        head = b"".join(b"%b: %b\n" % pair for pair in start["headers"])
        done = Done(entry, start["status"], b"%b\n%b" % (head, content))
        if transaction is None:
            await self._claims.finish.ask(done)
        else:
            await transaction.commit(done)
        await send(start)
        await send({"type": "http.response.body", "body": content})
        if self._locks is not None:
            self._locks.release.ask(done)


async def answer(send: Send, status: int, response: bytes, *, marked: bool) -> None:
    """Send what is stored."""
    head, _, content = response.partition(b"\n\n")
    pairs = (line.partition(b": ") for line in head.split(b"\n"))
    headers = [(name, value) for name, _, value in pairs]
    if marked:
        headers.append(REPLAYED)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
