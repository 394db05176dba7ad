"""Clients of the ledger application: one request, many at once, and retries until an answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future

import httpx

from replayfloor.core.problem import ProblemKind, problem_kind
from support.worker import Worker

ANSWER_S = 30.0
WAIT_S = 20.0
POLL_S = 0.02
RETRY_PAUSE_S = 0.1
"""Shorter than any Retry-After, as the clients are that a server has to bear."""

IN_FLIGHT, UNKNOWN = ProblemKind.IN_FLIGHT, ProblemKind.OUTCOME_UNKNOWN
UNAVAILABLE = ProblemKind.STORE_UNAVAILABLE


def post(worker: Worker | str, path: str, payment: str, **pauses: str) -> httpx.Response:
    """Send a payment under its own key; `before` and `after` are the handler's pauses in ms."""
    return send(worker, path, payment, {f"x-{name}-ms": ms for name, ms in pauses.items()})


def send(
    worker: Worker | str,
    path: str,
    payment: str,
    extra: Mapping[str, str],
    patience_s: float = ANSWER_S,
) -> httpx.Response:
    """Send a payment under its own key, with extra headers."""
    url = worker if isinstance(worker, str) else worker.url
    headers = {"Idempotency-Key": f'"{payment}"', **extra}
    # Without certificates and environment, which nothing here needs, a client starts at once.
    with httpx.Client(verify=False, trust_env=False, timeout=patience_s) as sender:
        return sender.post(f"{url}{path}", json={"payment": payment}, headers=headers)


def kind_of(answer: httpx.Response) -> ProblemKind | None:
    """Return which refusal of the middleware an answer is, if it is one."""
    return problem_kind(answer.headers.get("content-type", "").encode(), answer.content)


def is_replay(answer: httpx.Response) -> bool:
    """Say whether an answer is marked as a repetition."""
    return bool(answer.headers.get("idempotent-replayed") == "true")


def in_background(worker: Worker, path: str, payment: str, **pauses: str) -> Future[httpx.Response]:
    """Send a payment from a thread that does not hold the test up."""
    return in_thread(lambda: post(worker, path, payment, **pauses))


def in_thread(work: Callable[[], httpx.Response]) -> Future[httpx.Response]:
    """Run something in a thread that nobody has to wait for."""
    future: Future[httpx.Response] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except httpx.HTTPError as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def wait_for(what: str, condition: Callable[[], bool]) -> None:
    """Poll until a condition holds."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(POLL_S)


def wait_for_handler(worker: Worker, when: str) -> None:
    """Wait until one handler of the worker pauses "before" or "after" its effect."""
    wait_for(f"a handler that pauses {when}", lambda: worker.pausing(when) == 1)


def retry(
    worker: Worker,
    path: str,
    payment: str,
    *,
    past: Collection[ProblemKind | None] = (IN_FLIGHT,),
    within_s: float = WAIT_S,
    **pauses: str,
) -> httpx.Response:
    """Repeat a payment, as a client does, until its answer is none of the refusals in `past`."""
    deadline = time.monotonic() + within_s
    while True:
        answer = post(worker, path, payment, **pauses)
        if kind_of(answer) not in past:
            return answer
        assert time.monotonic() < deadline, f"still refused: {answer.text}"
        time.sleep(RETRY_PAUSE_S)
