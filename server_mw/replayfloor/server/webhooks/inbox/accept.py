"""Stores an event and acknowledges it, in the place of the application. For both interfaces.

It is called as the application would be, under the event's claim, in an atomic exchange: so the row
of the inbox and the receipt that acknowledges it are one commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

from starlette.types import Receive, Scope, Send

from replayfloor.core.fingerprint import ReceiptId
from replayfloor.core.message import Response
from replayfloor.server.claim import ActiveClaim, AsyncActiveClaim, BaseClaim
from replayfloor.server.flow import Delivered
from replayfloor.server.sealing import Sealer
from replayfloor.server.stores.inbox_put import put, put_async
from replayfloor.server.webhooks.delivery import Delivery
from replayfloor.server.webhooks.inbox.request import StoredRequest, of_environ, of_scope
from replayfloor.server.webhooks.inbox.values import InboxItem
from replayfloor.server.webhooks.key import WebhookKey
from replayfloor.server.wsgi_body import send as begin
from replayfloor.server.wsgi_capture import StartResponse

ACCEPTED: Final = Response(202, ((b"content-type", b"text/plain"),), b"accepted")
"""What the sender gets, and again for every repetition (RFC 9110, 15.3.3: taken, not done yet)."""


class InboxWriter:
    """Makes the writers of one middleware's events."""

    def __init__(self, namespace: str, sealer: Sealer) -> None:
        """Write in a namespace; `sealer` is the middleware's, and seals the stored requests too."""
        self._namespace, self._sealer = namespace, sealer

    def asgi(self, hook: WebhookKey, delivery: Delivery, delivered: Delivered) -> AsyncAccept:
        """Return the ASGI application that stores this event and answers 202."""
        return AsyncAccept(self, hook, delivery, delivered)

    def wsgi(self, hook: WebhookKey, delivery: Delivery, delivered: Delivered) -> Accept:
        """Return the WSGI application that stores this event and answers 202."""
        return Accept(self, hook, delivery, delivered)

    async def write_async(self, claim: AsyncActiveClaim, item: InboxItem) -> None:
        """Insert the event in the claim's transaction. Errors of the database pass through."""
        await put_async(claim.connection, item, self._sealer)

    def write(self, claim: ActiveClaim, item: InboxItem) -> None:
        """Insert the event in the claim's transaction. Errors of the database pass through."""
        put(claim.connection, item, self._sealer)

    def item(
        self,
        hook: WebhookKey,
        delivery: Delivery,
        delivered: Delivered,
        claim: BaseClaim,
        request: StoredRequest,
    ) -> InboxItem:
        """Return what is stored of an event."""
        event = delivered.event
        return InboxItem(
            id=ReceiptId(bytes.fromhex(claim.id)),
            namespace=self._namespace,
            source=delivered.source,
            endpoint=hook.endpoint or delivery.path.decode("latin-1"),
            event_id=event.id,
            subject=event.subject,
            ordered=hook.ordered,
            occurred_ms=event.occurred_ms,
            past_horizon=claim.past_horizon,
            request=request,
        )


class _Accepting:
    def __init__(
        self, writer: InboxWriter, hook: WebhookKey, delivery: Delivery, delivered: Delivered
    ) -> None:
        """Belong to one event."""
        self._writer, self._hook = writer, hook
        self._delivery, self._delivered = delivery, delivered

    @property
    def _body(self) -> bytes:
        body = self._delivered.event.body
        return self._delivery.body if body is None else body

    def _item(self, claim: BaseClaim, request: StoredRequest) -> InboxItem:
        return self._writer.item(self._hook, self._delivery, self._delivered, claim, request)


class AsyncAccept(_Accepting):
    """An ASGI application for one event."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Store the event and answer 202; the commit is whoever's who called."""
        del receive
        claim: AsyncActiveClaim = scope["state"]["idempotency"]
        item = self._item(claim, of_scope(scope, self._body))
        await self._writer.write_async(claim, item)
        length = (b"content-length", str(len(ACCEPTED.body)).encode())
        start = {"status": ACCEPTED.status, "headers": [*ACCEPTED.headers, length]}
        await send({"type": "http.response.start", **start})
        await send({"type": "http.response.body", "body": ACCEPTED.body})


class Accept(_Accepting):
    """A WSGI application for one event."""

    def __call__(
        self, environ: dict[str, object], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Store the event and answer 202; the commit is whoever's who called."""
        claim = cast("ActiveClaim", environ["replayfloor.claim"])
        item = self._item(claim, of_environ(environ, self._body))
        self._writer.write(claim, item)
        return begin(ACCEPTED, (), start_response)
