"""The asynchronous httpx transport: it performs what the flow asks for. Nothing is decided here.

Its blocking twin, with the description of the arguments, is in `transport`.
"""

from __future__ import annotations

import random as random_numbers
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Self, cast

import anyio
import httpx
from anyio.lowlevel import RunVar

from replayfloor.client.bodies import (
    BodyTooLarge,
    close_async,
    read_request_async,
    read_response_async,
)
from replayfloor.client.budget import RetryBudget
from replayfloor.client.call import Call, JournalEffect, write_journal
from replayfloor.client.clock import Clock, system_clock
from replayfloor.client.conclusions import refuse_body
from replayfloor.client.effects import Attempted, Send, Sleep
from replayfloor.client.events import Event
from replayfloor.client.fence import AsyncTrace
from replayfloor.client.journal import Journal
from replayfloor.client.policy import DEFAULT_POLICY, RetryPolicy
from replayfloor.client.profiles import Profile
from replayfloor.client.shell import open_shell
from replayfloor.client.wire import TRANSPORT_ERRORS
from replayfloor.core.drivers import run_async
from replayfloor.core.effects import Effect

JOURNAL_THREADS: Final = 4
"""Of an event loop: a journal writes one entry at a time, so that more would only wait, and the
application's own worker threads are left alone."""

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("replayfloor.client.journal_threads")


class AsyncIdempotentTransport(httpx.AsyncBaseTransport):
    """The same for `httpx.AsyncClient`; arguments and promises as for IdempotentTransport.

    The journal is called in a worker thread. A call that is cancelled ends at once, sends nothing
    more, and leaves an operation that can be resumed with its operation id.
    """

    def __init__(
        self,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        profile: Profile | None,
        journal: Journal | str,
        retry: RetryPolicy = DEFAULT_POLICY,
        on_event: Callable[[Event], None] | None = None,
        budget: RetryBudget | None = None,
        keep_responses: bool = False,
        clock: Clock = system_clock,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        random: Callable[[], float] = random_numbers.random,
    ) -> None:
        self._inner = httpx.AsyncHTTPTransport() if transport is None else transport
        self._sleep = sleep
        self._shell = open_shell(
            profile,
            journal,
            retry,
            on_event,
            clock,
            random,
            budget=budget,
            keep_responses=keep_responses,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; see the class."""
        if not self._shell.protects(request):
            return await self._inner.handle_async_request(request)
        try:
            body = await read_request_async(request)
        except BodyTooLarge as error:
            raise refuse_body(self._shell.settings.profile, request) from error
        call = Call(self._shell.settings, request, body)
        try:
            return await run_async(
                self._shell.flow(call),
                lambda effect: self._perform(call, effect),
                lambda effect: self._perform_shielded(call, effect),
            )
        except BaseException:
            await self._discard(call)
            raise

    async def _perform(self, call: Call, effect: Effect[object]) -> object:
        match effect:
            case Send():
                await self._discard(call)
                return await self._send(call, effect)
            case Sleep(wait_s):
                await self._discard(call)
                await self._sleep(wait_s)
                return None
            case _ if isinstance(effect, JournalEffect):
                return await _in_thread(call.settings.journal, effect)
            case _:
                return call.perform(effect)

    async def _perform_shielded(self, call: Call, effect: Effect[object]) -> object:
        # After a cancellation: the lease is given back, so that the operation can be resumed now.
        answer: object = None
        with anyio.CancelScope(shield=True):
            answer = await self._perform(call, effect)
        return answer

    async def _send(self, call: Call, send: Send) -> Attempted:
        fence = call.fence(send)
        user = cast("AsyncTrace | None", call.request.extensions.get("trace"))
        request = self._shell.attempt(call, send, fence.wrap_async(user))
        status = None
        try:
            arriving = await self._inner.handle_async_request(request)
            status = arriving.status_code
            response, raw = await read_response_async(arriving)
        except TRANSPORT_ERRORS as error:
            return call.failed(error, fence, status)
        return call.answered(response, raw)

    async def _discard(self, call: Call) -> None:
        if call.open_response is not None:
            response, call.open_response = call.open_response, None
            await close_async(response)

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


async def _in_thread(journal: Journal, effect: JournalEffect) -> object:
    # A write that has begun is shielded: anyio delivers a cancellation after it. A native
    # task.cancel() does not wait; the write then ends in its thread, and either way is safe.
    limiter = _limiter.get(None)
    if limiter is None:
        limiter = anyio.CapacityLimiter(JOURNAL_THREADS)
        _limiter.set(limiter)
    return await anyio.to_thread.run_sync(write_journal, journal, effect, limiter=limiter)
