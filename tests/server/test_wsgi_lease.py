"""The threads that keep leases: only for long handlers, and only while they run."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import cast

import pytest

from replayfloor.core.claims import Renew
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.problem import ProblemKind
from replayfloor.server import ActiveClaim, EventKind, ServerEvent
from replayfloor.server.keeper import Alarm, LeaseKeeper
from replayfloor.server.stores.sqlite import SQLiteReceipts
from server.wire import Answer
from server.wsgi_client import Worker, environ, serve
from server.wsgi_server import Environ, StartResponse, WSGIApp

LEASE_S = 0.2
FRESH = (201, None, False)
IN_FLIGHT = (409, ProblemKind.IN_FLIGHT, False)
PATIENCE_S = 5.0


_before: set[threading.Thread] = set()
"""Threads that earlier tests left: one alarm waits for a lease that nobody holds any more."""


def ours() -> list[str]:
    """Return the names of the threads that keep leases of this test, here and now."""
    names = (thread.name for thread in threading.enumerate() if thread not in _before)
    return sorted(name for name in names if name.startswith("replayfloor"))


def become(expected: Callable[[], bool]) -> bool:
    """Wait until something is so; say whether it came to be."""
    deadline = time.monotonic() + PATIENCE_S
    while not expected():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


Seen = list[tuple[list[str], bool]]
"""Of each handler: the threads that kept leases at its end, and whether its claim was lost."""


def taking(worker: Worker, seconds: float, seen: Seen | None = None) -> WSGIApp:
    """Return an application whose handler takes its time."""

    def app(request: Environ, start_response: StartResponse) -> Iterable[bytes]:
        time.sleep(seconds)
        if seen is not None:
            seen.append((ours(), cast("ActiveClaim", request["replayfloor.claim"]).lost))
        return worker.answering()(request, start_response)

    return app


@pytest.fixture(autouse=True)
def threads_before() -> None:
    """Remember what is there already."""
    _before.clear()
    _before.update(threading.enumerate())


def test_a_long_handler_has_a_thread_and_nobody_has_it_afterwards(worker: Worker) -> None:
    seen: Seen = []

    answer = serve(worker.protect(taking(worker, 4 * LEASE_S, seen), lease_s=LEASE_S))

    assert answer.brief == FRESH
    assert seen == [(["replayfloor-lease"], False)]
    assert become(lambda: ours() == [])


def test_short_handlers_share_one_thread_that_ends_when_there_are_none(worker: Worker) -> None:
    app = worker.protect(taking(worker, 0.0), lease_s=3 * LEASE_S)
    most = 0

    for number in range(20):
        serve(app, environ(key=f'"k-{number}"'))
        most = max(most, len(ours()))

    assert most == 1
    assert become(lambda: ours() == [])
    assert worker.rows == 20


@pytest.mark.parametrize("ends", ["raises", "answers 429"])
def test_the_thread_ends_with_a_handler_that_fails(worker: Worker, ends: str) -> None:
    def app(request: Environ, start_response: StartResponse) -> Iterable[bytes]:
        time.sleep(2 * LEASE_S)
        if ends == "raises":
            raise LookupError
        return worker.answering(status="429 Too Many Requests")(request, start_response)

    events: list[ServerEvent] = []
    serve(worker.protect(app, lease_s=LEASE_S, on_event=events.append))

    assert become(lambda: ours() == [])
    assert EventKind.LEASE_LOST not in [event.kind for event in events]


def test_handlers_at_once_are_each_renewed(worker: Worker) -> None:
    app = worker.protect(taking(worker, 6 * LEASE_S), lease_s=LEASE_S)
    answers: list[Answer] = []
    threads = [
        threading.Thread(
            target=lambda n=number: answers.append(serve(app, environ(key=f'"k-{n}"')))
        )
        for number in range(6)
    ]

    for thread in threads:
        thread.start()
    time.sleep(3 * LEASE_S)
    others = [serve(app, environ(key=f'"k-{number}"')).brief for number in range(6)]
    for thread in threads:
        thread.join()

    assert others == [IN_FLIGHT] * 6
    assert [each.brief for each in answers] == [FRESH] * 6
    assert worker.rows == 6


def test_a_system_without_threads_left_executes_without_renewal_and_says_so(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_more(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_more)

    with caplog.at_level(logging.ERROR):
        answer = serve(worker.protect(worker.answering()))

    assert answer.brief == FRESH
    assert "no thread could be started" in caplog.text


def test_a_defect_of_the_store_in_a_renewal_is_logged_and_told_to_the_handler(
    worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    class Defective(SQLiteReceipts):
        def renew(self, renew: Renew) -> bool:
            raise LookupError("a defect")

    receipts = Defective(worker.folder / "receipts.db")
    seen: Seen = []
    app = worker.protect(taking(worker, LEASE_S, seen), receipts=receipts, lease_s=LEASE_S)

    answer = serve(app)
    receipts.close()

    assert answer.brief == FRESH
    assert [lost for _names, lost in seen] == [True]
    assert "a lease could not be renewed" in caplog.text


def test_a_renewal_that_hangs_delays_neither_the_answer_nor_other_requests(
    worker: Worker,
) -> None:
    going_on = threading.Event()

    class Hanging(SQLiteReceipts):
        def renew(self, renew: Renew) -> bool:
            going_on.wait(PATIENCE_S)
            raise StoreUnavailable("away")

    events: list[ServerEvent] = []
    receipts = Hanging(worker.folder / "receipts.db")
    # Longer than to the first renewal, and not as long as the lease.
    app = worker.protect(
        taking(worker, LEASE_S / 2), receipts=receipts, lease_s=LEASE_S, on_event=events.append
    )

    begun = time.monotonic()
    answers = [serve(app, environ(key=key)).brief for key in ('"a"', '"b"')]
    took_s = time.monotonic() - begun
    going_on.set()

    assert answers == [FRESH, FRESH]
    assert took_s < PATIENCE_S / 2
    assert become(lambda: ours() == [])
    receipts.close()
    assert EventKind.LEASE_LOST not in [event.kind for event in events]


# -- the alarm ----------------------------------------------------------------------------------


def _keeper(alarm: Alarm, seen: list[str], in_s: float = 0.01) -> LeaseKeeper:
    return LeaseKeeper(alarm, in_s, lambda _stopped: seen.append("begun"), lambda: None)


def test_the_alarm_begins_each_at_its_time_whatever_the_order_they_came_in() -> None:
    alarm, begun = Alarm(), list[float]()
    keepers = list[LeaseKeeper]()
    for in_s in (0.3, 0.1, 0.2):
        begin = partial(lambda at, _stop: begun.append(at), in_s)
        keepers.append(LeaseKeeper(alarm, in_s, begin, lambda: None))
        time.sleep(0.02)  # so that the alarm waits for the one before

    assert become(lambda: len(begun) == 3)
    assert begun == [0.1, 0.2, 0.3]
    for keeper in keepers:
        keeper.stop()


def test_the_alarm_forgets_those_that_were_stopped() -> None:
    """Of a thousand requests a second and a lease of hours, none may stay until its time."""
    alarm, seen = Alarm(), list[str]()

    for _ in range(1000):
        _keeper(alarm, seen, in_s=3600.0).stop()

    (clock,) = alarm._clocks.values()
    assert clock._due == {}
    assert seen == []
