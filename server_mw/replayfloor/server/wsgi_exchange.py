"""One keyed request over WSGI, from admission to answer. One object per request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias, assert_never

from replayfloor.core.drivers import run
from replayfloor.core.effects import Effect
from replayfloor.core.message import Response
from replayfloor.server.claim import ActiveClaim
from replayfloor.server.effects import ReadRequest
from replayfloor.server.flow import (
    Admitted,
    Answer,
    Answered,
    Call,
    Exposed,
    Gone,
    Recorded,
    Refused,
    Replayed,
    Unprotected,
    admit,
)
from replayfloor.server.keeper import Alarm
from replayfloor.server.perform import Performer, Stores
from replayfloor.server.perform_common import REPLAYED, UNPROTECTED
from replayfloor.server.policy import Options
from replayfloor.server.settings import Settings
from replayfloor.server.wsgi_body import StreamedBody, close_iterable, native, send
from replayfloor.server.wsgi_capture import ExcInfo, HeaderList, StartResponse, Write
from replayfloor.server.wsgi_execution import Execution
from replayfloor.server.wsgi_request import WSGIRequest

Environ: TypeAlias = dict[str, object]
WSGIApp: TypeAlias = Callable[[Environ, StartResponse], Iterable[bytes]]

INCOMPLETE = Response(400, ((b"content-type", b"text/plain"),), b"The request body is incomplete.")
"""The answer to a client that broke its request off; it is hardly there to read it."""


class Exchange:
    """Takes one request through admission, the application, and settlement."""

    def __init__(
        self, settings: Settings, stores: Stores, options: Options, alarm: Alarm, environ: Environ
    ) -> None:
        """Belong to one request."""
        self._settings, self._options, self._alarm = settings, options, alarm
        self._environ = environ
        self._request = WSGIRequest(environ, settings.body_bytes_max)
        self._performer = Performer(settings, stores)

    def use_body(self, data: bytes) -> None:
        """Give the application this body: the request's own was read before."""
        self._request.use(data)

    def run(self, app: WSGIApp, call: Call, start_response: StartResponse) -> Iterable[bytes]:
        """Answer the request, calling `app` at most once."""
        try:
            return self._run(app, call, start_response)
        except BaseException:
            self._request.close()
            raise

    def _run(self, app: WSGIApp, call: Call, start_response: StartResponse) -> Iterable[bytes]:
        admission = run(admit(call, self._options), self._perform)
        match admission:
            case Unprotected():
                # The application's own iterable: servers treat some of them in ways of their own.
                return app(self._environ, start_response)
            case Exposed():
                return self._call(app, _marking(start_response))
            case Gone() | Refused() | Replayed() | Recorded():
                self._request.close()
                return self._send(admission, start_response)
            case Admitted():
                return self._execute(app, admission, start_response)
            case _:
                assert_never(admission)

    def _perform(self, effect: Effect[object]) -> object:
        if isinstance(effect, ReadRequest):
            return self._request.read(effect)
        return self._performer.perform(effect)

    # -- the application --------------------------------------------------------------------------

    def _call(self, app: WSGIApp, start_response: StartResponse) -> Iterable[bytes]:
        """Call the application; the request's body is given up when its answer is closed."""
        self._request.restore()
        produced = app(self._environ, start_response)
        return StreamedBody(produced, lambda: self._close(produced))

    def _close(self, produced: Iterable[bytes]) -> None:
        try:
            close_iterable(produced)
        finally:
            self._request.close()

    def _execute(
        self, app: WSGIApp, admitted: Admitted, start_response: StartResponse
    ) -> Iterable[bytes]:
        def produce(claim: ActiveClaim, capturing: StartResponse) -> Iterable[bytes]:
            self._environ["replayfloor.claim"] = claim
            return self._call(app, capturing)

        execution = Execution(
            self._settings, self._options, self._performer, admitted, start_response
        )
        return execution.run(
            produce, self._alarm, lambda answer: self._send(answer, start_response)
        )

    # -- answers ----------------------------------------------------------------------------------

    def _send(self, answer: Answer, start_response: StartResponse) -> list[bytes]:
        lifetime = self._settings.lifetime_headers
        match answer:
            case Refused(problem):
                response = problem.to_response(self._options.documentation)
                return send(response, lifetime, start_response)
            case Replayed(receipt):
                return send(receipt.response, (*lifetime, REPLAYED), start_response)
            case Recorded(receipt):
                return send(receipt.response, lifetime, start_response)
            case Gone():
                return send(INCOMPLETE, (), start_response)
            case Answered() | Unprotected() | Exposed():
                raise TypeError(f"{answer!r} is the application's own answer")
            case _:
                assert_never(answer)


def _marking(start_response: StartResponse) -> StartResponse:
    """Add the mark of a request that was executed without protection."""

    def start(status: str, headers: HeaderList, exc_info: ExcInfo | None = None, /) -> Write:
        marked = [*headers, *native((UNPROTECTED,))]
        # Only with an exception: not every server takes None for it.
        return start_response(status, marked, *(() if exc_info is None else (exc_info,)))

    return start
