"""Applications that write one row into the ledger per execution, and ways to hold them up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import anyio
from starlette.types import Message, Receive, Scope, Send

from server.backends import Backend, EffectsOption, claim_of

Hook = Callable[[], Awaitable[None]]

CREATED: tuple[tuple[bytes, bytes], ...] = (
    (b"content-type", b"application/json"),
    (b"content-length", b"12"),
    (b"location", b"/payments/1"),
)


class Killed(BaseException):
    """What stops a handler from outside, as a cancellation or a signal does."""


async def nothing() -> None:
    """Let the handler go on."""


def raising(error: BaseException) -> Hook:
    """Return a hook that raises."""

    async def hook() -> None:
        raise error

    return hook


@dataclass
class Gate:
    """Holds up whoever passes, the first time only, and tells that somebody is there."""

    entered: anyio.Event = field(default_factory=anyio.Event)
    opened: anyio.Event = field(default_factory=anyio.Event)

    async def __call__(self) -> None:
        """Wait until the gate is opened."""
        if not self.entered.is_set():
            self.entered.set()
            await self.opened.wait()


@dataclass
class LedgerApp:
    """Reads the body, writes a row (in the claim's transaction if `effects` is "atomic"), answers.

    `before` runs ahead of the write and `after` behind it, with the claim held. `bodies` are the
    body messages of the answer; `last` runs when the answer is complete.
    """

    backend: Backend
    effects: EffectsOption = "external"
    status: int = 201
    headers: Sequence[tuple[bytes, bytes]] = CREATED
    bodies: Sequence[bytes] = (b'{"id": "p1"}',)
    before: Hook = nothing
    after: Hook = nothing
    last: Hook = nothing
    bodies_read: list[bytes] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        self.bodies_read.append(await read_body(receive))
        await self.before()
        await self.write(scope)
        await self.after()
        for message in self.messages():
            await send(message)
        await self.last()

    async def write(self, scope: Scope) -> None:
        """Write the row of this execution."""
        ledger = self.backend.ledger
        if self.effects == "atomic" and "idempotency" in scope["state"]:
            await ledger.write_in(claim_of(scope).connection)
        else:
            await anyio.to_thread.run_sync(ledger.write)

    def messages(self) -> list[Message]:
        """Return the messages of the answer."""
        start: Message = {
            "type": "http.response.start",
            "status": self.status,
            "headers": list(self.headers),
        }
        bodies: list[Message] = [
            {"type": "http.response.body", "body": body, "more_body": True} for body in self.bodies
        ]
        return [start, *bodies[:-1], {**bodies[-1], "more_body": False}]


async def read_body(receive: Receive) -> bytes:
    """Read a request body to its end."""
    body, more = b"", True
    while more:
        message = await receive()
        assert message["type"] == "http.request"
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body
