"""The asynchronous transport, whatever the library: it performs what the flow asks for.

Nothing is decided here. `transport_async` and `httpx2` make a transport of the library of it; the
blocking twin is in `base`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar, cast

import anyio
from anyio.lowlevel import RunVar

from replayfloor.client.bodies import (
    BodyTooLarge,
    close_async,
    read_request_async,
    read_response_async,
)
from replayfloor.client.call import Call, Settings
from replayfloor.client.conclusions import conclude
from replayfloor.client.effects import Attempted, Emit, Send, Sleep
from replayfloor.client.fence import HOOK, AsyncTrace
from replayfloor.client.flow import operate
from replayfloor.client.inner import checked
from replayfloor.client.journal import MemoryJournal
from replayfloor.client.leaks import LEAKS
from replayfloor.client.library import lines_of
from replayfloor.client.operations import PendingOperation
from replayfloor.client.refusals import refuse_body
from replayfloor.client.shell import Shell
from replayfloor.core.drivers import run_async
from replayfloor.core.effects import Effect
from replayfloor.core.journal import Settlement

if TYPE_CHECKING:
    import httpx

_T = TypeVar("_T")

JOURNAL_THREADS: Final = 4
"""Of an event loop: a journal writes one entry at a time, so that more would only wait, and the
application's own worker threads are left alone."""

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("replayfloor.client.journal_threads")


class AsyncTransportBase:
    """An asynchronous transport over `inner`.

    The journal is called in a worker thread, unless it is a MemoryJournal.
    """

    def __init__(
        self,
        inner: httpx.AsyncBaseTransport,
        shell: Shell,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._inner = inner
        self._shell = shell
        self._sleep = sleep
        self._failures: tuple[type[Exception], ...] = (
            shell.library.transport_error,
            *shell.library.leaks,
            *LEAKS,
        )
        self._sends_once = type(inner) in shell.library.own_transports
        # It waits for nothing, and a thread's turn takes many times as long as its write.
        self._writes_at_once = type(shell.journal) is MemoryJournal

    def beside(self, inner: httpx.AsyncBaseTransport, /) -> Self:
        """Return a transport over another inner one that shares the journal and everything else."""
        inner = checked(self._shell.library, inner, self._shell.library.async_transport)
        other = object.__new__(type(self))
        AsyncTransportBase.__init__(other, inner, self._shell, self._sleep)
        return other

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        settings = self._shell.admit(request)
        if settings is None:
            return await self._inner.handle_async_request(self._shell.passing(request))
        try:
            body = await read_request_async(self._shell.library, request)
        except BodyTooLarge as error:
            raise refuse_body(self._shell.library, settings.profile, request) from error
        scope = self._shell.scope(settings, request)
        if scope is None:
            response, seen_ns = await self._call(settings, request, body)
        else:
            with scope:
                response, seen_ns = await self._call(settings, request, body)
        try:
            if (sweep := self._shell.sweep_due(seen_ns)) is not None:
                await in_thread(sweep)
        except BaseException:
            # Cancelled, for one: nobody gets the answer, and it may hold a connection.
            await close_async(response)
            raise
        return response

    async def _call(
        self, settings: Settings, request: httpx.Request, body: bytes
    ) -> tuple[httpx.Response, int]:
        """Return the answer, and what the wall clock showed last."""
        call = self._shell.open_call(settings, request, body)
        try:
            verdict = await run_async(
                operate(call.operation, settings.terms),
                partial(self._perform, call),
                partial(self._perform_shielded, call),
            )
            return conclude(call, verdict), verdict.seen_ns
        except BaseException:
            await self._discard(call)
            raise

    async def _perform(self, call: Call, effect: Effect[object]) -> object:
        settings, kind = call.settings, type(effect)
        performer = (settings.at_once if self._writes_at_once else settings.alone).get(kind)
        if performer is not None:
            return performer(effect)
        if (write := settings.journaled.get(kind)) is not None:
            return await in_thread(partial(write, effect))
        match effect:
            case Emit(event):
                call.tell(event)
                return None
            case Send():
                await self._discard(call)
                return await self._send(call, effect)
            case Sleep(wait_s):
                await self._discard(call)
                await self._sleep(wait_s)
                return None
            case _:
                raise TypeError(f"an effect that no transport performs: {effect!r}")

    async def _perform_shielded(self, call: Call, effect: Effect[object]) -> object:
        # After a cancellation: the lease is given back, so that the operation can be resumed now.
        answer: object = None
        with anyio.CancelScope(shield=True):
            answer = await self._perform(call, effect)
        return answer

    async def _send(self, call: Call, send: Send) -> Attempted:
        fence = call.fence(send)
        user = cast("AsyncTrace | None", call.request.extensions.get(HOOK))
        request = self._shell.attempt(call, send, fence.wrap_async(user))
        if user is None and self._sends_once:
            fence.leave(request.extensions)
        status, is_late = None, call.bound(send)
        try:
            arriving = await self._inner.handle_async_request(request)
            status = arriving.status_code
            lines = lines_of(arriving.headers)
            first = dict(reversed(lines))
            response, raw = await read_response_async(self._shell.library, arriving, first, is_late)
        except self._failures as error:
            return call.failed(error, fence, status)
        return call.answered(response, lines, raw)

    async def _discard(self, call: Call) -> None:
        if (response := call.let_go()) is not None:
            await close_async(response)

    async def pending(self) -> tuple[PendingOperation, ...]:
        """Return what is pending; see `IdempotentTransport.pending`."""
        return await in_thread(self._shell.pending)

    async def settle(
        self,
        operation_id: str,
        settlement: Settlement,
        note: str,
        *,
        namespace: str | None = None,
    ) -> None:
        """Record what somebody found out; see `IdempotentTransport.settle`."""
        await in_thread(lambda: self._shell.settle(operation_id, settlement, note, namespace))

    async def __aenter__(self) -> Self:
        """Enter the inner transport."""
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """Leave the inner transport, and close the journal if it was opened here."""
        self._shell.close_journal()
        await self._inner.__aexit__(exc_type, exc_value, traceback)

    async def aclose(self) -> None:
        """Close the inner transport, and the journal if it was opened here."""
        self._shell.close_journal()
        await self._inner.aclose()


async def in_thread(perform: Callable[[], _T]) -> _T:
    """Return what a call of the journal returns, from a worker thread.

    A write that has begun is shielded: anyio delivers a cancellation after it. A native
    task.cancel() does not wait; the write then ends in its thread, and either way is safe.
    """
    limiter = _limiter.get(None)
    if limiter is None:
        limiter = anyio.CapacityLimiter(JOURNAL_THREADS)
        _limiter.set(limiter)
    return await anyio.to_thread.run_sync(perform, limiter=limiter)
