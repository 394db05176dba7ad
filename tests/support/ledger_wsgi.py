"""The ledger application for WSGI, behind the middleware; served in a process by `serving`.

The same handlers as in `ledger_app`, without the one for background tasks, which WSGI has not.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import IO, cast

import psycopg

from replayfloor.core.message import Response
from replayfloor.server import ActiveClaim, Lock, Receipts, WSGIIdempotencyMiddleware
from replayfloor.server.locks import open_lock
from replayfloor.server.stores import open_receipts
from replayfloor.server.stores.postgres import PostgresReceipts
from support.failpoints import Stepped
from support.failpoints_wsgi import Environ, StartResponse, SteppedWSGI, WSGIApp
from support.ledger import SQLITE_SCHEME
from support.ledger_common import POLL_S, LedgerState, new_run

JSON = (b"content-type", b"application/json")

Handler = Callable[["Request"], Response]


class Request:
    """One request, as far as the handlers need it."""

    def __init__(self, environ: Environ) -> None:
        """Read the body."""
        self._environ = environ
        self.claim = cast("ActiveClaim", environ.get("replayfloor.claim"))
        body = cast("IO[bytes]", environ["wsgi.input"]).read(int(str(environ["CONTENT_LENGTH"])))
        self.payment = str(json.loads(body)["payment"])

    def header(self, name: str) -> str | None:
        """Return a header."""
        value = self._environ.get("HTTP_" + name.upper().replace("-", "_"))
        return None if value is None else str(value)


class LedgerApp:
    """The handlers of one process."""

    def __init__(self, state: LedgerState, receipts_url: str) -> None:
        """Write where `state` does."""
        self._state, self._receipts_url = state, receipts_url
        self._writing: dict[str, Handler] = {
            "/atomic": self.atomic,
            "/external": self.external,
            "/recorded": self.recorded,
            "/repeatable": self.repeatable,
            "/mislabelled": self.external,
        }

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Serve one request."""
        path = str(environ["PATH_INFO"])
        if environ["REQUEST_METHOD"] == "POST":
            answer = self._writing[path](Request(environ))
        else:
            answer = Response(200, (JSON,), json.dumps(self._state.questions()[path]).encode())
        headers = [(name.decode(), value.decode()) for name, value in answer.headers]
        headers.append(("content-length", str(len(answer.body))))
        start_response(f"{answer.status} {HTTPStatus(answer.status).phrase}", headers)
        return [answer.body]

    def atomic(self, request: Request) -> Response:
        """Write through the claim's connection."""
        run = new_run()
        self.pause(request, "before")
        request.claim.connection.execute(self._state.insert, (request.payment, run, None))
        self.pause(request, "after")
        return created(request, run)

    def external(self, request: Request) -> Response:
        """Write and commit elsewhere, as another service would."""
        run = new_run()
        self.pause(request, "before")
        self._state.write(request.payment, run)
        self.pause(request, "after")
        return created(request, run)

    def recorded(self, request: Request) -> Response:
        """Write, and finish the receipt, in a transaction of our own."""
        run, reach = new_run(), self._state.steps.reach
        with psycopg.connect(self._receipts_url) as database:
            self.pause(request, "before")
            database.execute(self._state.insert.encode(), (request.payment, run, None))
            reach("effect written and not committed")
            answer = created(request, run)
            request.claim.finish_in(database, answer)
            reach("receipt written and not committed")
            database.commit()
            reach("effect and receipt committed")
        self.pause(request, "after")
        return answer

    def repeatable(self, request: Request) -> Response:
        """Write under a name that is the same in every execution under the key."""
        run, name = new_run(), request.claim.derived_key("charge")
        self.pause(request, "before")
        self._state.write(request.payment, run, name)
        self.pause(request, "after")
        return created(request, run)

    def pause(self, request: Request, when: str) -> None:
        """Wait for as long as a header of the request says (milliseconds), or "until-lost"."""
        wanted = request.header(f"x-{when}-ms") or "0"
        with self._state.pausing(when):
            if wanted != "until-lost":
                time.sleep(int(wanted) / 1000)
                return
            while not request.claim.lost:
                time.sleep(POLL_S)


def created(request: Request, run: str) -> Response:
    """Return the answer of an execution."""
    content = {"payment": request.payment, "run": run, "lost": request.claim.lost}
    return Response(201, (JSON,), json.dumps(content).encode())


def make_wsgi_app(environment: Mapping[str, str]) -> WSGIApp:
    """Return the application behind the middleware, every step of both counted."""
    state = LedgerState(environment)
    steps = state.steps
    app = LedgerApp(state, environment["LEDGER_RECEIPTS"])
    protected = WSGIIdempotencyMiddleware(
        SteppedWSGI(app, steps, "handler"),
        receipts=cast("Receipts", Stepped(receipts_of(environment), steps, "receipts")),
        lock=cast("Lock", Stepped(lock_of(environment), steps, "lock")),
        principal=None,
        **state.protection(),
    )
    protected.open()
    return SteppedWSGI(protected, steps, "server")


def receipts_of(environment: Mapping[str, str]) -> Receipts:
    """Return the store that `LEDGER_RECEIPTS` names; `LEDGER_OPERATION_S` is its patience."""
    url = environment["LEDGER_RECEIPTS"]
    operation_s = environment.get("LEDGER_OPERATION_S")
    if operation_s is None or url.startswith(SQLITE_SCHEME):
        return open_receipts(url)
    return PostgresReceipts(url, operation_s=float(operation_s))


def lock_of(environment: Mapping[str, str]) -> Lock:
    """Return the lock that `LEDGER_LOCK` names."""
    return open_lock(environment.get("LEDGER_LOCK", "local"))
