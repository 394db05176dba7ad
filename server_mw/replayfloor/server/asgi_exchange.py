"""One keyed request over ASGI, from admission to answer. One object per request.

The application is called in the caller's own task, and the end of its answer is handled inside its
`send`: so its context variables and its cancellation are what they are without us, and what it
does after its answer (background tasks) neither delays nor changes anything.
"""

from __future__ import annotations

from typing import assert_never

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from replayfloor.core.errors import UsageError
from replayfloor.core.message import Headers, Response
from replayfloor.core.values import frozen
from replayfloor.server.asgi_capture import Capture, without_body_extensions
from replayfloor.server.claim import AsyncActiveClaim
from replayfloor.server.events import EventKind
from replayfloor.server.flow import (
    Admitted,
    Answer,
    Answered,
    Call,
    Exposed,
    Gone,
    Recorded,
    Refused,
    Replayed,
    Unprotected,
    admit,
    fail,
    period_ms,
    renew,
    settle,
    told,
)
from replayfloor.server.keeper_async import AsyncAlarm, AsyncLeaseKeeper
from replayfloor.server.perform_async import AsyncPerformer, AsyncStores
from replayfloor.server.perform_common import BODYLESS, REPLAYED, UNPROTECTED, emit
from replayfloor.server.policy import Options
from replayfloor.server.settings import Settings


@frozen
class Connection:
    """The ASGI triple of one request."""

    scope: Scope
    receive: Receive
    send: Send


class Exchange:
    """Takes one request through admission, the application, and settlement."""

    __slots__ = (
        "_alarm",
        "_claim",
        "_connection",
        "_keeper",
        "_options",
        "_performer",
        "_settings",
    )

    def __init__(
        self,
        settings: Settings,
        stores: AsyncStores,
        alarm: AsyncAlarm,
        options: Options,
        connection: Connection,
    ) -> None:
        """Belong to one request."""
        self._settings, self._options, self._connection = settings, options, connection
        self._alarm = alarm
        self._performer = AsyncPerformer(settings, stores, connection.scope, connection.receive)
        self._keeper: AsyncLeaseKeeper | None = None
        self._claim: AsyncActiveClaim | None = None

    def use_body(self, data: bytes) -> None:
        """Give the application this body: the request's own was read before."""
        self._performer.use_body(data)

    async def run(self, app: ASGIApp, call: Call) -> None:
        """Answer the request, calling `app` at most once."""
        try:
            # Not in a method of its own: a request waits in every coroutine that is around it.
            admission = await self._performer.drive(admit(call, self._options))
            match admission:
                case Admitted():
                    await self._execute(app, admission)
                case Refused() | Replayed() | Recorded():
                    await self._answer(admission)
                case Unprotected():
                    await app(*self._plain())
                case Exposed():
                    await app(self._connection.scope, self._replaying_receive(), self._send_exposed)
                case Gone():
                    pass
                case _:
                    assert_never(admission)
        finally:
            self._performer.close()
            # It refers to this object: a circle, which only the garbage collector would end.
            self._keeper = None

    def _plain(self) -> tuple[Scope, Receive, Send]:
        return self._connection.scope, self._connection.receive, self._connection.send

    # -- the application --------------------------------------------------------------------------

    async def _execute(self, app: ASGIApp, admitted: Admitted) -> None:
        limits = (self._settings.response_bytes_max, self._settings.response_headers_max)
        held = _HeldAnswer(self, admitted, Capture(*limits))
        performer = self._performer
        claim = AsyncActiveClaim(
            admitted, self._options, performer.lease, performer.transaction, performer.finish_in
        )
        self._claim = claim
        self._keeper = AsyncLeaseKeeper(
            self._alarm,
            period_ms(self._options) / 1000,
            lambda: self._performer.drive(renew(admitted, self._options)),
            claim.lose,
        )
        try:
            await app(self._scope_with(claim), self._replaying_receive(), held.send)
            if not held.settled:
                raise UsageError("the application returned without a complete answer")
        except BaseException as error:
            # After the answer was settled, a failure is the application's own affair.
            if not held.settled:
                self._stop_renewing(admitted)
                await self._performer.drive_shielded(
                    fail(admitted, self._options, error, claim.recorded)
                )
            raise

    def _scope_with(self, claim: AsyncActiveClaim) -> Scope:
        """Add to the scope in place: what the application notes there is read around us."""
        scope = self._connection.scope
        scope.setdefault("state", {})["idempotency"] = claim
        scope["extensions"] = without_body_extensions(scope.get("extensions"))
        return scope

    def _replaying_receive(self) -> Receive:
        messages = self._performer.body_messages()

        async def receive() -> Message:
            message = await messages()
            return await self._connection.receive() if message is None else message

        return receive

    async def _send_exposed(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ()), UNPROTECTED]
            message = {**message, "headers": headers}
        await self._connection.send(message)

    def _stop_renewing(self, admitted: Admitted) -> None:
        if self._keeper is not None:
            self._keeper.stop()
        if self._performer.lease.end():
            emit(self._settings, told(admitted, EventKind.LEASE_LOST))

    async def settle(self, admitted: Admitted, capture: Capture) -> bool:
        """Store or free, then send; say whether the application's further messages go out."""
        self._stop_renewing(admitted)
        captured = capture.captured(self._claim.recorded if self._claim else None)
        answer = await self._performer.drive(settle(admitted, captured, self._options))
        if not isinstance(answer, Answered):
            await self._answer(answer)
            return False
        for message in capture.messages:
            await self._connection.send(self._with_lifetime(message))
        return True

    async def pass_on(self, message: Message) -> None:
        """Send a message of the application as it is."""
        await self._connection.send(message)

    # -- answers ----------------------------------------------------------------------------------

    async def _answer(self, answer: Answer) -> None:
        send, extra = self._connection.send, self._settings.lifetime_headers
        match answer:
            case Replayed(receipt):
                await send_response(send, receipt.response, (*extra, REPLAYED))
            case Refused(problem):
                await send_response(send, problem.to_response(self._options.documentation), extra)
            case Recorded(receipt):
                await send_response(send, receipt.response, extra)
            case Answered() | Gone() | Unprotected() | Exposed():
                pass
            case _:
                assert_never(answer)

    def _with_lifetime(self, message: Message) -> Message:
        extra = self._settings.lifetime_headers
        if not extra or message["type"] != "http.response.start":
            return message
        return {**message, "headers": [*message.get("headers", ()), *extra]}


async def send_response(send: Send, response: Response, extra: Headers) -> None:
    """Send an answer of ours."""
    headers = [*response.headers, *extra]
    if response.status not in BODYLESS:
        headers.append((b"content-length", str(len(response.body)).encode()))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})


class _HeldAnswer:
    """The application's `send`: holds messages back, settles once, then lets them through."""

    __slots__ = ("_admitted", "_capture", "_exchange", "_passes", "settled")

    def __init__(self, exchange: Exchange, admitted: Admitted, capture: Capture) -> None:
        self._exchange, self._admitted, self._capture = exchange, admitted, capture
        self.settled = False
        self._passes = False

    async def send(self, message: Message) -> None:
        if self.settled:
            if self._passes:
                await self._exchange.pass_on(message)
        elif self._capture.add(message):
            # Set first: if settling fails, it has done its own cleanup, and the failure that now
            # rises through the application must not be taken for one of the application's.
            self.settled = True
            self._passes = await self._exchange.settle(self._admitted, self._capture)
