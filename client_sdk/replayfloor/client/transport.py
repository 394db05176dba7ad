"""The blocking httpx transport: it performs what the flow asks for. Nothing is decided here.

It wraps another transport; requests whose method the profile does not name pass through untouched.
Its twin for `httpx.AsyncClient` is in `transport_async`.
"""

from __future__ import annotations

import random as random_numbers
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, cast

import httpx

from replayfloor.client.bodies import BodyTooLarge, read_request, read_response
from replayfloor.client.budget import RetryBudget
from replayfloor.client.call import Call, JournalEffect, write_journal
from replayfloor.client.clock import Clock, system_clock
from replayfloor.client.conclusions import refuse_body
from replayfloor.client.effects import Attempted, Send, Sleep
from replayfloor.client.events import Event
from replayfloor.client.fence import Trace
from replayfloor.client.journal import Journal
from replayfloor.client.policy import DEFAULT_POLICY, RetryPolicy
from replayfloor.client.profiles import Profile
from replayfloor.client.shell import open_shell
from replayfloor.client.wire import TRANSPORT_ERRORS
from replayfloor.core.drivers import run
from replayfloor.core.effects import Effect


class IdempotentTransport(httpx.BaseTransport):
    """An httpx transport that sends writes with one key until their outcome is known.

    A call with the same operation id, the same key or the same Request object as an earlier one
    continues that operation; everything else is a new one.

    Args:
        transport: the transport that sends; default `httpx.HTTPTransport()`. It must not retry by
            itself (`retries=0`).
        profile: what the provider remembers, and for how long. None if nothing is known: then a
            request that may have been sent is sent again only to a server that has shown that it
            knows keys.
        journal: a journal, or the URL of one (`memory:`, `sqlite:///path`), which is then closed
            with the transport.
        retry: how long one call goes on.
        on_event: is called with every `replayfloor.client.events.Event`; what it raises is logged.
        budget: how many retries may fail at one origin before further ones are refused; may be
            shared by transports. Default: one of its own.
        keep_responses: keep answers of up to 64 KiB in the journal, so that a later call of the
            same operation gets its answer without sending anything.
        clock: both clocks of the machine; or the wall clock alone, ns since 1970 (UTC).
        sleep: waits for so many seconds.
        random: a uniform random number within [0, 1).

    Raises what `replayfloor.client.errors` lists, the exceptions of httpx if nothing was executed,
    and UsageError for a request whose key or options cannot be honoured.
    """

    def __init__(
        self,
        transport: httpx.BaseTransport | None = None,
        *,
        profile: Profile | None,
        journal: Journal | str,
        retry: RetryPolicy = DEFAULT_POLICY,
        on_event: Callable[[Event], None] | None = None,
        budget: RetryBudget | None = None,
        keep_responses: bool = False,
        clock: Clock = system_clock,
        sleep: Callable[[float], None] = time.sleep,
        random: Callable[[], float] = random_numbers.random,
    ) -> None:
        self._inner = httpx.HTTPTransport() if transport is None else transport
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

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; see the class."""
        if not self._shell.protects(request):
            return self._inner.handle_request(request)
        try:
            body = read_request(request)
        except BodyTooLarge as error:
            raise refuse_body(self._shell.settings.profile, request) from error
        call = Call(self._shell.settings, request, body)
        try:
            return run(self._shell.flow(call), lambda effect: self._perform(call, effect))
        except BaseException:
            self._discard(call)
            raise

    def _perform(self, call: Call, effect: Effect[object]) -> object:
        match effect:
            case Send():
                self._discard(call)
                return self._send(call, effect)
            case Sleep(wait_s):
                self._discard(call)
                self._sleep(wait_s)
                return None
            case _ if isinstance(effect, JournalEffect):
                return write_journal(call.settings.journal, effect)
            case _:
                return call.perform(effect)

    def _send(self, call: Call, send: Send) -> Attempted:
        fence = call.fence(send)
        user = cast("Trace | None", call.request.extensions.get("trace"))
        request = self._shell.attempt(call, send, fence.wrap(user))
        status = None
        try:
            arriving = self._inner.handle_request(request)
            status = arriving.status_code
            response, raw = read_response(arriving)
        except TRANSPORT_ERRORS as error:
            return call.failed(error, fence, status)
        return call.answered(response, raw)

    def _discard(self, call: Call) -> None:
        if call.open_response is not None:
            call.open_response.close()
            call.open_response = None

    def __enter__(self) -> Self:
        """Enter the inner transport."""
        self._inner.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """Leave the inner transport, and close the journal if it was opened here."""
        self._shell.close_journal()
        self._inner.__exit__(exc_type, exc_value, traceback)

    def close(self) -> None:
        """Close the inner transport, and the journal if it was opened here."""
        self._shell.close_journal()
        self._inner.close()
