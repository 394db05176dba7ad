"""The WSGI middleware: which requests are protected, and the life of the stores.

Everything about one request is in `wsgi_exchange.py`; what is decided is in the flow, the same as
for ASGI.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Unpack

from replayfloor.core.claims import FENCE_BYTES, Fence
from replayfloor.core.errors import ConfigurationError
from replayfloor.server import clock
from replayfloor.server.declaring import DeclaringReceipts
from replayfloor.server.decorator import WsgiEndpoints, mounted
from replayfloor.server.docs import describe, endpoints_of
from replayfloor.server.events import EventKind, ServerEvent
from replayfloor.server.flow import Call, Delivered
from replayfloor.server.keeper import Alarm
from replayfloor.server.locks import Lock, open_lock
from replayfloor.server.options import MiddlewareOptions
from replayfloor.server.perform import Stores
from replayfloor.server.perform_common import emit
from replayfloor.server.policy import Options
from replayfloor.server.requests import first_sent_ms, owner
from replayfloor.server.settings import Stores as AnyStores
from replayfloor.server.settings import build, instance
from replayfloor.server.stores import Receipts, open_receipts
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
from replayfloor.server.wsgi_body import native
from replayfloor.server.wsgi_capture import ExcInfo, HeaderList, StartResponse, Write
from replayfloor.server.wsgi_delivery import DeliveryExchange
from replayfloor.server.wsgi_exchange import Environ, Exchange, WSGIApp

if TYPE_CHECKING:
    # It needs the driver of Postgres, which who has SQLite does not.
    from replayfloor.server.webhooks.inbox.workers import InboxWorkers

WSGIPrincipal = Callable[[Environ], str]


class WSGIIdempotencyMiddleware:
    """Make the writes of a WSGI application safe to retry (Idempotency-Key, draft -07).

    Args:
        app: the application to protect. Mount authentication outside of this middleware, so that
            `principal` can tell the owner of a key.
        receipts: `postgresql://…`, `sqlite:///path`, or a store.
        lock: `"local"`, `redis://…`, or a lock. Its loss never causes a second execution.
        principal: a function on the WSGI environ that returns who the key belongs to (an account
            or tenant, not a credential that is rotated), or None if there is only one owner.
        options: see MiddlewareOptions.

    A handler finds its claim at `environ["replayfloor.claim"]`. Raises ConfigurationError for
    options that cannot be honoured. The stores are opened with the first keyed request of each
    process, so that a server may fork before; `open` does it earlier.
    """

    def __init__(
        self,
        app: WSGIApp,
        *,
        receipts: str | Receipts,
        lock: str | Lock = "local",
        principal: WSGIPrincipal | None,
        **options: Unpack[MiddlewareOptions],
    ) -> None:
        """See the class."""
        if principal is not None and not callable(principal):
            raise ConfigurationError(
                "principal: expected a function on the WSGI environ, or None if one owns all keys"
            )
        self._app = app
        self._principal = principal
        self.settings = build(options)
        self._stores: Stores = AnyStores(
            self._declaring(instance("receipts", receipts, "claim", open_receipts, blocks=True)),
            instance("lock", lock, "acquire", open_lock, blocks=True),
        )
        maintain = self.settings.maintain
        self._maintenance = (
            None if maintain is None else maintain.of(receipts, self.settings.on_event)
        )
        self._endpoints = WsgiEndpoints(app)
        self._alarm = Alarm()
        self._inbox = InboxWriter(self.settings.namespace, self.settings.sealer)
        self._of_receipts: object = receipts
        # Made in any case where there is an inbox: it refuses receipts that can have none.
        made = self.inbox_workers() if fills_inbox(self.settings) else None
        self._workers = made if self.settings.inbox_workers else None

    def inbox_workers(self, *, workers: int | None = None) -> InboxWorkers:
        """Return workers for the events that were acknowledged first; they are not started.

        Raises ConfigurationError for receipts that are not in Postgres, or not given as a URL.
        """
        from replayfloor.server.webhooks.inbox.workers import InboxWorkers

        return InboxWorkers(
            self._of_receipts,
            self._app,
            partial(effects_of, self.settings.routes),
            **worker_options(self.settings, workers),
        )

    def _declaring(self, receipts: Receipts) -> Receipts:
        declaration = self.settings.declaration
        if declaration is None:
            return receipts
        return DeclaringReceipts(receipts, declaration, self._tell_change)

    def _tell_change(self, words: str) -> None:
        emit(self.settings, ServerEvent(EventKind.POLICY_CHANGED, "", words))

    def open(self) -> None:
        """Connect now, after the server has forked.

        Raises SchemaMissing, StoreUnavailable; RetentionTooShort if the database was told of a
        longer retention than this one.
        """
        self._stores.receipts.open()
        if self._maintenance is not None:
            self._maintenance.start()
        if self._workers is not None:
            self._workers.start()

    def close(self) -> None:
        """Give every connection back; the next keyed request opens them again."""
        if self._workers is not None:
            self._workers.stop()
        if self._maintenance is not None:
            self._maintenance.stop()
        self._stores.lock.close()
        self._stores.receipts.close()

    @property
    def deliveries(self) -> tuple[SourceCounts, ...]:
        """What each source of webhooks has delivered to this process."""
        return self.settings.counts.report()

    def describe(self) -> str:
        """Return, as text to print, which requests are protected, how, and what is stored."""
        return describe(self.settings, endpoints_of(self._app))

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Serve one request."""
        # Frameworks serve "post" as POST, and so must not be reached past us by it.
        method = str(environ["REQUEST_METHOD"]).upper()
        if self._endpoints.none_decorated:
            options = self.settings.routes.find(method, route_path(environ))
            if options is None:
                return self._app(environ, start_response)
            return self._protect(environ, start_response, options)
        lookup = self._endpoints.lookup(environ)
        options = self.settings.routes.find(method, route_path(environ), lookup)
        with mounted(lookup):
            if options is None:
                return self._app(environ, start_response)
            return self._protect(environ, start_response, options)

    def _protect(
        self, environ: Environ, start_response: StartResponse, options: Options
    ) -> Iterable[bytes]:
        if self._maintenance is not None:
            # Here and not at construction: a server may fork in between.
            self._maintenance.start()
        if options.webhook is not None:
            if self._workers is not None:
                self._workers.start()
            delivery = DeliveryExchange(
                self.settings, options, options.webhook, environ, self._exchange
            )
            return delivery.run(partial(self._app_of, options.webhook), start_response)
        key = environ.get("HTTP_IDEMPOTENCY_KEY")
        # A server joins several lines with commas, and what comes of that is no key.
        key_lines = () if key is None else (str(key).encode("latin-1"),)
        first_sent = str(environ.get("HTTP_REPEATABILITY_FIRST_SENT", "")).encode("latin-1")
        call = Call(
            key_lines=key_lines,
            namespace=self.settings.namespace,
            # Not asked without a key: a login, say, has no owner yet.
            principal=self._owner(environ) if key_lines else None,
            fence=Fence(secrets.token_bytes(FENCE_BYTES)),
            now_ms=clock.wall_ms(),
            first_sent_ms=first_sent_ms(first_sent),
        )
        if not key_lines and not options.required:
            start_response = self._advertising(start_response)
        return self._exchange(options, environ).run(self._app, call, start_response)

    def _app_of(self, hook: WebhookKey, delivery: Delivery, delivered: Delivered) -> WSGIApp:
        """Return what is called for an event: the application, or what fills its inbox.

        A handshake asks for an answer of the application's, and tells of nothing to be applied.
        """
        if hook.ack == "first" and not is_handshake(delivered.event):
            return self._inbox.wsgi(hook, delivery, delivered)
        return self._app

    def _exchange(self, options: Options, environ: Environ) -> Exchange:
        return Exchange(self.settings, self._stores, options, self._alarm, environ)

    def _advertising(self, start_response: StartResponse) -> StartResponse:
        """Let an answer to a request without a key say how long a key would live here."""
        lifetime = native(self.settings.lifetime_headers)
        if not lifetime:
            return start_response

        def start(status: str, headers: HeaderList, exc_info: ExcInfo | None = None, /) -> Write:
            # Only with an exception: not every server takes None for it.
            passed = () if exc_info is None else (exc_info,)
            return start_response(status, [*headers, *lifetime], *passed)

        return start

    def _owner(self, environ: Environ) -> str | None:
        return None if self._principal is None else owner(self._principal(environ))


def route_path(environ: Environ) -> str:
    """Return the path a route pattern is compared with: decoded, below the mount point."""
    return str(environ.get("PATH_INFO", "")).encode("latin-1").decode("utf-8", "replace")
