"""One call of a WSGI application with a stored request. One object per call.

The answer is taken to its end, and what the application returned is closed after the event was
settled, as a server closes it after the answer was sent.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from replayfloor.core.errors import UsageError
from replayfloor.server.claim import ActiveClaim
from replayfloor.server.decorator_mark import mounted
from replayfloor.server.webhooks.inbox.effects import Handed
from replayfloor.server.webhooks.inbox.request import StoredRequest, to_environ
from replayfloor.server.wsgi_body import close_iterable
from replayfloor.server.wsgi_capture import ExcInfo, HeaderList, Write
from replayfloor.server.wsgi_exchange import WSGIApp

log = logging.getLogger("replayfloor.server")


class Call:
    """Hands the request over; see the module."""

    def __init__(self, request: StoredRequest, claim: ActiveClaim) -> None:
        """Call nothing yet."""
        self._claim = claim
        self._environ = to_environ(request)
        self._environ["replayfloor.claim"] = claim
        self._status = 0
        self._produced: Iterable[bytes] = ()

    def answer(self, app: WSGIApp) -> Handed:
        """Return the answer. An application that raises has failed; raises UsageError."""
        try:
            # It is served under a claim, as the guard of a decorated endpoint asks.
            with mounted():
                self._produced = app(self._environ, self._start_response)
                for _chunk in self._produced:
                    pass
        except (Exception, SystemExit) as error:
            # An application that gives up must not take the worker with it.
            log.exception("applying an event failed")
            return self._handed(0, type(error).__name__)
        if not self._status:
            raise UsageError("the application returned without calling start_response")
        return self._handed(self._status)

    def _handed(self, status: int, failure: str = "") -> Handed:
        return Handed(status, failure, self._claim.recorded is not None)

    def rest(self) -> None:
        """Close what the application returned."""
        produced, self._produced = self._produced, ()
        try:
            close_iterable(produced)
        except Exception:
            log.exception("an application failed after its answer")

    def _start_response(
        self, status: str, headers: HeaderList, exc_info: ExcInfo | None = None, /
    ) -> Write:
        """See PEP 3333. The last call before the body counts, as with a server."""
        del headers, exc_info
        self._status = int(status[:3])
        return _drop


def _drop(_data: bytes) -> None:
    """Take a part of a body that nobody reads."""
