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
    Claimed,
    Commit,
    Extend,
    Finish,
    Release,
    Renew,
    Rollback,
)
from replayfloor.core.drivers import run_async
from replayfloor.core.effects import Effect, Flow
from replayfloor.core.fingerprint import Fingerprint
from replayfloor.server import clock
from replayfloor.server.body import SPOOL_BYTES, BodyReader, ReadBody
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
from replayfloor.server.lease import Lease
from replayfloor.server.locks import AsyncLock
from replayfloor.server.perform_common import emit
from replayfloor.server.settings import Settings, Stores
from replayfloor.server.shield import in_thread
from replayfloor.server.stores import AsyncReceipts, AsyncTransaction

AsyncStores: TypeAlias = Stores[AsyncReceipts, AsyncLock]

F = TypeVar("F")

NO_FINGERPRINT = Fingerprint(b"")
"""Of a body that is handed on, and was not what the key was made of."""

CLEANUP_S = 10.0
"""How long cleanup may take after a cancellation: longer than one operation of a store, and short
enough not to hold up the shutdown of a server (uvicorn and gunicorn wait 30 s)."""


class AsyncPerformer:
    """The effects of one request. `transaction` is what performing Begin left, `lease` what was had
    of claims and renewals."""

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

    async def drive(self, flow: Flow[F]) -> F:
        """Run a flow; its cleanup after a failure is not cancelled."""
        return await run_async(flow, self._perform, self._perform_shielded)

    async def drive_shielded(self, flow: Flow[F]) -> F:
        """Run a flow that is cleanup from its beginning."""
        return await run_async(flow, self._perform_shielded)

    async def _perform_shielded(self, effect: Effect[object]) -> object:
        with anyio.fail_after(CLEANUP_S, shield=True):
            return await self._perform(effect)

    async def _perform(self, effect: Effect[object]) -> object:
        sealer = self._settings.sealer
        match effect:
            case ReadRequest():
                return await self._read_request(effect.rule)
            case Acquire():
                return sealer.open_lock(await self._lock.acquire(effect))
            case Release():
                # What becomes of it decides nothing, so no answer waits for it.
                await self._lock.release_soon(sealer.seal_release(effect))
                return None
            case Claim():
                asked = self.lease.asked()
                answer = await self._receipts.claim(effect)
                if isinstance(answer, Claimed):
                    self.lease.begin(asked, effect.lease_ms)
                return sealer.open_claim(answer)
            case Extend():
                return await self._lock.extend(effect)
            case Renew():
                asked = self.lease.asked()
                held = await self._receipts.renew(effect)
                if held:
                    self.lease.begin(asked, effect.lease_ms)
                return held
            case Finish():
                return await self._receipts.finish(sealer.seal_finish(effect))
            case Abandon():
                return await self._receipts.abandon(effect)
            case Begin() | Commit() | Rollback():
                return await self._perform_in_transaction(effect)
            case Pause(pause_ms):
                await anyio.sleep(pause_ms / 1000)
                return None
            case Emit(event):
                emit(self._settings, event)
                return None
            case _:
                raise TypeError(f"the server flow asked for {effect!r}")

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
        reader = BodyReader(asgi_head(self._scope), rule)
        try:
            more = True
            while more:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    return ClientGone()
                chunk: bytes = message.get("body", b"")
                if reader.size + len(chunk) > self._settings.body_bytes_max:
                    return BodyTooLarge()
                if reader.size + len(chunk) > SPOOL_BYTES:
                    await in_thread(partial(reader.feed, chunk))
                else:
                    reader.feed(chunk)
                more = message.get("more_body", False)
            # In a thread if it may take long enough to hold up the event loop.
            finishes_late = reader.size > CHUNK_BYTES
            self._body = await in_thread(reader.finish) if finishes_late else reader.finish()
        finally:
            reader.close()
        return RequestRead(self._body.fingerprint, clock.wall_ms())

    def use_body(self, data: bytes) -> None:
        """Take a body that was read before."""
        self._body = ReadBody(NO_FINGERPRINT, len(data), data, None)

    def body_messages(self) -> Callable[[], Awaitable[Message | None]]:
        """Return a function that gives the body message by message, and then None."""
        body = self._body
        if body is None:
            raise TypeError("the request has not been read")
        pieces = iter((body.data,)) if body.data is not None else body.chunks()
        left = body.size
        ended = False

        async def message() -> Message | None:
            nonlocal left, ended
            if ended:
                return None
            piece = (
                next(pieces) if body.data is not None else await in_thread(partial(next, pieces))
            )
            left -= len(piece)
            ended = left <= 0
            return {"type": "http.request", "body": piece, "more_body": not ended}

        return message

    def close(self) -> None:
        """Give up the body, and the scope: it holds the claim, which refers to this object."""
        if self._body is not None:
            self._body.close()
        self._scope = {}
