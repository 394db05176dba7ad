"""Forks of a process that has used the middleware; run by test_wsgi_fork.py as a program.

In a process of its own: a test runner has threads and locks of its own that a fork breaks.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from replayfloor.core.problem import ProblemKind
from replayfloor.server.keeper import Alarm, LeaseKeeper
from server.wsgi_client import Worker, environ, serve
from server.wsgi_server import Environ, StartResponse, WSGIApp

LEASE_S = 0.3
FRESH = (201, None, False)
IN_FLIGHT = (409, ProblemKind.IN_FLIGHT, False)
DEADLOCK_S = 10


def in_child(work: Callable[[], bool]) -> bool:
    """Run something in a forked process; say whether it was so there, in time."""
    child = os.fork()
    if child == 0:
        signal.alarm(DEADLOCK_S)
        try:
            held = work()
        except BaseException as error:  # noqa: BLE001 - a child must never go on from here
            print(repr(error), file=sys.stderr)  # noqa: T201 - a program
            held = False
        os._exit(0 if held else 1)
    _pid, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        print("deadlock", file=sys.stderr)  # noqa: T201
    return status == 0


def taking(worker: Worker, seconds: float) -> WSGIApp:
    """Return an application whose handler takes its time."""

    def app(request: Environ, start_response: StartResponse) -> Iterable[bytes]:
        time.sleep(seconds)
        return worker.answering()(request, start_response)

    return app


def renews(worker: Worker) -> bool:
    """Whether a child keeps the lease of a handler of its own, forked while the parent has one."""
    app = worker.protect(taking(worker, 4 * LEASE_S), lease_s=LEASE_S)
    answers: list[object] = []

    def serve_here(key: str) -> threading.Thread:
        thread = threading.Thread(target=lambda: answers.append(serve(app, environ(key=key)).brief))
        thread.start()
        return thread

    parents = serve_here('"parent"')
    # Its alarm waits, and nobody is inside SQLite, whose own locks do not survive a fork.
    time.sleep(LEASE_S / 6)

    def child() -> bool:
        own = serve_here('"child"')
        time.sleep(3 * LEASE_S)
        other = serve(worker.protect(worker.answering()), environ(key='"child"')).brief
        own.join()
        return (answers, other) == ([FRESH], IN_FLIGHT)

    renewed = in_child(child)
    parents.join()
    return renewed and answers == [FRESH] and worker.rows == 2


def is_not_held_up() -> bool:
    """Whether a child's alarm works although the parent's is in use at the moment of the fork."""
    alarm, forking = Alarm(), threading.Event()

    def keeper(in_s: float, renew: Callable[[threading.Event], None]) -> LeaseKeeper:
        return LeaseKeeper(alarm, in_s, renew, lambda: None)

    def busy() -> None:
        while not forking.is_set():
            keeper(60.0, lambda _stopped: None).stop()

    def child() -> bool:
        begun = threading.Event()
        keeper(0.01, lambda _stopped: begun.set())
        return begun.wait(DEADLOCK_S)

    threads = [threading.Thread(target=busy, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    held = all(in_child(child) for _ in range(50))
    forking.set()
    return held


def main() -> int:
    """Return 0 if all of it was as promised."""
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(Path(folder))
        if not renews(worker):
            return 1
        worker.receipts.close()
    return 0 if is_not_held_up() else 2


if __name__ == "__main__":
    raise SystemExit(main())
