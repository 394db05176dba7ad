"""What the contract of a receipts store is tested on, and the values that its tests are made of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from secrets import token_bytes
from typing import Protocol

import anyio

from replayfloor.core.claims import Claim, ClaimAnswer, Fence
from replayfloor.core.fingerprint import Fingerprint, ReceiptId
from replayfloor.core.message import Response
from replayfloor.core.receipt import Receipt, keep
from replayfloor.server.stores import AsyncConnection, AsyncReceipts

LONG_MS = 60_000
SHORT_MS = 40
"""A lease that a test waits for; store and test may differ by the clock's resolution."""

AFTER_SHORT_MS = 120

REQUEST = Fingerprint(b"one request.....")
OTHER_REQUEST = Fingerprint(b"another request.")


class OwnTransaction(Protocol):
    """A transaction on a connection of the handler's own, which the store has nothing to do with.

    Attributes:
        connection: what the handler gives to `finish_in`.
    """

    connection: object

    async def write(self, id_: ReceiptId) -> None:
        """Write one effect, which `ReceiptsSubject.count` counts once it is committed."""
        ...

    async def commit(self) -> None:
        """Commit what was written."""
        ...

    async def rollback(self) -> None:
        """Undo what was written."""
        ...


@dataclass(frozen=True, slots=True)
class ReceiptsSubject:
    """A store to test.

    Attributes:
        receipts: the store.
        other: a second one on the same data, as another process has it.
        pass_ms: lets the store's time pass.
        write: writes one effect of a handler inside the store's transaction.
        count: counts the committed effects of a key.
        own: opens a transaction on a connection of the handler's own.
        autocommitting: the same on a connection that commits each statement at once.
    """

    receipts: AsyncReceipts
    other: AsyncReceipts
    pass_ms: Callable[[int], Awaitable[None]]
    write: Callable[[AsyncConnection, ReceiptId], Awaitable[None]]
    count: Callable[[ReceiptId], Awaitable[int]]
    own: Callable[[], AbstractAsyncContextManager[OwnTransaction]]
    autocommitting: Callable[[], AbstractAsyncContextManager[OwnTransaction]]


def new_id() -> ReceiptId:
    """Return an id that no other test uses."""
    return ReceiptId(token_bytes(16))


def new_fence() -> Fence:
    """Return a fence of one execution."""
    return Fence(token_bytes(16))


def receipt(body: bytes = b"answer", *, tombstone: bool = False) -> Receipt:
    """Return a receipt with headers that repeat and bytes that are no text."""
    headers = ((b"link", b"<a>"), (b"link", b"<b>"), (b"x", bytes(range(128, 256))))
    return keep(REQUEST, Response(201, headers, body), tombstone=tombstone)


def claim(
    id_: ReceiptId, fence: Fence, lease_ms: int = LONG_MS, *, takeover: bool = False
) -> Claim:
    """Return a claim of REQUEST."""
    return Claim(id_, REQUEST, fence, lease_ms, takeover)


async def all_at_once(
    calls: Sequence[Callable[[], Awaitable[ClaimAnswer]]],
) -> list[ClaimAnswer]:
    """Start every call before any has ended; return the answers in no order."""
    answers: list[ClaimAnswer] = []

    async def one(call: Callable[[], Awaitable[ClaimAnswer]]) -> None:
        answers.append(await call())

    async with anyio.create_task_group() as group:
        for call in calls:
            group.start_soon(one, call)
    return answers
