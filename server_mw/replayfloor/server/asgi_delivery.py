"""One delivery of a webhook over ASGI: read, verified, and its events handed on one by one.

Each event of a delivery is a keyed request of its own (`asgi_exchange.py`). If there are several,
the application is called once for each, with a body that tells of that event alone, and the sender
gets one answer: a success only if every event had one, so that it delivers again what failed. What
was applied is not applied again then.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from functools import partial
from typing import assert_never

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope

from replayfloor.core.claims import FENCE_BYTES, Fence
from replayfloor.core.drivers import run_async
from replayfloor.core.effects import Effect
from replayfloor.core.message import Response
from replayfloor.server import clock
from replayfloor.server.asgi_exchange import Connection, Exchange, send_response
from replayfloor.server.body_target import asgi_head
from replayfloor.server.effects import (
    BodyTooLarge,
    ClientGone,
    DeliveryAnswer,
    DeliveryRead,
    Emit,
    ReadDelivery,
    Verify,
)
from replayfloor.server.flow import Call, Delivered, Gone, Received, Refused, receive
from replayfloor.server.perform_common import emit
from replayfloor.server.policy import Options
from replayfloor.server.settings import Settings
from replayfloor.server.shield import in_thread
from replayfloor.server.webhooks.answers import NOTHING_TOLD, weight
from replayfloor.server.webhooks.delivery import Delivery
from replayfloor.server.webhooks.key import WebhookKey, require_verified

OpenExchange = Callable[[Options, Connection], Exchange]
"""Makes the exchange of one event, on the middleware's stores."""

AppOf = Callable[[Delivery, Delivered], ASGIApp]
"""Chooses what is called for an event: the application, or the writer of the inbox."""

log = logging.getLogger("replayfloor.server")


class DeliveryExchange:
    """Takes one delivery from its bytes to its answer. One object per request."""

    def __init__(
        self,
        settings: Settings,
        options: Options,
        hook: WebhookKey,
        connection: Connection,
        open_exchange: OpenExchange,
    ) -> None:
        """Belong to one request."""
        self._settings, self._options, self._hook = settings, options, hook
        self._connection = connection
        self._open = open_exchange

    async def run(self, app_of: AppOf) -> None:
        """Answer the delivery, calling the application at most once for each event."""
        received = await run_async(receive(self._hook), self._perform)
        match received:
            case Gone():
                return
            case Refused(problem):
                response = problem.to_response(self._options.documentation)
                await self._answer(response)
            case Received(delivery, ()):
                del delivery
                await self._answer(NOTHING_TOLD)
            case Received(delivery, (delivered,)) if delivered.event.body is None:
                await self._hand_on(app_of, delivery, delivered, self._connection)
            case Received(delivery, events):
                await self._hand_on_each(app_of, delivery, events)
            case _:
                assert_never(received)

    async def _answer(self, response: Response) -> None:
        await send_response(self._connection.send, response, self._settings.lifetime_headers)

    # -- the events -------------------------------------------------------------------------------

    async def _hand_on(
        self, app_of: AppOf, delivery: Delivery, delivered: Delivered, connection: Connection
    ) -> None:
        exchange = self._open(self._options, connection)
        body = delivered.event.body
        exchange.use_body(delivery.body if body is None else body)
        call = Call(
            key_lines=(),
            namespace=self._settings.namespace,
            principal=self._hook.scope(delivery.path.decode("latin-1")),
            fence=Fence(secrets.token_bytes(FENCE_BYTES)),
            # Not its arrival: verifying it, or applying the events before, may take minutes.
            now_ms=clock.wall_ms(),
            delivered=delivered,
        )
        await exchange.run(app_of(delivery, delivered), call)

    async def _hand_on_each(
        self, app_of: AppOf, delivery: Delivery, events: tuple[Delivered, ...]
    ) -> None:
        """Hand every event on, whatever becomes of the others, and answer for all of them."""
        chosen: _KeptAnswer | None = None
        failure: Exception | None = None
        for delivered in events:
            kept = _KeptAnswer(self._connection.receive)
            scope = _narrowed(self._connection.scope, delivered)
            connection = Connection(scope, kept.receive, kept.send)
            try:
                await self._hand_on(app_of, delivery, delivered, connection)
            except Exception as error:
                log.exception("an event of %s failed", delivered.source)
                # After the answer, it is the application's own affair.
                failure = failure or (None if kept.complete else error)
            if kept.status and (chosen is None or weight(kept.status) > weight(chosen.status)):
                chosen = kept
        if failure is not None:
            raise failure
        for message in chosen.messages if chosen else ():
            await self._connection.send(message)

    # -- effects ----------------------------------------------------------------------------------

    async def _perform(self, effect: Effect[object]) -> object:
        match effect:
            case ReadDelivery():
                return await self._read()
            case Verify(verifier, delivery):
                # It may ask the sender, and wait for that.
                return await in_thread(partial(require_verified, verifier, delivery))
            case Emit(event):
                emit(self._settings, event)
                return None
            case _:
                raise TypeError(f"the server flow asked for {effect!r}")

    async def _read(self) -> DeliveryAnswer:
        chunks: list[bytes] = []
        size = 0
        more = True
        while more:
            message = await self._connection.receive()
            if message["type"] == "http.disconnect":
                return ClientGone()
            chunk: bytes = message.get("body", b"")
            size += len(chunk)
            if size > self._settings.body_bytes_max:
                return BodyTooLarge()
            chunks.append(chunk)
            more = message.get("more_body", False)
        head = asgi_head(self._connection.scope)
        body = b"".join(chunks)
        return DeliveryRead(
            Delivery(head.method, head.path, head.query, head.headers, body, clock.wall_ms())
        )


class _KeptAnswer:
    """The answer to one event of several, kept until it is known which one is sent."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._over = anyio.Event()
        self.messages: list[Message] = []
        self.status = 0

    @property
    def complete(self) -> bool:
        return self._over.is_set()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        self.messages.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._over.set()

    async def receive(self) -> Message:
        """Give what the client sends; once this event is answered, it is gone (ASGI, HTTP).

        The server itself would say so only after the whole delivery was answered, and an
        application that waits for that before it returns would wait for ever.
        """
        came: list[Message] = []
        errors: list[Exception] = []

        async def listen() -> None:
            try:
                came.append(await self._receive())
            except Exception as error:  # noqa: BLE001 - passed on below, outside the task group
                errors.append(error)
            group.cancel_scope.cancel()

        if not self.complete:
            async with anyio.create_task_group() as group:
                group.start_soon(listen)
                await self._over.wait()
                group.cancel_scope.cancel()
        if errors:
            raise errors[0]
        return came[0] if came else {"type": "http.disconnect"}


def _narrowed(scope: Scope, delivered: Delivered) -> Scope:
    """Return the scope of a request that tells of one event: with its own state and length."""
    length = str(len(delivered.event.body or b"")).encode()
    headers = [
        (name, length if name == b"content-length" else value) for name, value in scope["headers"]
    ]
    return {**scope, "headers": headers, "state": dict(scope.get("state", {}))}
