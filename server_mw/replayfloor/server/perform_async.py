"""Performs the effects of the server flow for one request over ASGI. Decides nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias, TypeVar, assert_never

import anyio
from starlette.types import Message, Receive, Scope

from replayfloor.core.claims import (
    Abandon,
    Acquire,
    Begin,
    Claim,
    ClaimAnswer,
    Claimed,
    Commit,
    Extend,
    Finish,
    LockAnswer,
    Release,
    Renew,
    Rollback,
)
from replayfloor.core.drivers import run_async
from replayfloor.core.effects import Effect, Flow
from replayfloor.server import clock
from replayfloor.server.body import SPOOL_BYTES, BodyReader, ReadBody, read_before, whole_body
from replayfloor.server.body_digest import CHUNK_BYTES
from replayfloor.server.body_rules import BodyRule
from replayfloor.server.body_target import asgi_head
from replayfloor.server.effects import (
    BodyTooLarge,
    ClientGone,
    Emit,
    Pause,
    ReadRequest,
    RequestAnswer,
    RequestRead,
)
from replayfloor.server.events import ServerEvent
from replayfloor.server.lease import Lease
from replayfloor.server.locks import AsyncLock
from replayfloor.server.perform_common import emit
from replayfloor.server.settings import Settings, Stores
from replayfloor.server.shield import in_thread
from replayfloor.server.stores import AsyncReceipts, AsyncTransaction

AsyncStores: TypeAlias = Stores[AsyncReceipts, AsyncLock]

BodyMessages: TypeAlias = Callable[[], Awaitable[Message | None]]

F = TypeVar("F")

CLEANUP_S = 10.0
"""How long cleanup may take after a cancellation: longer than one operation of a store, and short
enough not to hold up the shutdown of a server (uvicorn and gunicorn wait 30 s)."""


class AsyncPerformer:
    """The effects of one request. `transaction` is what performing Begin left, `lease` what was had
    of claims and renewals."""

    __slots__ = (
        "_body",
        "_lock",
        "_receipts",
        "_receive",
        "_scope",
        "_settings",
        "lease",
        "transaction",
    )

    def __init__(
        self, settings: Settings, stores: AsyncStores, scope: Scope, receive: Receive
    ) -> None:
        """Belong to one request."""
        self._settings, self._receive = settings, receive
        self._scope: Scope = scope
        self._receipts, self._lock = stores.receipts, stores.lock
        self._body: ReadBody | None = None
        self.transaction: AsyncTransaction | None = None
        self.lease = Lease()

    def drive(self, flow: Flow[F]) -> Awaitable[F]:
        """Run a flow; its cleanup after a failure is not cancelled."""
        return run_async(flow, self._perform, self._perform_shielded)

    def drive_shielded(self, flow: Flow[F]) -> Awaitable[F]:
        """Run a flow that is cleanup from its beginning."""
        return run_async(flow, self._perform_shielded)

    async def _perform_shielded(self, effect: Effect[object]) -> object:
        with anyio.fail_after(CLEANUP_S, shield=True):
            return await self._perform(effect)

    def _perform(self, effect: Effect[object]) -> Awaitable[object]:
        # No coroutine of its own around that of the operation: a request waits in as many as
        # there are, and each of them is gone through when it goes on.
        match effect:
            case ReadRequest():
                return self._read_request(effect.rule)
            case Acquire():
                return self._acquire(effect)
            case Claim():
                return self._claim(effect)
            case Finish():
                return self._receipts.finish(self._settings.sealer.seal_finish(effect))
            case Release():
                # What becomes of it decides nothing, so no answer waits for it.
                return self._lock.release_soon(self._settings.sealer.seal_release(effect))
            case Extend():
                return self._lock.extend(effect)
            case Renew():
                return self._renew(effect)
            case Abandon():
                return self._receipts.abandon(effect)
            case Begin() | Commit() | Rollback():
                return self._perform_in_transaction(effect)
            case Pause(pause_ms):
                return anyio.sleep(pause_ms / 1000)
            case Emit(event):
                return self._emit(event)
            case _:
                raise TypeError(f"the server flow asked for {effect!r}")

    async def _acquire(self, acquire: Acquire) -> LockAnswer:
        return self._settings.sealer.open_lock(await self._lock.acquire(acquire))

    async def _claim(self, claim: Claim) -> ClaimAnswer:
        asked = self.lease.asked()
        answer = await self._receipts.claim(claim)
        if isinstance(answer, Claimed):
            self.lease.begin(asked, claim.lease_ms)
        return self._settings.sealer.open_claim(answer)

    async def _renew(self, renew: Renew) -> bool:
        asked = self.lease.asked()
        held = await self._receipts.renew(renew)
        if held:
            self.lease.begin(asked, renew.lease_ms)
        return held

    async def _emit(self, event: ServerEvent) -> None:
        emit(self._settings, event)

    async def _perform_in_transaction(self, effect: Begin | Commit | Rollback) -> bool | None:
        match effect:
            case Begin(id_):
                self.transaction = await self._receipts.begin(id_)
                return None
            case Commit(finish):
                if self.transaction is None:
                    raise TypeError("commit without a transaction")
                return await self.transaction.commit(self._settings.sealer.seal_finish(finish))
            case Rollback():
                if self.transaction is not None:
                    await self.transaction.rollback()
                return None
            case _:
                assert_never(effect)

    async def finish_in(self, connection: object, finish: Finish) -> bool:
        """Finish inside the handler's own transaction (see AsyncReceipts.finish_in)."""
        return await self._receipts.finish_in(connection, self._settings.sealer.seal_finish(finish))

    async def _read_request(self, rule: BodyRule) -> RequestAnswer:
        message = await self._receive()
        data: bytes = message.get("body", b"")
        in_pieces = message.get("more_body", False) or message["type"] == "http.disconnect"
        if in_pieces or len(data) > min(CHUNK_BYTES, self._settings.body_bytes_max):
            return await self._read_in_pieces(message, rule)
        # What nearly every request is: one message, and soon hashed.
        self._body = whole_body(asgi_head(self._scope), rule, bytes(data))
        return RequestRead(self._body.fingerprint, clock.wall_ms())

    async def _read_in_pieces(self, message: Message, rule: BodyRule) -> RequestAnswer:
        reader = BodyReader(asgi_head(self._scope), rule)
        try:
            while True:
                if message["type"] == "http.disconnect":
                    return ClientGone()
                chunk: bytes = message.get("body", b"")
                if reader.size + len(chunk) > self._settings.body_bytes_max:
                    return BodyTooLarge()
                if reader.size + len(chunk) > SPOOL_BYTES:
                    await in_thread(partial(reader.feed, chunk))
                else:
                    reader.feed(chunk)
                if not message.get("more_body", False):
                    break
                message = await self._receive()
            # In a thread if it may take long enough to hold up the event loop.
            finishes_late = reader.size > CHUNK_BYTES
            self._body = await in_thread(reader.finish) if finishes_late else reader.finish()
        finally:
            reader.close()
        return RequestRead(self._body.fingerprint, clock.wall_ms())

    def use_body(self, data: bytes) -> None:
        """Take a body that was read before."""
        self._body = read_before(data)

    def body_messages(self) -> BodyMessages:
        """Return a function that gives the body message by message, and then None."""
        body = self._body
        if body is None:
            raise TypeError("the request has not been read")
        return _in_one(body.data) if body.data is not None else _in_pieces(body)

    def close(self) -> None:
        """Give up the body, and the scope: it holds the claim, which refers to this object."""
        if self._body is not None:
            self._body.close()
        self._scope = {}


def _in_one(data: bytes) -> BodyMessages:
    given = False

    async def message() -> Message | None:
        nonlocal given
        if given:
            return None
        given = True
        return {"type": "http.request", "body": data, "more_body": False}

    return message


def _in_pieces(body: ReadBody) -> BodyMessages:
    pieces, left = body.chunks(), body.size
    ended = False

    async def message() -> Message | None:
        nonlocal left, ended
        if ended:
            return None
        piece = await in_thread(partial(next, pieces))
        left -= len(piece)
        ended = left <= 0
        return {"type": "http.request", "body": piece, "more_body": not ended}

    return message
