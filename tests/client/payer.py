"""A process that pays: many operations, several at a time, and what became of each in a report.

It is there to be killed. `Payers` is the test's end: a process that has imported everything, and
forks a payer whenever it is asked for one, so that a restart costs some 20 ms. What a payer reports
is in the file at once, and a kill takes nothing back.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401 - before the fork, for all payers, as the next one
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import httpcore  # noqa: F401
import httpx

from client.clients import NO_TLS, PATIENCE_S
from replayfloor.client import (
    IdempotentTransport,
    OperationClosed,
    OutcomePending,
    OutcomeUnknown,
    Profile,
    RetryPolicy,
)
from replayfloor.client.events import AttemptLeft, Event
from replayfloor.client.journal import open_journal

TESTS: Final = Path(__file__).resolve().parent.parent
AGAIN_S: Final = 0.02
"""Between two calls for an operation that could not be carried to an answer yet."""
CALLS_MAX: Final = 500
"""For one operation: each ends within its retention, or something is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a payer shall do. `at_once`: how many operations it works on at a time."""

    url: str
    journal: str
    report: str
    operations: Sequence[str]
    at_once: int
    retention_s: float
    margin_s: float
    lease_s: float

    @property
    def profile(self) -> Profile:
        """Return what the payer knows of the provider."""
        retention_s, margin_s = self.retention_s, self.margin_s
        return Profile(name="provider", quoted=False, retention_s=retention_s, margin_s=margin_s)


class Payer:
    """Works on an order, in a process of its own."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._left = deque(order.operations)
        self._report = os.open(order.report, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._client = httpx.Client(
            transport=IdempotentTransport(
                httpx.HTTPTransport(verify=NO_TLS),
                profile=order.profile,
                journal=open_journal(order.journal),
                retry=RetryPolicy(
                    attempts_max=20,
                    wait_base_s=0.01,
                    wait_cap_s=0.05,
                    budget_s=order.retention_s,
                    lease_s=order.lease_s,
                ),
                on_event=self._note,
            ),
            timeout=PATIENCE_S,
        )

    def work(self) -> None:
        """Settle every operation of the order."""
        threads = [threading.Thread(target=self._settle_all) for _ in range(self._order.at_once)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _settle_all(self) -> None:
        while True:
            try:
                operation = self._left.popleft()
            except IndexError:
                return
            for _ in range(CALLS_MAX):
                if self._settle(operation):
                    break
                time.sleep(AGAIN_S)

    def _settle(self, operation: str) -> bool:
        """Call for one operation; say whether it needs no further call."""
        extensions = {"idempotency": {"operation_id": operation}}
        body = {"operation": operation}
        try:
            answer = self._client.post(self._order.url, json=body, extensions=extensions)
        except OutcomeUnknown:
            self._tell(what="unknown", operation=operation)
        except OperationClosed:
            self._tell(what="closed", operation=operation)
        except (OutcomePending, httpx.TransportError):
            return False
        else:
            self._tell(what="answered", operation=operation, run=answer.json()["run"])
        return True

    def _note(self, event: Event) -> None:
        if isinstance(event, AttemptLeft):
            self._tell(what="left", operation=event.operation_id, at_ns=event.at_ns)

    def _tell(self, **what: object) -> None:
        os.write(self._report, json.dumps(what).encode() + b"\n")


class Payers:
    """Forks payers and kills them. No payer outlives `close`."""

    def __init__(self) -> None:
        path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "client.payer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            text=True,
            start_new_session=True,  # Ctrl-C must not reach it: it ends with its input
        )

    def fork(self, order: Order) -> int:
        """Return the pid of a payer that begins to work."""
        return self._ask({"order": asdict(order)})

    def kill(self, pid: int) -> None:
        """kill -9; when this returns, the process is gone."""
        self._ask({"kill": pid})

    def wait(self, pid: int) -> int:
        """Wait until a payer has ended; return its exit status."""
        return self._ask({"wait": pid})

    def _ask(self, what: object) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


# -- in the process that forks ----------------------------------------------------------------


def fork(order: Order) -> int:
    """Return the pid of a new payer."""
    if pid := os.fork():
        return pid
    status = 1
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        Payer(order).work()
        status = 0
    except BaseException:  # noqa: BLE001 - the end of a process: there is nobody to raise to
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Obey the orders of the input, one line each, and kill who is left at its end."""
    alive: set[int] = set()
    for line in sys.stdin:
        asked = json.loads(line)
        if "order" in asked:
            alive.add(answer := fork(Order(**asked["order"])))
        elif "kill" in asked:
            os.kill(asked["kill"], signal.SIGKILL)
            answer = _reap(asked["kill"], alive)
        else:
            answer = _reap(asked["wait"], alive)
        print(answer, flush=True)  # noqa: T201 - the answer to the test
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _reap(pid: int, alive: set[int]) -> int:
    """Wait for a payer's end; until then its pid is no other process's. Return its exit status."""
    alive.remove(pid)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    main()
