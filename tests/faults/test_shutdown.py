"""A server is told to end while a handler runs: what it did is recorded, undone, or unknown."""

from __future__ import annotations

import signal

import pytest

from faults.conftest import LEASE_S, Stack
from faults.senders import (
    UNKNOWN,
    in_background,
    is_replay,
    kind_of,
    post,
    retry,
    wait_for_handler,
)

GRACE_S = "0"
"""How long uvicorn waits for requests in flight: shorter than any handler."""

END_S = 8.0
"""When the process is gone at the latest, with all that it had to settle."""

LONG_LEASE_S = "60"
SLOW_MS = "30000"
QUICK_MS = "300"

every_effect = pytest.mark.parametrize("path", ["/atomic", "/external", "/repeatable"])


@every_effect
def test_a_handler_that_ends_within_the_grace_is_recorded(stack: Stack, path: str) -> None:
    ending = stack.add(LEDGER_GRACE_S="5").start()
    under_way = in_background(ending, path, "g1", after=QUICK_MS)
    wait_for_handler(ending, "after")
    ending.send(signal.SIGTERM)
    answer = under_way.result()
    assert ending.wait(END_S)
    replayed = retry(ending.start(), path, "g1")

    assert answer.status_code == 201
    assert is_replay(replayed)
    assert replayed.content == answer.content
    assert stack.ledger.runs("g1") == [answer.json()["run"]]


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.slow), "after"])
@every_effect
def test_a_handler_that_outlasts_the_grace_is_undone_or_unknown_and_its_key_is_not_stranded(
    stack: Stack, path: str, when: str
) -> None:
    ending = stack.add(LEDGER_GRACE_S=GRACE_S).start()
    in_background(ending, path, "g2", **{when: SLOW_MS})
    wait_for_handler(ending, when)
    ending.send(signal.SIGTERM)
    assert ending.wait(END_S)
    answer = retry(ending.start(), path, "g2", within_s=LEASE_S + 1)

    if path == "/external":
        assert kind_of(answer) is UNKNOWN
        assert stack.rows("g2") == (when == "after")
    else:
        assert answer.status_code == 201
        assert stack.rows("g2") == 1
    assert stack.claims() == (path == "/external")


@pytest.mark.parametrize("path", ["/atomic", "/repeatable"])
def test_the_key_of_a_handler_that_was_cut_off_is_free_when_the_server_has_ended(
    stack: Stack, path: str
) -> None:
    """The lease is for workers that die; one that is told to end gives its keys back."""
    ending = stack.add(LEDGER_GRACE_S=GRACE_S, LEDGER_LEASE_S=LONG_LEASE_S).start()
    in_background(ending, path, "g3", after=SLOW_MS)
    wait_for_handler(ending, "after")
    ending.send(signal.SIGTERM)
    assert ending.wait(END_S)

    assert stack.claims() == 0
    assert post(ending.start(), path, "g3").status_code == 201
    assert stack.rows("g3") == 1
