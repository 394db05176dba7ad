"""Deliveries of one event under every schedule of a small world; and mistakes that are caught."""

from __future__ import annotations

import pytest

from replayfloor.server.policy import Effects
from replayfloor.testing.explore_states import visit
from replayfloor.testing.server_scenario import Faults
from replayfloor.testing.server_webhooks import PROCESSES, Fails, HookScenario, Past
from simulation.broken_hooks import BROKEN

ONE_OF_EACH = Faults(crashes=1, expiries=1, lock_losses=1)
SHRUNK = 1000

every_mode = pytest.mark.parametrize("effects", list(Effects))


def _keeps_every_promise(scenario: HookScenario) -> None:
    found = visit(scenario.begin)

    assert found.shortest is None, str(found.shortest)
    assert found.schedules > SHRUNK, "the world has shrunk to nothing"


def _slow(*values: object) -> object:
    """Of the cases that differ least from another one."""
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("effects", "fails"),
    [
        (Effects.ATOMIC, Fails.ANSWERS),
        (Effects.EXTERNAL, Fails.ANSWERS),
        (Effects.REPEATABLE, Fails.RAISES),
        _slow(Effects.ATOMIC, Fails.RAISES),
        _slow(Effects.EXTERNAL, Fails.RAISES),
        _slow(Effects.REPEATABLE, Fails.ANSWERS),
    ],
)
def test_a_handler_that_fails_leaves_its_event_to_be_applied_once(
    effects: Effects, fails: Fails
) -> None:
    _keeps_every_promise(HookScenario(effects, faults=ONE_OF_EACH, process=PROCESSES[fails]))


@pytest.mark.parametrize(
    ("effects", "past"),
    [
        (Effects.EXTERNAL, Past.TOLD),
        (Effects.ATOMIC, Past.USED),
        (Effects.REPEATABLE, Past.USED),
        _slow(Effects.ATOMIC, Past.TOLD),
        _slow(Effects.REPEATABLE, Past.TOLD),
        _slow(Effects.EXTERNAL, Past.USED),
    ],
)
def test_an_event_past_its_horizon_is_acknowledged_and_not_applied(
    effects: Effects, past: Past
) -> None:
    _keeps_every_promise(HookScenario(effects, faults=ONE_OF_EACH, past=past))


@every_mode
def test_a_delivery_that_is_cancelled_leaves_its_event_to_be_applied_or_reconciled(
    effects: Effects,
) -> None:
    faults = Faults(cancels=1, lock_losses=1)
    _keeps_every_promise(HookScenario(effects, faults=faults))


@pytest.mark.slow
@every_mode
@pytest.mark.parametrize("fails", list(Fails))
def test_no_schedule_of_two_deliveries_with_every_fault_breaks_a_promise(
    effects: Effects, fails: Fails
) -> None:
    faults = Faults(crashes=1, expiries=1, lock_losses=1, lost_answers=1)
    _keeps_every_promise(HookScenario(effects, faults=faults, process=PROCESSES[fails]))


@pytest.mark.slow
@every_mode
def test_no_schedule_of_three_deliveries_breaks_a_promise(effects: Effects) -> None:
    process = PROCESSES[Fails.ANSWERS]
    scenario = HookScenario(effects, processes=3, faults=ONE_OF_EACH, process=process)
    _keeps_every_promise(scenario)


@pytest.mark.parametrize("protection", BROKEN)
def test_without_this_protection_a_schedule_breaks_a_promise(protection: str) -> None:
    make, promise = BROKEN[protection]
    found = visit(make().begin)

    assert found.shortest is not None
    assert promise in found.shortest.promise, str(found.shortest)
