"""The blocking transport, whatever the library: it performs what the flow asks for.

Nothing is decided here. `transport` and `httpx2` make a transport of the library of it; the
asynchronous twin is in `base_async`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

from replayfloor.client.bodies import BodyTooLarge, read_request, read_response
from replayfloor.client.call import Call, Performer, Settings
from replayfloor.client.conclusions import conclude
from replayfloor.client.effects import Attempted, Emit, Send, Sleep
from replayfloor.client.fence import HOOK, Trace
from replayfloor.client.flow import operate
from replayfloor.client.inner import checked
from replayfloor.client.leaks import LEAKS
from replayfloor.client.library import lines_of
from replayfloor.client.operations import PendingOperation
from replayfloor.client.refusals import refuse_body
from replayfloor.client.shell import Shell
from replayfloor.core.drivers import run
from replayfloor.core.effects import Effect
from replayfloor.core.journal import Settlement

if TYPE_CHECKING:
    import httpx


class TransportBase:
    """A blocking transport over `inner`."""

    def __init__(
        self, inner: httpx.BaseTransport, shell: Shell, sleep: Callable[[float], None]
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

    def beside(self, inner: httpx.BaseTransport, /) -> Self:
        """Return a transport over another inner one that shares the journal and everything else."""
        inner = checked(self._shell.library, inner, self._shell.library.sync_transport)
        other = object.__new__(type(self))
        TransportBase.__init__(other, inner, self._shell, self._sleep)
        return other

    def _handle(self, request: httpx.Request) -> httpx.Response:
        settings = self._shell.admit(request)
        if settings is None:
            return self._inner.handle_request(self._shell.passing(request))
        try:
            body = read_request(self._shell.library, request)
        except BodyTooLarge as error:
            raise refuse_body(self._shell.library, settings.profile, request) from error
        scope = self._shell.scope(settings, request)
        if scope is None:
            response, seen_ns = self._call(settings, request, body)
        else:
            with scope:
                response, seen_ns = self._call(settings, request, body)
        try:
            if (sweep := self._shell.sweep_due(seen_ns)) is not None:
                sweep()
        except BaseException:
            # Interrupted: nobody gets the answer, and it may hold a connection.
            response.close()
            raise
        return response

    def _call(
        self, settings: Settings, request: httpx.Request, body: bytes
    ) -> tuple[httpx.Response, int]:
        """Return the answer, and what the wall clock showed last."""
        call = self._shell.open_call(settings, request, body)
        try:
            verdict = run(operate(call.operation, settings.terms), self._performer(call))
            return conclude(call, verdict), verdict.seen_ns
        except BaseException:
            self._discard(call)
            raise

    def _performer(self, call: Call) -> Performer:
        performer_of = call.settings.at_once.get

        def perform(effect: Effect[object]) -> object:
            performer = performer_of(type(effect))
            return self._perform(call, effect) if performer is None else performer(effect)

        return perform

    def _perform(self, call: Call, effect: Effect[object]) -> object:
        match effect:
            case Send():
                self._discard(call)
                return self._send(call, effect)
            case Emit(event):
                call.tell(event)
                return None
            case Sleep(wait_s):
                self._discard(call)
                self._sleep(wait_s)
                return None
            case _:
                raise TypeError(f"an effect that no transport performs: {effect!r}")

    def _send(self, call: Call, send: Send) -> Attempted:
        fence = call.fence(send)
        user = cast("Trace | None", call.request.extensions.get(HOOK))
        request = self._shell.attempt(call, send, fence.wrap(user))
        if user is None and self._sends_once:
            fence.leave(request.extensions)
        status = None
        try:
            arriving = self._inner.handle_request(request)
            status = arriving.status_code
            lines = lines_of(arriving.headers)
            first = dict(reversed(lines))
            response, raw = read_response(self._shell.library, arriving, first, call.bound(send))
        except self._failures as error:
            return call.failed(error, fence, status)
        return call.answered(response, lines, raw)

    def _discard(self, call: Call) -> None:
        if (response := call.let_go()) is not None:
            response.close()

    def pending(self) -> tuple[PendingOperation, ...]:
        """Return the operations without a known end that this transport's profiles speak of.

        The oldest first. An open one is resumed by the same call with its operation id; one that
        is unknown for good is to be reconciled, and then settled. Raises StoreUnavailable.
        """
        return self._shell.pending()

    def settle(
        self,
        operation_id: str,
        settlement: Settlement,
        note: str,
        *,
        namespace: str | None = None,
    ) -> None:
        """Record what somebody found out about an operation: nothing is sent for it any more.

        Args:
            operation_id: which one.
            settlement: whether it was executed.
            note: how that is known.
            namespace: where it is, if two profiles of the transport have one of this name.

        Raises UsageError if there is none, OperationBusy while a call is sending it,
        StoreUnavailable.
        """
        self._shell.settle(operation_id, settlement, note, namespace)

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
