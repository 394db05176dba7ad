"""A worker is killed at every step of a request, one after the other; the retry is always right.

Whatever step it was: the effect is there once or (external, unknown) perhaps not at all, never
twice; and a client that only repeats its request learns how it ended soon after the lease.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from faults.conftest import Stack, both_sides
from faults.senders import UNKNOWN, is_replay, kind_of
from faults.sweep import RENEWALS, Ending, Step, Sweep, kill, sweep

LEASE_S = 0.5
SOON_S = LEASE_S + 1.0
"""A retry is answered definitively this long after a kill, at the latest."""

BUSY_S = 1.0
"""What one answer in ten may take longer: other tests run on the same two processors."""

BEYOND_A_RENEWAL_MS = "400"


def everywhere(*everyday: tuple[str, str]) -> pytest.MarkDecorator:
    """Run a test with either store and on either side; every day in these combinations only."""
    every = [(store, side) for store in ("postgres", "sqlite") for side in ("asgi", "wsgi")]
    return pytest.mark.parametrize(
        ("store", "side"),
        [pytest.param(*each, marks=() if each in everyday else pytest.mark.slow) for each in every],
    )


@pytest.fixture
def lease_s() -> float:
    """Short: a hundred leases have to run out."""
    return LEASE_S


def check(found: Sweep) -> None:
    """What is true whatever the handler's effect is, and that every step was tried."""
    check_endings(found.endings)
    died_at = {ending.step for ending in found.endings}
    # Of the suspensions, which are so many or so, some may not have come.
    assert {step for step in found.steps if not step.suspension} <= died_at
    assert found.endings[-1].step is None


def check_endings(endings: Sequence[Ending]) -> None:
    """What is true after each kill."""
    late = [ending for ending in endings if ending.after_s > SOON_S]
    assert len(late) <= len(endings) // 10, late
    for ending in endings:
        assert len(ending.runs) <= 1, ending
        assert ending.after_s <= SOON_S + BUSY_S, ending
        assert ending.answer.status_code == 201 or kind_of(ending.answer) is UNKNOWN, ending
        assert ending.again.content == ending.answer.content, ending
        assert is_replay(ending.again) == (ending.answer.status_code == 201), ending
        if ending.first is not None:
            # What a client was told stays true.
            assert ending.answer.content == ending.first.content, ending
            assert is_replay(ending.answer), ending


def run_of(ending: Ending) -> str:
    """Return the execution that an answer tells of."""
    return str(ending.answer.json()["run"])


@everywhere(("postgres", "asgi"), ("postgres", "wsgi"), ("sqlite", "asgi"))
def test_an_atomic_payment_is_charged_once_wherever_its_worker_dies(stack: Stack) -> None:
    found = sweep(stack, "/atomic")

    check(found)
    for ending in found.endings:
        assert ending.runs == [run_of(ending)], ending
    assert stack.claims() == 0


@everywhere(("postgres", "asgi"))
def test_a_repeatable_payment_is_charged_once_wherever_its_worker_dies(stack: Stack) -> None:
    found = sweep(stack, "/repeatable")

    check(found)
    for ending in found.endings:
        assert ending.answer.status_code == 201, ending
        assert len(ending.runs) == 1, ending
    assert stack.claims() == 0


@everywhere(("postgres", "asgi"), ("postgres", "wsgi"))
def test_an_external_payment_is_unknown_only_if_its_worker_died_with_the_claim(
    stack: Stack, side: str
) -> None:
    found = sweep(stack, "/external")

    check(found)
    claimed = found.number_of("receipts.claim answered")
    finished = found.number_of("receipts.finish answered")
    for ending in found.endings:
        unknown = kind_of(ending.answer) is UNKNOWN
        assert unknown or ending.runs == [run_of(ending)], ending
        step = ending.step or Step(finished, 0, "the end")
        if not is_open(step, claimed, side) and not is_open(step, finished, side):
            assert unknown == (claimed <= step.number < finished), ending
    assert stack.claims() == sum(kind_of(ending.answer) is UNKNOWN for ending in found.endings)


@pytest.mark.parametrize("side", ["asgi", pytest.param("wsgi", marks=pytest.mark.slow)])
def test_a_payment_recorded_in_the_handlers_own_transaction_is_known_if_and_only_if_it_was_made(
    postgres_stack: Stack,
) -> None:
    found = sweep(postgres_stack, "/recorded")

    check(found)
    for ending in found.endings:
        unknown = kind_of(ending.answer) is UNKNOWN
        assert ending.runs == ([] if unknown else [run_of(ending)]), ending


@both_sides
@pytest.mark.parametrize("path", ["/atomic", "/external", "/repeatable"])
def test_a_worker_may_die_while_it_renews_its_lease(postgres_stack: Stack, path: str) -> None:
    endings = kill(postgres_stack, path, RENEWALS, before=BEYOND_A_RENEWAL_MS)

    check_endings(endings)
    assert {ending.step and ending.step.name for ending in endings} == set(RENEWALS)
    for ending in endings:
        unknown = kind_of(ending.answer) is UNKNOWN
        assert unknown == (path == "/external")
        assert len(ending.runs) == (0 if unknown else 1)


def is_open(step: Step, answered: int, side: str) -> bool:
    """Say whether the database had the question, and perhaps came before the kill, perhaps after.

    Blocking code dies a moment after it has asked, which may be later than its answer.
    """
    return step.suspension > 0 and (step.number == answered - 1 or side == "wsgi")


def test_the_kills_find_a_handler_that_is_called_repeatable_and_is_not(
    postgres_stack: Stack,
) -> None:
    endings = kill(postgres_stack, "/mislabelled", ["effect begun", "effect committed"])

    assert [len(ending.runs) for ending in endings] == [1, 2]
    with pytest.raises(AssertionError):
        check_endings(endings)
