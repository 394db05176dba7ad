"""One delivery of a webhook over WSGI: read, verified, and its events handed on one by one.

The same as `asgi_delivery.py`, blocking; see there for what becomes of several events.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable
from typing import assert_never

from replayfloor.core.claims import FENCE_BYTES, Fence
from replayfloor.core.drivers import run
from replayfloor.core.effects import Effect
from replayfloor.core.message import Response
from replayfloor.server import clock
from replayfloor.server.body_rules import body_rule
from replayfloor.server.body_target import wsgi_head
from replayfloor.server.effects import (
    BodyTooLarge,
    ClientGone,
    DeliveryAnswer,
    DeliveryRead,
    Emit,
    ReadDelivery,
    ReadRequest,
    Verify,
)
from replayfloor.server.flow import Call, Delivered, Gone, Received, Refused, receive
from replayfloor.server.perform_common import emit
from replayfloor.server.policy import Options
from replayfloor.server.settings import Settings
from replayfloor.server.webhooks.answers import NOTHING_TOLD, weight
from replayfloor.server.webhooks.delivery import Delivery
from replayfloor.server.webhooks.key import WebhookKey, require_verified
from replayfloor.server.wsgi_body import close_iterable, send
from replayfloor.server.wsgi_capture import ExcInfo, HeaderList, StartResponse, Write
from replayfloor.server.wsgi_exchange import INCOMPLETE, Environ, Exchange, WSGIApp
from replayfloor.server.wsgi_request import WSGIRequest

OpenExchange = Callable[[Options, Environ], Exchange]
"""Makes the exchange of one event, on the middleware's stores."""

AppOf = Callable[[Delivery, Delivered], WSGIApp]
"""Chooses what is called for an event: the application, or the writer of the inbox."""

NOT_COUNTED = body_rule(fingerprint="off", exclude=())
"""The body is no part of the key: nothing is to be made of it while it is read."""

log = logging.getLogger("replayfloor.server")


class DeliveryExchange:
    """Takes one delivery from its bytes to its answer. One object per request."""

    def __init__(
        self,
        settings: Settings,
        options: Options,
        hook: WebhookKey,
        environ: Environ,
        open_exchange: OpenExchange,
    ) -> None:
        """Belong to one request."""
        self._settings, self._options, self._hook = settings, options, hook
        self._environ = environ
        self._open = open_exchange

    def run(self, app_of: AppOf, start_response: StartResponse) -> Iterable[bytes]:
        """Answer the delivery, calling the application at most once for each event."""
        received = run(receive(self._hook), self._perform)
        lifetime = self._settings.lifetime_headers
        match received:
            case Gone():
                return send(INCOMPLETE, (), start_response)
            case Refused(problem):
                response: Response = problem.to_response(self._options.documentation)
                return send(response, lifetime, start_response)
            case Received(_, ()):
                return send(NOTHING_TOLD, lifetime, start_response)
            case Received(delivery, (delivered,)) if delivered.event.body is None:
                return self._hand_on(app_of, delivery, delivered, self._environ, start_response)
            case Received(delivery, events):
                return self._hand_on_each(app_of, delivery, events, start_response)
            case _:
                assert_never(received)

    # -- the events -------------------------------------------------------------------------------

    def _hand_on(
        self,
        app_of: AppOf,
        delivery: Delivery,
        delivered: Delivered,
        environ: Environ,
        start_response: StartResponse,
    ) -> Iterable[bytes]:
        exchange = self._open(self._options, environ)
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
        return exchange.run(app_of(delivery, delivered), call, start_response)

    def _hand_on_each(
        self,
        app_of: AppOf,
        delivery: Delivery,
        events: tuple[Delivered, ...],
        start_response: StartResponse,
    ) -> Iterable[bytes]:
        """Hand every event on, whatever becomes of the others, and answer for all of them."""
        chosen: _KeptAnswer | None = None
        failure: Exception | None = None
        for delivered in events:
            kept = _KeptAnswer()
            try:
                environ = dict(self._environ)
                kept.take(self._hand_on(app_of, delivery, delivered, environ, kept.start))
            except Exception as error:
                log.exception("an event of %s failed", delivered.source)
                # After the answer, it is the application's own affair.
                failure = failure or (None if kept.complete else error)
            if kept.status and (chosen is None or weight(kept.code) > weight(chosen.code)):
                chosen = kept
        if failure is not None:
            raise failure
        if chosen is None:
            raise TypeError("an application returned without having begun its answer")
        start_response(chosen.status, chosen.headers)
        return chosen.chunks

    # -- effects ----------------------------------------------------------------------------------

    def _perform(self, effect: Effect[object]) -> object:
        match effect:
            case ReadDelivery():
                return self._read()
            case Verify(verifier, delivery):
                require_verified(verifier, delivery)
                return None
            case Emit(event):
                emit(self._settings, event)
                return None
            case _:
                raise TypeError(f"the server flow asked for {effect!r}")

    def _read(self) -> DeliveryAnswer:
        request = WSGIRequest(self._environ, self._settings.body_bytes_max)
        try:
            read = request.read(ReadRequest(NOT_COUNTED))
            match read:
                case BodyTooLarge() | ClientGone():
                    return read
                case _:
                    body = request.whole()
        finally:
            request.close()
        head = wsgi_head(self._environ)
        return DeliveryRead(
            Delivery(head.method, head.path, head.query, head.headers, body, clock.wall_ms())
        )


class _KeptAnswer:
    """The answer to one event of several, kept until it is known which one is sent."""

    def __init__(self) -> None:
        self.status = ""
        self.headers: HeaderList = []
        self.chunks: list[bytes] = []
        self.complete = False

    @property
    def code(self) -> int:
        return int(self.status[:3])

    def start(self, status: str, headers: HeaderList, exc_info: ExcInfo | None = None, /) -> Write:
        del exc_info
        self.status, self.headers = status, headers
        return self.chunks.append

    def take(self, produced: Iterable[bytes]) -> None:
        """Take what an application returned, to its end, and close it."""
        try:
            self.chunks.extend(produced)
            self.complete = True
        finally:
            close_iterable(produced)
