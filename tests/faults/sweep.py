"""Kills a worker at every step of one request, one step after the other, and repeats the request.

What has to be true after each kill is in the tests.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import httpx

from faults.conftest import Stack
from faults.senders import post, retry, send
from support.failpoints import AT_STEP, BESIDE, COUNTED
from support.worker import Worker

PARALLEL = 6
"""Kills under way at a time: each mostly waits for a lease to run out."""

END_S = 0.3

RELEASE_S, RELEASE_TRIES = 0.02, 50
"""How long a worker that has answered may need to reach a step behind its answer."""


@dataclass(frozen=True, slots=True)
class Step:
    """A place where a worker died; `suspension` is not 0 if it had asked and was waiting."""

    number: int
    suspension: int
    name: str

    @classmethod
    def parse(cls, text: str) -> Step:
        """Return the step that a worker calls "3.1 receipts.claim asked"."""
        numbers, _, name = text.partition(" ")
        number, _, suspension = numbers.partition(".")
        return cls(int(number), int(suspension or 0), name)


@dataclass(frozen=True, slots=True)
class Ending:
    """What came after one kill.

    `step` is where it was (None if the request did not come so far). `first` is what the client of
    the killed worker got, if anything; `answer` the first definitive answer to its retries,
    `after_s` seconds later; `again` that to one more, from a third process. `runs` are the
    executions that wrote into the ledger.
    """

    step: Step | None
    first: httpx.Response | None
    answer: httpx.Response
    after_s: float
    again: httpx.Response
    runs: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Sweep:
    """The kills of one path; `steps` are those that an undisturbed request counts."""

    steps: Sequence[Step]
    endings: Sequence[Ending]

    def number_of(self, name: str) -> int:
        """Return the number of the step with this name."""
        (number,) = {step.number for step in self.steps if step.name == name}
        return number


RENEWALS = tuple(f"{each} {when}" for each in sorted(BESIDE) for when in ("asked", "answered"))


def sweep(stack: Stack, path: str) -> Sweep:
    """Kill at every step of a request that is sent to `path`, and once at none."""
    undisturbed = stack.add().start()
    assert _counted(undisturbed, path, "undisturbed", {}).status_code == 201
    time.sleep(END_S)
    reached: list[str] = undisturbed.ask("/steps").json()
    undisturbed.kill()
    numbers = [step.partition(" ")[0] for step in reached]
    return Sweep([Step.parse(step) for step in reached], kill(stack, path, [*numbers, "never"]))


def kill(stack: Stack, path: str, steps: Sequence[str], **pauses: str) -> list[Ending]:
    """Kill at some steps, given by number or by name."""

    def end(step: str) -> Ending:
        return _kill_at(stack, step, path, pauses)

    with ThreadPoolExecutor(PARALLEL) as pool:
        endings = list(pool.map(end, steps))
    runs = stack.ledger.all_runs()
    return [
        replace(ending, runs=runs.get(f"{path}-{step}", []))
        for step, ending in zip(steps, endings, strict=True)
    ]


def _counted(worker: Worker, path: str, name: str, pauses: Mapping[str, str]) -> httpx.Response:
    """Send a request whose steps are counted, to a worker that is not quite new.

    A first request opens connections; where it does so depends on the moment.
    """
    post(worker, "/atomic", f"{path}-{name}-warm")
    headers = {f"x-{pause}-ms": ms for pause, ms in pauses.items()} | {COUNTED.decode(): "1"}
    return send(worker, path, f"{path}-{name}", headers)


def _kill_at(stack: Stack, step: str, path: str, pauses: Mapping[str, str]) -> Ending:
    """Send one request to a worker that dies at a step; then to those that live."""
    worker = stack.add(LEDGER_STEP=step).start()
    try:
        first = _counted(worker, path, step, pauses)
    except httpx.TransportError:
        first = None
    died_at = time.monotonic()
    where = _where_it_died(worker)
    worker.kill()
    retried, third = stack.workers
    payment = f"{path}-{step}"
    answer = retry(retried, path, payment)
    after_s = time.monotonic() - died_at
    again = _once_the_lock_is_given_back(third, path, payment)
    return Ending(where, first, answer, after_s, again)


def _once_the_lock_is_given_back(worker: Worker, path: str, payment: str) -> httpx.Response:
    """Send a repetition to a worker that may be quicker than the lock's release by another one.

    Nobody waits for that release, so such a repetition is told 409 in-flight, for a moment.
    """
    answer = post(worker, path, payment)
    for _ in range(RELEASE_TRIES):
        if not (answer.status_code == 409 and answer.json()["type"].endswith(":in-flight")):
            break
        time.sleep(RELEASE_S)
        answer = post(worker, path, payment)
    return answer


def _where_it_died(worker: Worker) -> Step | None:
    worker.wait(END_S)
    found = re.search(f"{AT_STEP}(.*)", worker.log())
    return None if found is None else Step.parse(found[1])
