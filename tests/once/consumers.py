"""A consumer of messages in the manner of a backend's side: awaited, or blocking in threads.

Blocks are coroutines on both sides, so that the tests hold them up and look at them in one way.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, Unpack, cast

import anyio
from anyio import from_thread, to_thread

from replayfloor.server.once import (
    AlreadyApplied,
    AsyncGuard,
    AsyncMessageClaim,
    Guard,
    GuardOptions,
    MessageClaim,
    OutcomeNotKnown,
    StillInFlight,
)
from replayfloor.server.once_message import MessageOptions
from server.apps import Hook, nothing
from server.backends import Backend
from server.wsgi_app import ClaimView

Block: TypeAlias = Callable[[AsyncMessageClaim], Coroutine[Any, Any, None]]
SOURCE = "payments-queue"
OUTCOME_S = 20.0


class ConsumerOptions(GuardOptions, total=False):
    """The guards' options; stores are URLs or instances of the backend's own side."""

    receipts: object
    lock: object


@dataclass
class Consumer:
    """One consumer process: a guard with stores of its own, and a block that writes the ledger.

    `before` runs ahead of the write and `after` behind it. `claims` has what each block was given.
    """

    backend: Backend
    guard: AsyncGuard | Guard
    atomic: bool
    before: Hook = nothing
    after: Hook = nothing
    claims: list[AsyncMessageClaim] = field(default_factory=list)

    async def deliver(
        self,
        message_id: str = "m1",
        block: Block | None = None,
        **message: Unpack[MessageOptions],
    ) -> None:
        """Deliver a message once; raises what comes out of its block."""
        guard, run = self.guard, block or self._applying(message_id)
        if isinstance(guard, AsyncGuard):
            async with guard.once(message_id, **message) as claim:
                await run(claim)
            return

        def deliver() -> None:
            with guard.once(message_id, **message) as claim:
                from_thread.run(run, view_of(claim))

        await to_thread.run_sync(deliver)

    async def run(
        self, message_id: str, block: Block | None = None, **message: Unpack[MessageOptions]
    ) -> bool:
        """Deliver it by the other call."""
        guard, run = self.guard, block or self._applying(message_id)
        if isinstance(guard, AsyncGuard):
            return await guard.run(message_id, run, **message)

        def deliver() -> bool:
            return guard.run(
                message_id,
                lambda claim: from_thread.run(run, view_of(claim)),
                **message,
            )

        return await to_thread.run_sync(deliver)

    def _applying(self, message_id: str) -> Block:
        async def apply(claim: AsyncMessageClaim) -> None:
            self.claims.append(claim)
            await self.before()
            ledger = self.backend.ledger
            if self.atomic:
                await ledger.write_in(claim.connection, message_id)
            else:
                await to_thread.run_sync(ledger.write, message_id)
            await self.after()

        return apply


def make_guard(backend: Backend, **options: Unpack[ConsumerOptions]) -> AsyncGuard | Guard:
    """Return a guard of the backend's side that is not open yet."""
    options.setdefault("receipts", backend.receipts_url)
    options.setdefault("lock", backend.lock_url)
    make = cast("Callable[..., AsyncGuard | Guard]", Guard if backend.is_wsgi else AsyncGuard)
    return make(**options)


@asynccontextmanager
async def consuming(
    backend: Backend, **options: Unpack[ConsumerOptions]
) -> AsyncIterator[Consumer]:
    """Run a consumer until the end of the block."""
    effects = options.setdefault("effects", "atomic")
    consumer = Consumer(backend, make_guard(backend, **options), effects == "atomic")
    await open_guard(consumer.guard)
    try:
        yield consumer
    finally:
        with anyio.CancelScope(shield=True):
            await close_guard(consumer.guard)


async def outcome(consumer: Consumer) -> type[Exception]:
    """Deliver m1 until something else than StillInFlight comes of it; return what was raised.

    The lock is released a moment after the end of a block, which nothing waits for.
    """
    with anyio.fail_after(OUTCOME_S):
        while True:
            try:
                await consumer.deliver("m1", source=SOURCE)
            except StillInFlight:
                await anyio.sleep(0.05)
            except (AlreadyApplied, OutcomeNotKnown) as error:
                return type(error)


def expire(backend: Backend) -> None:
    """Let every lease have run out, as when its consumer has died."""
    backend.ledger.run(
        "update replayfloor.claims set claimed_at = claimed_at - interval '1 h',"
        " lease_until = lease_until - interval '1 h'"
    )


async def open_guard(guard: AsyncGuard | Guard) -> None:
    """Open a guard of either side."""
    if isinstance(guard, AsyncGuard):
        await guard.open()
    else:
        await to_thread.run_sync(guard.open)


async def close_guard(guard: AsyncGuard | Guard) -> None:
    """Close a guard of either side."""
    if isinstance(guard, AsyncGuard):
        await guard.close()
    else:
        await to_thread.run_sync(guard.close)


class _View(ClaimView):
    """A blocking claim of a message, to be awaited."""

    async def finish_in(self, connection: object, response: object = None) -> None:
        del response
        await to_thread.run_sync(cast("MessageClaim", self.claim).finish_in, connection)


def view_of(claim: MessageClaim) -> AsyncMessageClaim:
    """Return a blocking claim as one whose operations are awaited."""
    return cast("AsyncMessageClaim", _View(claim))
