"""A handler that is stopped by something that is no Exception: a signal, a server's timeout."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import cast

import pytest

from replayfloor.core.claims import Finish
from replayfloor.core.problem import ProblemKind
from replayfloor.server import ActiveClaim
from replayfloor.server.stores.sqlite import SQLiteReceipts
from server.wsgi_client import CREATED, Worker, environ, serve
from server.wsgi_server import Environ, StartResponse, WSGIApp

FRESH, REPLAY = (201, None, False), (201, None, True)
UNKNOWN = (409, ProblemKind.OUTCOME_UNKNOWN, False)
LEASE_S = 0.1


class GreenletExit(BaseException):
    """What gevent stops a handler with; it has no Exception among its bases either."""


every_end = pytest.mark.parametrize("end", [SystemExit, KeyboardInterrupt, GreenletExit])
every_place = pytest.mark.parametrize("place", ["call", "iteration"])


def stopping(worker: Worker, effects: str, end: type[BaseException], place: str) -> WSGIApp:
    """Return an application that writes a row and is stopped then."""

    def app(request: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if effects == "atomic":
            claim = cast("ActiveClaim", request["replayfloor.claim"])
            claim.connection.execute(worker.ledger.insert, ("atomic",))
        else:
            worker.ledger.write()
        if place == "call":
            raise end
        start_response("201 Created", list(CREATED))
        return body()

    def body() -> Iterator[bytes]:
        yield b"half"
        raise end

    return app


@every_end
@every_place
@pytest.mark.parametrize(
    ("effects", "after", "rows"), [("atomic", FRESH, 1), ("repeatable", FRESH, 2)]
)
def test_a_stopped_handler_that_left_nothing_or_may_run_again_frees_the_key(
    worker: Worker,
    end: type[BaseException],
    place: str,
    effects: str,
    after: object,
    rows: int,
) -> None:
    options: dict[str, object] = {"effects": effects}
    app = worker.protect(stopping(worker, effects, end, place), **options)

    with pytest.raises(end):
        serve(app)

    assert serve(worker.protect(worker.answering(), **options)).brief == after
    assert worker.rows == rows


@every_end
@every_place
def test_a_stopped_external_handler_is_unknown_and_never_runs_again(
    worker: Worker, end: type[BaseException], place: str
) -> None:
    app = worker.protect(stopping(worker, "external", end, place), lease_s=LEASE_S)

    with pytest.raises(end):
        serve(app)
    early = serve(worker.protect(worker.answering()))
    time.sleep(LEASE_S)
    late = serve(worker.protect(worker.answering()))

    assert early.problem in (ProblemKind.IN_FLIGHT, ProblemKind.OUTCOME_UNKNOWN)
    assert late.brief == UNKNOWN
    assert worker.rows == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_effect_is_recorded_although_its_settlement_is_stopped(
    worker: Worker, when: str
) -> None:
    """A signal handler that raises (gunicorn's worker timeout does) may run between any two steps
    of the main thread, so also while the receipt is written."""

    class Interrupted(SQLiteReceipts):
        stops = 1

        def finish(self, finish: Finish) -> bool:
            if when == "before":
                self.stop()
            finished = super().finish(finish)
            if when == "after":
                self.stop()
            return finished

        def stop(self) -> None:
            self.stops -= 1
            if self.stops == 0:
                raise SystemExit

    receipts = Interrupted(worker.folder / "receipts.db")
    app = worker.protect(worker.answering(), receipts=receipts)

    with pytest.raises(SystemExit):
        serve(app)
    receipts.close()

    assert serve(worker.protect(worker.answering())).brief == REPLAY
    assert worker.rows == 1


@pytest.mark.parametrize("principal", [None, 3, "raise"])
def test_a_principal_that_names_nobody_executes_nothing(worker: Worker, principal: object) -> None:
    def nobody(_request: Environ) -> str:
        if principal == "raise":
            raise LookupError("nobody")
        return cast("str", principal)

    answer = serve(worker.protect(worker.answering(), principal=nobody), environ())

    assert isinstance(answer.raised, Exception)
    assert worker.rows == 0
