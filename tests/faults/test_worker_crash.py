"""A worker dies in the middle of a request; another one gets the retry."""

from __future__ import annotations

import httpx

from faults.conftest import Stack, both_sides, combinations
from faults.senders import (
    UNKNOWN,
    WAIT_S,
    in_background,
    kind_of,
    post,
    retry,
    wait_for_handler,
)

SLOW_MS = "30000"


@combinations("/atomic")
def test_killed_before_the_commit_an_atomic_payment_is_charged_by_the_retry(
    stack: Stack, path: str
) -> None:
    first, second = stack.workers
    lost = in_background(first, path, "a1", before=SLOW_MS)
    wait_for_handler(first, "before")
    first.kill()
    answer = retry(second, path, "a1")

    assert answer.status_code == 201
    assert stack.rows("a1") == 1
    assert isinstance(lost.exception(WAIT_S), httpx.HTTPError)


@both_sides
def test_killed_after_the_write_an_atomic_payment_is_still_charged_once(
    postgres_stack: Stack,
) -> None:
    first, second = postgres_stack.workers
    in_background(first, "/atomic", "a2", after=SLOW_MS)
    wait_for_handler(first, "after")
    first.kill()
    answer = retry(second, "/atomic", "a2")

    assert answer.status_code == 201
    assert postgres_stack.rows("a2") == 1


@combinations("/external")
def test_killed_after_the_effect_an_external_payment_is_unknown_and_never_run_again(
    stack: Stack, path: str
) -> None:
    first, second = stack.workers
    in_background(first, path, "e1", after=SLOW_MS)
    wait_for_handler(first, "after")
    first.kill()
    answer = retry(second, path, "e1")
    first.start()
    again = post(first, path, "e1")

    assert (answer.status_code, again.status_code) == (409, 409)
    assert kind_of(answer) is kind_of(again) is UNKNOWN
    assert int(answer.headers["retry-after"]) > 1
    assert stack.rows("e1") == 1
