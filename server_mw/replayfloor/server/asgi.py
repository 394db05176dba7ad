"""The ASGI middleware: which requests are protected, and the life of the stores.

Pure ASGI: no request or response object, nothing read that need not be read. Everything about one
request is in `exchange.py`.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from datetime import timedelta

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from replayfloor.core.claims import FENCE_BYTES, Fence
from replayfloor.core.errors import ConfigurationError, StoreUnavailable, UsageError
from replayfloor.core.message import get_all
from replayfloor.core.problem import DOCUMENTATION
from replayfloor.server.exchange import Connection, Exchange
from replayfloor.server.flow import Call
from replayfloor.server.locks import AsyncLock
from replayfloor.server.policy import Options
from replayfloor.server.routes import EffectsOption, Route
from replayfloor.server.settings import (
    BODY_BYTES_MAX,
    RESPONSE_BYTES_MAX,
    Arguments,
    OnEvent,
)
from replayfloor.server.stores import AsyncReceipts

Principal = Callable[[Scope], str]

log = logging.getLogger("replayfloor.server")

KEY_HEADER = b"idempotency-key"

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
        routes: options per route; the first match counts.
        required: whether a request without a key is refused with 400.
        effects: where handlers write. "atomic": in the receipt's own transaction, through
            `request.state.idempotency.connection`. "external": anywhere.
        methods: which methods are protected where no route matches.
        retention: how long receipts are kept, in seconds or as timedelta; advertised in the
            header Idempotency-Key-Lifetime. None: they are kept and nothing is advertised.
        lease_s: how long an execution may take before its key counts as orphaned.
        wait_for_s: how long a duplicate waits for the first answer before it gets the 409.
        namespace: separates the keys of applications that share one store.
        body_bytes_max: largest request body; above it 413, nothing executed.
        response_bytes_max: largest answer kept for a replay; a larger one passes through, and a
            repeated request is told that it was executed.
        accept_unquoted: also take a bare key, as most providers' SDKs send it.
        documentation: the page that problem details link to.
        on_event: called with a ServerEvent for everything that happens to a keyed request.

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
        routes: Sequence[Route] | None = None,
        required: bool = False,
        effects: EffectsOption = "external",
        methods: Sequence[str] = ("POST", "PATCH"),
        retention: timedelta | float | None = None,
        lease_s: float = 30.0,
        wait_for_s: float = 0.0,
        namespace: str = "default",
        body_bytes_max: int = BODY_BYTES_MAX,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
        accept_unquoted: bool = False,
        documentation: str = DOCUMENTATION,
        on_event: OnEvent | None = None,
    ) -> None:
        """See the class."""
        arguments = Arguments(
            receipts=receipts,
            lock=lock,
            routes=routes,
            required=required,
            effects=effects,
            methods=methods,
            retention=retention,
            lease_s=lease_s,
            wait_for_s=wait_for_s,
            namespace=namespace,
            body_bytes_max=body_bytes_max,
            response_bytes_max=response_bytes_max,
            accept_unquoted=accept_unquoted,
            documentation=documentation,
            on_event=on_event,
        )
        if principal is not None and not callable(principal):
            raise ConfigurationError(
                "principal: expected a function on the ASGI scope, or None if one owns all keys"
            )
        self._app = app
        self._principal = principal
        self._settings = arguments.to_settings()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
            return
        options = None
        if scope["type"] == "http":
            options = self._settings.routes.find(scope["method"], route_path(scope))
        if options is None:
            await self._app(scope, receive, send)
            return
        await self._protect(Connection(scope, receive, send), options)

    async def _protect(self, connection: Connection, options: Options) -> None:
        scope = connection.scope
        key_lines = get_all(tuple(scope["headers"]), KEY_HEADER)
        call = Call(
            key_lines=key_lines,
            namespace=self._settings.namespace,
            # Not asked without a key: a login, say, has no owner yet.
            principal=self._owner(scope) if key_lines else None,
            fence=Fence(secrets.token_bytes(FENCE_BYTES)),
        )
        await Exchange(self._settings, options, connection).run(self._app, call)

    def _owner(self, scope: Scope) -> str | None:
        if self._principal is None:
            return None
        # A lookup that finds nobody often returns None, against its annotation. Taken as it is,
        # all such callers would share one owner and see each other's answers.
        owner = self._principal(scope)
        if not isinstance(owner, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(
                f"principal returned {owner!r} for a request; it must name the owner as a string "
                "(refuse unknown callers before this middleware, or pass principal=None)"
            )
        return owner

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Open the stores before the application starts, close them after it has stopped.

        A missing schema, or a store that may not be used, fails the start-up by the message that
        the protocol has for it: servers take an exception here for an application without
        lifespan, and would go on. A database that does not answer is no reason to fail: requests
        are refused with 503 until it does.
        """
        started = await receive()
        try:
            await self._settings.receipts.open()
        except StoreUnavailable as error:
            log.warning("starting without the store: %s", error)
        except Exception as error:
            log.exception("start-up refused")
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return

        unread: Message | None = started

        async def receive_from_start() -> Message:
            nonlocal unread
            message, unread = unread, None
            return await receive() if message is None else message

        async def send_and_close(message: Message) -> None:
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
        await self._settings.lock.close()
        await self._settings.receipts.close()


def route_path(scope: Scope) -> str:
    """Return the path a route pattern is compared with: decoded, below the root path."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path.removeprefix(root) if root and path.startswith(root + "/") else path
