"""The server flow under every schedule of a small world; and flows that must be caught there."""

from __future__ import annotations

import pytest

from replayfloor.server.policy import Effects
from replayfloor.testing.explore import explore
from replayfloor.testing.server_scenario import Faults, ServerScenario
from simulation.broken_flows import BROKEN

WORLDS = {
    "crash and expired lease": Faults(crashes=1, expiries=1),
    "crash and forgetful lock": Faults(crashes=1, lock_losses=1),
    "expired lease and forgetful lock": Faults(expiries=1, lock_losses=1),
    "lost answer and expired lease": Faults(lost_answers=1, expiries=1),
    "unreachable store and expired lease": Faults(failed_calls=1, expiries=1),
}


@pytest.mark.parametrize("effects", list(Effects))
@pytest.mark.parametrize("faults", WORLDS.values(), ids=WORLDS.keys())
def test_no_schedule_of_two_processes_breaks_a_promise(effects: Effects, faults: Faults) -> None:
    report = explore(ServerScenario(effects, processes=2, faults=faults))

    assert report.shortest is None, str(report.shortest)
    assert report.schedules > 100, "the world has shrunk to nothing"


@pytest.mark.parametrize("effects", [Effects.EXTERNAL, Effects.REPEATABLE])
@pytest.mark.parametrize("faults", WORLDS.values(), ids=WORLDS.keys())
def test_no_schedule_breaks_a_promise_if_the_handler_commits_its_own_receipt(
    effects: Effects, faults: Faults
) -> None:
    report = explore(ServerScenario(effects, processes=2, faults=faults, own_transaction=True))

    assert report.shortest is None, str(report.shortest)
    assert report.schedules > 100, "the world has shrunk to nothing"


@pytest.mark.slow
@pytest.mark.parametrize("effects", list(Effects))
def test_no_schedule_of_three_processes_breaks_a_promise(effects: Effects) -> None:
    faults = Faults(expiries=1) if effects is Effects.ATOMIC else Faults(crashes=1, expiries=1)
    report = explore(ServerScenario(effects, processes=3, faults=faults))

    assert report.shortest is None, str(report.shortest)


@pytest.mark.parametrize("mistake", BROKEN.keys())
def test_a_flow_with_this_mistake_is_caught(mistake: str) -> None:
    report = explore(BROKEN[mistake]())

    assert report.broken > 0
    assert report.shortest is not None
    assert report.shortest.schedule


def test_a_broken_schedule_is_printed_as_numbered_steps() -> None:
    report = explore(BROKEN["finish without fence"]())

    text = str(report.shortest)
    assert "executed 2 times" in text
    assert "a lease runs out" in text
    assert "  1. " in text
