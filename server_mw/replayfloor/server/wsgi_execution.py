"""One call of a WSGI application under a claim, from its environ to its answer.

The answer is settled when it is complete, or as soon as it is known to be too large or endless;
nothing of it is sent before. What the application returned is closed when the server closes what
it was given, as without us, or when the call fails.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator

from replayfloor.core.errors import UsageError
from replayfloor.server.claim import ActiveClaim
from replayfloor.server.events import EventKind
from replayfloor.server.flow import (
    Admitted,
    Answer,
    Answered,
    fail,
    period_ms,
    renew,
    settle,
    told,
)
from replayfloor.server.keeper import Alarm, LeaseKeeper
from replayfloor.server.perform import Performer
from replayfloor.server.perform_common import emit
from replayfloor.server.policy import Options
from replayfloor.server.settings import Settings
from replayfloor.server.wsgi_body import (
    StreamedBody,
    WholeBody,
    chain,
    close_iterable,
    native_of_settings,
)
from replayfloor.server.wsgi_capture import Capture, StartResponse, Write

Produce = Callable[[ActiveClaim, StartResponse], Iterable[bytes]]
"""Calls the application."""

Send = Callable[[Answer], list[bytes]]
"""Begins an answer that is not the application's, and returns its body."""


class Execution:
    """Calls the application once and settles its answer. One object per call."""

    def __init__(
        self,
        settings: Settings,
        options: Options,
        performer: Performer,
        admitted: Admitted,
        start_response: StartResponse,
    ) -> None:
        """Belong to one admitted request; `start_response` is the server's."""
        self._settings, self._options = settings, options
        self._performer, self._admitted = performer, admitted
        self._start_response = start_response
        limits = settings.response_bytes_max, settings.response_headers_max
        self._capture = Capture(*limits, self._settle_early)
        self._claim = ActiveClaim(
            admitted, options, performer.lease, performer.transaction, performer.finish_in
        )
        self._keeper: LeaseKeeper | None = None
        self._produced: Iterable[bytes] = ()
        self._settled = self._begun = False
        self._answer: Answer | None = None

    def run(self, produce: Produce, alarm: Alarm, send: Send) -> Iterable[bytes]:
        """Return the body for the server, which closes it.

        Raises what the application raises, and what settling raises; all is closed then.
        """
        try:
            first_s = period_ms(self._options) / 1000
            self._keeper = LeaseKeeper(alarm, first_s, self._renew, self._claim.lose)
            self._produced = produce(self._claim, self._capture.start_response)
            chunks = iter(self._produced)
            while not self._settled:
                self._take(chunks)
            return self._body(chunks, send)
        except BaseException as error:
            self._give_up(error)
            raise

    def close(self) -> None:
        """Close what the application returned."""
        close_iterable(self._produced)

    # -- the end of the answer --------------------------------------------------------------------

    def _take(self, chunks: Iterator[bytes]) -> None:
        try:
            chunk = next(chunks)
        except StopIteration:
            self._capture.complete = True
            if not self._settled:
                self._settle()
            return
        if self._settled:
            # It has pushed too much meanwhile; what it returns follows that.
            self._capture.write(chunk)
        elif self._capture.add(chunk):
            self._settle()

    def _settle(self) -> None:
        self._stop_renewing()
        captured = self._capture.captured(self._claim.recorded)
        # Set first: if settling fails, it has done its own cleanup, and the failure that now rises
        # through the application must not be taken for one of the application's.
        self._settled = True
        self._answer = self._performer.drive(settle(self._admitted, captured, self._options))

    def _settle_early(self) -> None:
        """Settle while the application pushes, and let through what it has pushed."""
        self._settle()
        if isinstance(self._answer, Answered):
            write = self._begin()
            for chunk in self._capture.chunks:
                write(chunk)
        else:
            self._capture.pass_through(_drop)

    def _give_up(self, error: BaseException) -> None:
        self._stop_renewing()
        try:
            self.close()
        finally:
            if not self._settled:
                recorded = self._claim.recorded
                self._performer.drive(fail(self._admitted, self._options, error, recorded))

    # -- sending ----------------------------------------------------------------------------------

    def _body(self, chunks: Iterator[bytes], send: Send) -> Iterable[bytes]:
        capture = self._capture
        match self._answer:
            case None:
                raise UsageError("the application went on although its answer was not settled")
            case Answered():
                if self._begun:
                    return StreamedBody(chunks, self.close)
                self._begin()
                if capture.complete:
                    return WholeBody(capture.chunks, self.close)
                return StreamedBody(chain(capture.chunks, chunks), self.close)
            case answer:
                return WholeBody(send(answer), self.close)

    def _begin(self) -> Write:
        self._begun = True
        lifetime = native_of_settings(self._settings.lifetime_headers)
        headers = [*self._capture.headers, *lifetime]
        write = self._start_response(self._capture.status, headers)
        self._capture.pass_through(write)
        return write

    def _stop_renewing(self) -> None:
        if self._keeper is not None:
            self._keeper.stop()
        if self._performer.lease.end():
            emit(self._settings, told(self._admitted, EventKind.LEASE_LOST))

    def _renew(self, stopped: threading.Event) -> None:
        self._performer.drive_until(stopped, renew(self._admitted, self._options))


def _drop(_data: bytes) -> None:
    """Take what is not sent."""
