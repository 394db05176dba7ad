"""The server flow under every schedule of a small world; and flows that must be caught there."""

from __future__ import annotations

import pytest

from replayfloor.server.policy import Effects
from replayfloor.testing.explore import read_path
from replayfloor.testing.explore_states import replay, visit
from replayfloor.testing.server_scenario import Faults, ServerScenario
from simulation.broken_server import BROKEN

ONE_OF_EACH = Faults(crashes=1, expiries=1, lock_losses=1)

WORLDS = {
    "crash, expired lease and forgetful lock": ONE_OF_EACH,
    "lost answer, expired lease and forgetful lock": Faults(
        lost_answers=1, expiries=1, lock_losses=1
    ),
    "lost answer and crash": Faults(lost_answers=1, crashes=1),
    "two lost answers": Faults(lost_answers=2),
    "unreachable store and expired lease": Faults(failed_calls=1, expiries=1),
    "cancelled request and forgetful lock": Faults(cancels=1, lock_losses=1),
    "cancelled request and unreachable store": Faults(cancels=1, failed_calls=1),
    "failover of the lock, stale answer and crash": Faults(failovers=1, stale_reads=1, crashes=1),
    "two steps of the stores' clock": Faults(clock_steps=2),
}
SHRUNK = 400

every_mode = pytest.mark.parametrize("effects", list(Effects))
every_world = pytest.mark.parametrize("faults", WORLDS.values(), ids=WORLDS.keys())


def _keeps_every_promise(scenario: ServerScenario, *, more_than: int = SHRUNK) -> None:
    found = visit(scenario.begin)

    assert found.shortest is None, str(found.shortest)
    assert found.schedules > more_than, "the world has shrunk to nothing"


@every_mode
@every_world
def test_no_schedule_of_two_processes_breaks_a_promise(effects: Effects, faults: Faults) -> None:
    _keeps_every_promise(ServerScenario(effects, faults=faults))


@pytest.mark.parametrize("effects", [Effects.EXTERNAL, Effects.REPEATABLE])
@every_world
def test_no_schedule_breaks_a_promise_if_the_handler_commits_its_own_receipt(
    effects: Effects, faults: Faults
) -> None:
    _keeps_every_promise(ServerScenario(effects, faults=faults, own_transaction=True))


@every_mode
def test_no_schedule_of_slow_handlers_breaks_a_promise(effects: Effects) -> None:
    """Longer than a lease, which is renewed; and with a lease that ends all the same."""
    forgetful = Faults(lock_losses=1)
    _keeps_every_promise(ServerScenario(effects, periods=4, faults=forgetful))
    _keeps_every_promise(ServerScenario(effects, periods=1, faults=Faults(crashes=1, expiries=1)))


@every_mode
def test_no_schedule_breaks_a_promise_if_the_release_of_the_lock_is_waited_for(
    effects: Effects,
) -> None:
    _keeps_every_promise(ServerScenario(effects, faults=ONE_OF_EACH, background=False))


@every_mode
def test_no_schedule_of_batches_breaks_a_promise(effects: Effects) -> None:
    """One worker, so that a crash takes both requests; a lost answer is lost for all entries."""
    faults = Faults(crashes=1, expiries=1, lost_answers=1)
    one_key = ServerScenario(effects, batches=True, workers=("w", "w"), faults=faults)
    two_keys = ServerScenario(
        effects,
        processes=3,
        keys=("one", "one", "other"),
        workers=("w", "w", "w"),
        batches=True,
        faults=Faults(lost_answers=1),
    )

    _keeps_every_promise(one_key)
    _keeps_every_promise(two_keys)


def test_a_request_of_the_same_worker_after_the_answer_is_replayed() -> None:
    """Nobody waited for the release of the lock, and yet it is performed first."""
    scenario = ServerScenario(
        Effects.EXTERNAL, processes=3, sequential=True, workers=("w", "w", "w")
    )
    _keeps_every_promise(scenario, more_than=0)


@every_mode
def test_no_schedule_of_three_processes_breaks_a_promise(effects: Effects) -> None:
    _keeps_every_promise(ServerScenario(effects, processes=3, faults=Faults(crashes=1, expiries=1)))


@pytest.mark.slow
@every_mode
def test_no_schedule_of_three_processes_with_one_fault_of_each_breaks_a_promise(
    effects: Effects,
) -> None:
    _keeps_every_promise(ServerScenario(effects, processes=3, faults=ONE_OF_EACH))


@pytest.mark.slow
@every_mode
def test_no_schedule_with_every_fault_in_it_breaks_a_promise(effects: Effects) -> None:
    faults = Faults(crashes=1, expiries=1, lock_losses=1, lost_answers=1)
    _keeps_every_promise(ServerScenario(effects, faults=faults, periods=1))


@pytest.mark.parametrize("protection", BROKEN)
def test_without_this_protection_a_schedule_breaks_a_promise(protection: str) -> None:
    make, promise = BROKEN[protection]
    found = visit(make().begin)

    assert found.shortest is not None
    assert promise in found.shortest.promise, str(found.shortest)
    assert found.shortest.schedule


@pytest.mark.parametrize("protection", BROKEN)
def test_a_printed_schedule_leads_to_the_same_failure_again(protection: str) -> None:
    begin = BROKEN[protection][0]().begin
    printed = str(visit(begin).shortest)

    again = replay(begin, read_path(printed))

    assert str(again) == printed


def test_a_broken_schedule_is_printed_as_numbered_steps_with_their_answers() -> None:
    found = visit(BROKEN["the fence of the commit"][0]().begin)

    text = str(found.shortest)
    assert text.startswith("executed 2 times\n  1. ")
    assert "a lease runs out" in text
    assert ": Commit -> True" in text
