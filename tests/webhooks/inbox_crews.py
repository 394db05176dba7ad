"""Workers of both colours, and the handlers that they call, for the tests of the inbox."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import IO, Literal, TypeAlias, Unpack, cast

from anyio import to_thread
from starlette.types import Message, Receive, Scope, Send

from replayfloor.server import ActiveClaim, AsyncActiveClaim, ServerEvent
from replayfloor.server.claim import BaseClaim
from replayfloor.server.events import EventKind
from replayfloor.server.policy import Effects
from replayfloor.server.webhooks.inbox.options import WorkerOptions
from replayfloor.server.webhooks.inbox.values import InboxItem
from replayfloor.server.webhooks.inbox.workers import InboxWorkers
from replayfloor.server.webhooks.inbox.workers_async import AsyncInboxWorkers
from replayfloor.testing.inbox_subject import REQUEST
from replayfloor.testing.inbox_subject import item as any_item
from webhooks.inboxes import INSERT, Database, until

Side: TypeAlias = Literal["asgi", "wsgi"]
AnyWorkers: TypeAlias = AsyncInboxWorkers | InboxWorkers

FAST: WorkerOptions = {"backoff_first_s": 0.0, "backoff_longest_s": 0.0, "poll_s": 0.05}
"""Options with which a test does not wait."""


def item(event_id: str, *, subject: str | None = None) -> InboxItem:
    """Return an event whose body tells its id."""
    request = replace(REQUEST, body=json.dumps({"id": event_id}).encode())
    made = any_item(event_id, subject=subject, namespace="default")
    return replace(made, request=request)


def succeed(_event_id: str, _claim: BaseClaim) -> int:
    """Answer 200."""
    return 200


class Gate:
    """Holds handlers until it is opened."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()

    def __call__(self, _event_id: str, _claim: BaseClaim) -> int:
        self.entered.set()
        assert self.opened.wait(20)
        return 200


@dataclass
class Handler:
    """An application for both interfaces: writes the event's id into the ledger.

    Attributes:
        before, after: called before and after the write, in a thread; the status is the latter's.
    """

    database: Database
    effects: Effects = Effects.ATOMIC
    before: Callable[[str, BaseClaim], object] = succeed
    after: Callable[[str, BaseClaim], int] = succeed
    run: str = "worker"
    called: list[str] = field(default_factory=list)
    claims: list[BaseClaim] = field(default_factory=list)
    events: list[ServerEvent] = field(default_factory=list)

    def kinds(self, kind: EventKind) -> int:
        """How often a kind of event was told."""
        return sum(each.kind is kind for each in self.events)

    async def asgi(self, scope: Scope, receive: Receive, send: Send) -> None:
        event_id = json.loads((await receive())["body"])["id"]
        claim: AsyncActiveClaim = scope["state"]["idempotency"]
        self._note(event_id, claim)
        await to_thread.run_sync(self.before, event_id, claim)
        if self.effects is Effects.ATOMIC:
            await claim.connection.execute(INSERT, (event_id, self.run))
        else:
            await to_thread.run_sync(self.database.write, event_id, self.run)
        status = await to_thread.run_sync(self.after, event_id, claim)
        start: Message = {"type": "http.response.start", "status": status, "headers": []}
        await send(start)
        await send({"type": "http.response.body", "body": b"applied"})

    def wsgi(
        self, environ: dict[str, object], start_response: Callable[..., object]
    ) -> Iterable[bytes]:
        event_id = json.loads(cast("IO[bytes]", environ["wsgi.input"]).read())["id"]
        claim = cast("ActiveClaim", environ["replayfloor.claim"])
        self._note(event_id, claim)
        self.before(event_id, claim)
        if self.effects is Effects.ATOMIC:
            claim.connection.execute(INSERT, (event_id, self.run))
        else:
            self.database.write(event_id, self.run)
        start_response(f"{self.after(event_id, claim)} Answer", [])
        return [b"applied"]

    def _note(self, event_id: str, claim: BaseClaim) -> None:
        self.called.append(event_id)
        self.claims.append(claim)


@dataclass(frozen=True)
class Crew:
    """Workers that run."""

    workers: AnyWorkers

    async def stop(self, grace_s: float = 20.0) -> bool:
        """Stop them; say whether they ended in time."""
        if isinstance(self.workers, AsyncInboxWorkers):
            return await self.workers.stop(grace_s)
        return await to_thread.run_sync(self.workers.stop, grace_s)


@asynccontextmanager
async def crew(
    side: Side, handler: Handler, **options: Unpack[WorkerOptions]
) -> AsyncGenerator[Crew]:
    """Run workers of one process for a handler."""
    url, effects_of = handler.database.url, _constantly(handler.effects)
    asked: WorkerOptions = {"on_event": handler.events.append, **FAST, **options}
    workers: AnyWorkers
    if side == "asgi":
        workers = AsyncInboxWorkers(url, handler.asgi, effects_of, **asked)
        await workers.start()
    else:
        workers = InboxWorkers(url, handler.wsgi, effects_of, **asked)
        await to_thread.run_sync(workers.start)
    made = Crew(workers)
    try:
        yield made
    finally:
        await made.stop(5.0)


def _constantly(effects: Effects) -> Callable[[InboxItem], Effects]:
    return lambda _item: effects


async def until_empty(database: Database) -> None:
    """Wait until nothing is left in the inbox."""
    await until(lambda: not database.left())


async def until_told(handler: Handler, kind: EventKind, times: int = 1) -> None:
    """Wait until a kind of event was told so often."""
    await until(lambda: handler.kinds(kind) >= times)
