"""Performs the effects of the server flow for one request over ASGI. Decides nothing."""

from __future__ import annotations

import logging
from typing import TypeVar, assert_never
from urllib.parse import quote

import anyio
from starlette.types import Receive, Scope

from replayfloor.core.canonical import canonical_body
from replayfloor.core.claims import (
    Abandon,
    Acquire,
    Begin,
    Claim,
    Commit,
    Extend,
    Finish,
    Release,
    Renew,
    Rollback,
)
from replayfloor.core.drivers import run_async
from replayfloor.core.effects import Effect, Flow
from replayfloor.core.fingerprint import Fingerprint, fingerprint
from replayfloor.core.message import Headers, get_first
from replayfloor.server.effects import (
    BodyTooLarge,
    ClientGone,
    Emit,
    Pause,
    ReadRequest,
    RequestAnswer,
    RequestRead,
)
from replayfloor.server.events import WORTH_A_WARNING, ServerEvent
from replayfloor.server.settings import Settings
from replayfloor.server.stores import AsyncTransaction

F = TypeVar("F")

log = logging.getLogger("replayfloor.server")

CLEANUP_S = 10.0
"""How long cleanup may take after a cancellation: longer than one operation of a store, and short
enough not to hold up the shutdown of a server (uvicorn and gunicorn wait 30 s)."""


class AsyncPerformer:
    """The effects of one request. `body` and `transaction` are what performing them left."""

    def __init__(self, settings: Settings, scope: Scope, receive: Receive) -> None:
        """Belong to one request."""
        self._settings, self._scope, self._receive = settings, scope, receive
        self.body = b""
        self.transaction: AsyncTransaction | None = None

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
        match effect:
            case ReadRequest():
                return await self._read_request()
            case Acquire():
                return await self._settings.lock.acquire(effect)
            case Release():
                return await self._settings.lock.release(effect)
            case Claim():
                return await self._settings.receipts.claim(effect)
            case Extend():
                return await self._settings.lock.extend(effect)
            case Renew():
                return await self._settings.receipts.renew(effect)
            case Finish():
                return await self._settings.receipts.finish(effect)
            case Abandon():
                return await self._settings.receipts.abandon(effect)
            case Begin() | Commit() | Rollback():
                return await self._perform_in_transaction(effect)
            case Pause(pause_ms):
                await anyio.sleep(pause_ms / 1000)
                return None
            case Emit(event):
                self._emit(event)
                return None
            case _:
                raise TypeError(f"the server flow asked for {effect!r}")

    async def _perform_in_transaction(self, effect: Begin | Commit | Rollback) -> bool | None:
        match effect:
            case Begin():
                self.transaction = await self._settings.receipts.begin()
                return None
            case Commit(finish):
                if self.transaction is None:
                    raise TypeError("commit without a transaction")
                return await self.transaction.commit(finish)
            case Rollback():
                if self.transaction is not None:
                    await self.transaction.rollback()
                return None
            case _:
                assert_never(effect)

    async def _read_request(self) -> RequestAnswer:
        limit = self._settings.body_bytes_max
        chunks: list[bytes] = []
        size = 0
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return ClientGone()
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > limit:
                return BodyTooLarge()
            chunks.append(chunk)
            more = message.get("more_body", False)
        self.body = b"".join(chunks)
        return RequestRead(_fingerprint(self._scope, self.body))

    def _emit(self, event: ServerEvent) -> None:
        if event.kind in WORTH_A_WARNING:
            log.warning("%s receipt=%s %s", event.kind.value, event.receipt_id, event.detail)
        listener = self._settings.on_event
        if listener is not None:
            try:
                listener(event)
            except Exception:
                # A listener that fails must not decide over a payment.
                log.exception("on_event failed for %s", event.kind.value)


def _fingerprint(scope: Scope, body: bytes) -> Fingerprint:
    headers: Headers = tuple(scope["headers"])
    # A server gives the target's own bytes; a test client may give the decoded path only.
    path = scope.get("raw_path") or quote(scope["path"]).encode()
    content_type = get_first(headers, b"content-type") or b""
    return fingerprint(
        method=scope["method"],
        path=path.partition(b"?")[0],
        query=scope.get("query_string", b""),
        content_type=content_type,
        body=canonical_body(content_type, body),
    )
