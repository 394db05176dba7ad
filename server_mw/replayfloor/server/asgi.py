"""The ASGI middleware: which requests are protected, and the life of the stores.

Pure ASGI: no request or response object, nothing read that need not be read. Everything about one
request is in `exchange.py`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Unpack

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from replayfloor.core.claims import FENCE_BYTES, Fence
from replayfloor.core.errors import ConfigurationError, StoreUnavailable
from replayfloor.core.message import get_all, get_first
from replayfloor.server import clock
from replayfloor.server.asgi_delivery import DeliveryExchange
from replayfloor.server.asgi_exchange import Connection, Exchange
from replayfloor.server.declaring import AsyncDeclaringReceipts
from replayfloor.server.decorator import AsgiEndpoints, mounted
from replayfloor.server.docs import describe, endpoints_of
from replayfloor.server.events import EventKind, ServerEvent
from replayfloor.server.flow import Call, Delivered
from replayfloor.server.keeper_async import AsyncAlarm
from replayfloor.server.locks import AsyncLock, open_async_lock
from replayfloor.server.maintenance import AsyncMaintenance
from replayfloor.server.options import MiddlewareOptions
from replayfloor.server.perform_async import CLEANUP_S, AsyncStores
from replayfloor.server.perform_common import emit
from replayfloor.server.policy import Options
from replayfloor.server.requests import (
    FIRST_SENT_HEADER,
    KEY_HEADER,
    below,
    first_sent_ms,
    owner,
)
from replayfloor.server.settings import Stores, build, instance
from replayfloor.server.stores import AsyncReceipts, open_async_receipts
from replayfloor.server.webhooks.counts import SourceCounts
from replayfloor.server.webhooks.delivery import Delivery
from replayfloor.server.webhooks.inbox.accept import InboxWriter
from replayfloor.server.webhooks.inbox.middleware import (
    effects_of,
    fills_inbox,
    worker_options,
)
from replayfloor.server.webhooks.key import WebhookKey
from replayfloor.server.webhooks.source import is_handshake

if TYPE_CHECKING:
    # It needs the driver of Postgres, which who has SQLite does not.
    from replayfloor.server.webhooks.inbox.workers_async import AsyncInboxWorkers

Principal = Callable[[Scope], str]

log = logging.getLogger("replayfloor.server")

CLOSING = frozenset(
    {"lifespan.startup.failed", "lifespan.shutdown.complete", "lifespan.shutdown.failed"}
)
"""Messages after which the application serves no more."""


class IdempotencyMiddleware:
    """Make the writes of an ASGI application safe to retry (Idempotency-Key, draft -07).

    Args:
        app: the application to protect. Mount authentication outside of this middleware, so that
            `principal` can tell the owner of a key.
        receipts: `postgresql://…`, `sqlite:///path`, or a store.
        lock: `"local"`, `redis://…`, or a lock. Its loss never causes a second execution.
        principal: a function on the ASGI scope that returns who the key belongs to (an account
            or tenant, not a credential that is rotated), or None if there is only one owner.
        options: see MiddlewareOptions.

    Raises ConfigurationError for options that cannot be honoured. Nothing is connected before the
    lifespan starts (or the first keyed request, if the server has no lifespan).
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        receipts: str | AsyncReceipts,
        lock: str | AsyncLock = "local",
        principal: Principal | None,
        **options: Unpack[MiddlewareOptions],
    ) -> None:
        """See the class."""
        if principal is not None and not callable(principal):
            raise ConfigurationError(
                "principal: expected a function on the ASGI scope, or None if one owns all keys"
            )
        self._app = app
        self._principal = principal
        self.settings = build(options)
        self._stores: AsyncStores = Stores(
            self._declaring(instance("receipts", receipts, "claim", open_async_receipts)),
            instance("lock", lock, "acquire", open_async_lock),
        )
        maintain = self.settings.maintain
        self._maintenance = (
            None
            if maintain is None
            else AsyncMaintenance(maintain.of(receipts, self.settings.on_event))
        )
        self._endpoints = AsgiEndpoints(app)
        self._alarm = AsyncAlarm()
        self._inbox = InboxWriter(self.settings.namespace, self.settings.sealer)
        self._of_receipts: object = receipts
        # Made in any case where there is an inbox: it refuses receipts that can have none.
        made = self.inbox_workers() if fills_inbox(self.settings) else None
        self._workers = made if self.settings.inbox_workers else None
        self._under_way = 0
        self._settled: anyio.Event | None = None

    def inbox_workers(self, *, workers: int | None = None) -> AsyncInboxWorkers:
        """Return workers for the events that were acknowledged first; they are not started.

        Raises ConfigurationError for receipts that are not in Postgres, or not given as a URL.
        """
        from replayfloor.server.webhooks.inbox.workers_async import AsyncInboxWorkers

        return AsyncInboxWorkers(
            self._of_receipts,
            self._app,
            partial(effects_of, self.settings.routes),
            **worker_options(self.settings, workers),
        )

    def _declaring(self, receipts: AsyncReceipts) -> AsyncReceipts:
        declaration = self.settings.declaration
        if declaration is None:
            return receipts
        return AsyncDeclaringReceipts(receipts, declaration, self._tell_change)

    def _tell_change(self, words: str) -> None:
        emit(self.settings, ServerEvent(EventKind.POLICY_CHANGED, "", words))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        kind, routes = scope["type"], self.settings.routes
        if kind == "http" and self._endpoints.none_decorated:
            options = routes.find(scope["method"], route_path(scope))
            await self._serve(scope, receive, send, options)
            return
        if kind == "lifespan":
            await self._lifespan(scope, receive, send)
            return
        is_http = kind == "http"
        lookup = self._endpoints.lookup(scope)
        options = routes.find(scope["method"], route_path(scope), lookup) if is_http else None
        with mounted(lookup):
            await self._serve(scope, receive, send, options)

    def _serve(
        self, scope: Scope, receive: Receive, send: Send, options: Options | None
    ) -> Awaitable[None]:
        # Returns what is to be awaited: a request waits in every coroutine that is around it.
        if options is None:
            return self._app(scope, receive, send)
        if options.webhook is not None:
            return self._receive(Connection(scope, receive, send), options, options.webhook)
        key_lines = get_all(scope["headers"], KEY_HEADER)
        if key_lines or options.required:
            return self._protect(Connection(scope, receive, send), options, key_lines)
        # What the flow would say (Unprotected), at the cost of a comparison.
        if self.settings.lifetime_headers:
            send = self._advertising(send)
        return self._app(scope, receive, send)

    def _protect(
        self, connection: Connection, options: Options, key_lines: Sequence[bytes]
    ) -> Awaitable[None]:
        scope = connection.scope
        call = Call(
            key_lines=key_lines,
            namespace=self.settings.namespace,
            # Not asked without a key: a login, say, has no owner yet.
            principal=self._owner(scope) if key_lines else None,
            fence=Fence(os.urandom(FENCE_BYTES)),
            now_ms=clock.wall_ms(),
            first_sent_ms=first_sent_ms(get_first(scope["headers"], FIRST_SENT_HEADER)),
        )
        return self._counted(self._exchange(options, connection).run(self._app, call))

    async def _receive(self, connection: Connection, options: Options, hook: WebhookKey) -> None:
        # Where the server, or the application, has no lifespan.
        await self._start_workers()
        exchange = DeliveryExchange(self.settings, options, hook, connection, self._exchange)
        await self._counted(exchange.run(partial(self._app_of, hook)))

    async def _start_workers(self, state: Mapping[str, object] | None = None) -> None:
        if self._workers is not None:
            await self._workers.start(state)

    async def _stop_workers(self) -> None:
        if self._workers is not None:
            await self._workers.stop()

    def _app_of(self, hook: WebhookKey, delivery: Delivery, delivered: Delivered) -> ASGIApp:
        """Return what is called for an event: the application, or what fills its inbox.

        A handshake asks for an answer of the application's, and tells of nothing to be applied.
        """
        if hook.ack == "first" and not is_handshake(delivered.event):
            return self._inbox.asgi(hook, delivery, delivered)
        return self._app

    def _exchange(self, options: Options, connection: Connection) -> Exchange:
        return Exchange(self.settings, self._stores, self._alarm, options, connection)

    async def _counted(self, answering: Awaitable[None]) -> None:
        self._under_way += 1
        try:
            await answering
        finally:
            self._under_way -= 1
            if self._settled is not None and not self._under_way:
                self._settled.set()

    def _advertising(self, send: Send) -> Send:
        """Let an answer to a request without a key say how long a key would live here."""
        lifetime = self.settings.lifetime_headers

        async def send_with_lifetime(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *lifetime]}
            await send(message)

        return send_with_lifetime

    def _owner(self, scope: Scope) -> str | None:
        return None if self._principal is None else owner(self._principal(scope))

    @property
    def deliveries(self) -> tuple[SourceCounts, ...]:
        """What each source of webhooks has delivered to this process."""
        return self.settings.counts.report()

    def describe(self) -> str:
        """Return, as text to print, which requests are protected, how, and what is stored."""
        return describe(self.settings, endpoints_of(self._app))

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Open the stores before the application starts, close them after it has stopped.

        A missing schema, a store that may not be used, or a retention that is shorter than the one
        the database was told of, fails the start-up by the message that the protocol has for it:
        servers take an exception here for an application without lifespan, and would go on. A
        database that does not answer is no reason to fail: requests are refused with 503 until it
        does.
        """
        started = await receive()
        try:
            await self._stores.receipts.open()
        except StoreUnavailable as error:
            log.warning("starting without the store: %s", error)
        except Exception as error:
            log.exception("start-up refused")
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return

        if self._maintenance is not None:
            await self._maintenance.start()
        unread: Message | None = started

        async def receive_from_start() -> Message:
            nonlocal unread
            message, unread = unread, None
            message = await receive() if message is None else message
            if message["type"] == "lifespan.shutdown":
                # What they apply needs what the application is about to close.
                await self._stop_workers()
            return message

        async def send_and_close(message: Message) -> None:
            if message["type"] == "lifespan.startup.complete":
                await self._start_workers(scope.get("state"))
            if message["type"] in CLOSING:
                await self._close()
            await send(message)

        try:
            await self._app(scope, receive_from_start, send_and_close)
        except BaseException:
            # No lifespan, or a failed one: nobody would close the stores later. They open again
            # with the first request, if there is one.
            await self._close()
            raise

    async def _close(self) -> None:
        # A server that does not wait any longer cancels its requests and shuts down at once, while
        # they are still being settled. Without the stores they would leave their keys taken.
        if self._under_way:
            self._settled = anyio.Event()
            with anyio.move_on_after(CLEANUP_S):
                await self._settled.wait()
        await self._stop_workers()
        if self._maintenance is not None:
            await self._maintenance.stop()
        await self._stores.lock.close()
        await self._stores.receipts.close()


def route_path(scope: Scope) -> str:
    """Return the path a route pattern is compared with: decoded, below the root path."""
    return below(scope.get("root_path", ""), scope["path"])
