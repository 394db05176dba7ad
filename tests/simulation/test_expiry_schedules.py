"""A key's whole life under every schedule of a small world; and mistakes that are caught there."""

from __future__ import annotations

import pytest

from replayfloor.server.policy import Effects
from replayfloor.testing.explore_states import visit
from replayfloor.testing.server_expiry import ExpiryScenario, Tells
from simulation.broken_expiry import BROKEN

KNOWN = [(Tells.KEY, False), (Tells.FIRST_SENT, False), (Tells.NOTHING, True), (Tells.KEY, True)]
known = pytest.mark.parametrize(("tells", "to_proofs"), KNOWN)


def test_no_schedule_of_two_requests_executes_a_key_twice_or_replays_it_too_late() -> None:
    report = visit(ExpiryScenario().begin)

    assert report.shortest is None, str(report.shortest)
    assert report.schedules > 1000, "the world has shrunk to nothing"


def test_no_schedule_of_an_atomic_handler_breaks_a_promise() -> None:
    report = visit(ExpiryScenario(effects=Effects.ATOMIC, requests=3, at_once=1).begin)

    assert report.shortest is None, str(report.shortest)
    assert report.schedules > 300, "the world has shrunk to nothing"


def test_no_schedule_of_two_requests_to_an_atomic_handler_breaks_a_promise() -> None:
    report = visit(ExpiryScenario(effects=Effects.ATOMIC).begin)

    assert report.shortest is None, str(report.shortest)


def test_no_schedule_with_a_forgetful_lock_breaks_a_promise() -> None:
    report = visit(ExpiryScenario(at_once=1, lock_losses=1).begin)

    assert report.shortest is None, str(report.shortest)
    assert report.schedules > 1000, "the world has shrunk to nothing"


@known
def test_no_schedule_of_three_requests_one_after_the_other_breaks_a_promise(
    tells: Tells, to_proofs: bool
) -> None:
    report = visit(ExpiryScenario(tells=tells, to_proofs=to_proofs, requests=3, at_once=1).begin)

    assert report.shortest is None, str(report.shortest)
    assert report.schedules > 300, "the world has shrunk to nothing"


@known
def test_no_schedule_of_two_requests_breaks_a_promise_whatever_tells_the_age(
    tells: Tells, to_proofs: bool
) -> None:
    report = visit(ExpiryScenario(tells=tells, to_proofs=to_proofs).begin)

    assert report.shortest is None, str(report.shortest)


def test_without_age_and_proof_a_second_execution_is_possible_once_the_receipt_has_gone() -> None:
    """What is promised of such a key is the refusal while its row stands, and no more."""
    report = visit(ExpiryScenario(tells=Tells.NOTHING, at_once=1).begin)

    assert report.shortest is None, str(report.shortest)


@pytest.mark.parametrize("mistake", BROKEN)
def test_a_flow_with_this_mistake_is_caught(mistake: str) -> None:
    report = visit(BROKEN[mistake]().begin)

    assert report.broken > 0
    assert report.shortest is not None
    assert report.shortest.schedule
