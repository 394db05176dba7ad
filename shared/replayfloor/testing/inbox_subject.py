"""What the contract of an inbox is tested on, and the values that its tests are made of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from secrets import token_bytes
from typing import Protocol, cast

from anyio import to_thread

from replayfloor.core.claims import Fence, Finish, Renew
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.stores import AsyncConnection, AsyncTransaction, Transaction
from replayfloor.server.stores.inbox import AsyncInbox, Inbox
from replayfloor.server.webhooks.inbox.effects import Bury, Done, Later
from replayfloor.server.webhooks.inbox.request import StoredRequest
from replayfloor.server.webhooks.inbox.values import InboxItem, Taken

LONG_MS = 60_000
SHORT_MS = 60
"""A lease that a test waits for."""

AFTER_SHORT_MS = 150

REQUEST = StoredRequest(
    method="POST",
    path=b"/hooks/caf\xc3\xa9",
    query=b"a=%20&a=2",
    headers=(
        (b"content-type", b"application/json"),
        (b"x-twice", b"1"),
        (b"x-twice", b"\xff"),
        (b"content-length", b"15"),
    ),
    body=b'{"id": "evt_1"}',
    target=b"/hooks/caf%C3%A9",
    scheme="https",
    http_version="2",
    client=("192.0.2.1", 4711),
    server=("shop.example", 443),
)


class Putting(Protocol):
    """An event that is put into the inbox by a transaction that is still open."""

    async def commit(self) -> None:
        """Make it be there."""
        ...


@dataclass(frozen=True, slots=True)
class InboxSubject:
    """An inbox to test.

    Attributes:
        inbox: the inbox of NAMESPACE.
        other: a second one on the same data, as another process has it.
        elsewhere: one of another namespace.
        put: puts an event in and commits; says whether it is new.
        putting: puts an event in, and leaves the transaction open; it is rolled back at the end.
        write: writes one effect of a handler in a transaction, given what its `connection` is.
        written: returns the committed effects.
        pass_ms: lets the inbox's time pass.
    """

    inbox: AsyncInbox
    other: AsyncInbox
    elsewhere: AsyncInbox
    put: Callable[[InboxItem], Awaitable[bool]]
    putting: Callable[[InboxItem], AbstractAsyncContextManager[Putting]]
    write: Callable[[AsyncConnection, str], Awaitable[None]]
    written: Callable[[], Awaitable[list[str]]]
    pass_ms: Callable[[int], Awaitable[None]]

    async def take(self, lease_ms: int = LONG_MS) -> Taken | None:
        """Take an event with a new fence."""
        return await self.inbox.take(new_fence(), lease_ms)

    async def taken(self, lease_ms: int = LONG_MS) -> Taken:
        """Take the event that there is."""
        taken = await self.take(lease_ms)
        assert taken is not None
        return taken

    async def abandoned(self) -> Taken:
        """Take the event that there is, and let the lease run out."""
        taken = await self.taken(SHORT_MS)
        await self.pass_ms(AFTER_SHORT_MS)
        return taken


NAMESPACE, ELSEWHERE = "contract", "elsewhere"


def new_fence() -> Fence:
    """Return a fence of one execution."""
    return Fence(token_bytes(16))


def item(
    event_id: str = "evt_1",
    *,
    subject: str | None = None,
    endpoint: str = "/hooks/shop",
    namespace: str = NAMESPACE,
) -> InboxItem:
    """Return an event that no other test has; one with a subject is applied in order."""
    return InboxItem(
        id=ReceiptId(token_bytes(16)),
        namespace=namespace,
        source="shop",
        endpoint=endpoint,
        event_id=event_id,
        subject=subject,
        ordered=subject is not None,
        occurred_ms=1_700_000_000_123,
        past_horizon=False,
        request=replace(REQUEST),
    )


def inbox_in_threads(inbox: Inbox) -> AsyncInbox:
    """Return a blocking inbox in the shape of an asynchronous one."""
    return _Inbox(inbox)


class _Inbox:
    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    async def open(self) -> None:
        await to_thread.run_sync(self._inbox.open)

    async def close(self) -> None:
        await to_thread.run_sync(self._inbox.close)

    async def take(self, fence: Fence, lease_ms: int, *, again: bool = False) -> Taken | None:
        return await to_thread.run_sync(lambda: self._inbox.take(fence, lease_ms, again=again))

    async def renew(self, renew: Renew) -> bool:
        return await to_thread.run_sync(self._inbox.renew, renew)

    async def done(self, done: Done) -> bool:
        return await to_thread.run_sync(self._inbox.done, done)

    async def later(self, later: Later) -> bool:
        return await to_thread.run_sync(self._inbox.later, later)

    async def bury(self, bury: Bury) -> bool:
        return await to_thread.run_sync(self._inbox.bury, bury)

    async def begin(self) -> AsyncTransaction:
        return _Transaction(await to_thread.run_sync(self._inbox.begin))

    async def done_in(self, connection: object, finish: Finish) -> bool:
        return await to_thread.run_sync(self._inbox.done_in, connection, finish)


class _Transaction:
    """Its connection stays the blocking one, which `InboxSubject.write` knows how to use."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    @property
    def connection(self) -> AsyncConnection:
        return cast("AsyncConnection", self._transaction.connection)

    async def commit(self, finish: Finish) -> bool:
        return await to_thread.run_sync(self._transaction.commit, finish)

    async def rollback(self) -> None:
        await to_thread.run_sync(self._transaction.rollback)
