"""The client's flow against the server's, under every schedule of a small world.

Between the two is a network that loses, delays and duplicates. Each protection, of either side, is
taken away once, and a schedule must be found that shows it.
"""

from __future__ import annotations

import pytest

from replayfloor.server.policy import Effects
from replayfloor.testing.explore import read_path
from replayfloor.testing.explore_states import replay, visit
from replayfloor.testing.pair_scenario import DEADLINE, HORIZON, PairFaults, PairScenario
from simulation.broken_pairs import BROKEN

NETWORK = {
    "lost": PairFaults(losses=2),
    "duplicated": PairFaults(duplicates=1, losses=1),
    "late, and the client has given up": PairFaults(timeouts=1),
    "late and duplicated": PairFaults(timeouts=1, duplicates=1),
    "lost between server and store": PairFaults(timeouts=1, lost_answers=1),
    "refused, at the client and by the server": PairFaults(refusals=1, failed_calls=1, losses=1),
}
CRASHES = {
    "the client": PairFaults(client_crashes=1, losses=1),
    "the server": PairFaults(server_crashes=1, timeouts=1),
    "the server, and a copy of the request meets what it left": PairFaults(
        server_crashes=1, duplicates=1, expiries=1
    ),
}
ONE_OF_EACH = PairFaults(timeouts=1, server_crashes=1, expiries=1, lock_losses=1)
"""Two requests, because the client gave up on the first: two processes that serve one key."""

AHEAD_MS = 7_999
"""A clock that is ahead by as much as the server allows."""
BEHIND_MS = -30_000

every_mode = pytest.mark.parametrize("effects", list(Effects))


def _keeps_every_promise(scenario: PairScenario, *, more_than: int = 2) -> None:
    found = visit(scenario.begin)

    assert found.shortest is None, str(found.shortest)
    assert found.schedules > more_than, "the world has shrunk to nothing"


@every_mode
@pytest.mark.parametrize("faults", NETWORK.values(), ids=NETWORK.keys())
def test_no_schedule_of_a_bad_network_breaks_a_promise(
    effects: Effects, faults: PairFaults
) -> None:
    _keeps_every_promise(PairScenario(effects, faults))


@every_mode
@pytest.mark.parametrize("faults", CRASHES.values(), ids=CRASHES.keys())
def test_no_schedule_in_which_one_side_dies_breaks_a_promise(
    effects: Effects, faults: PairFaults
) -> None:
    _keeps_every_promise(PairScenario(effects, faults), more_than=1000)


def test_no_schedule_with_one_fault_of_each_breaks_a_promise() -> None:
    _keeps_every_promise(PairScenario(Effects.EXTERNAL, ONE_OF_EACH), more_than=1_000_000)


@pytest.mark.slow
@pytest.mark.parametrize("effects", [Effects.ATOMIC, Effects.REPEATABLE])
def test_no_schedule_with_one_fault_of_each_breaks_a_promise_of_the_other_modes(
    effects: Effects,
) -> None:
    _keeps_every_promise(PairScenario(effects, ONE_OF_EACH), more_than=1_000_000)


@pytest.mark.parametrize("ahead_ms", [0, AHEAD_MS, BEHIND_MS], ids=["same", "ahead", "behind"])
def test_no_schedule_of_a_receipt_that_expires_while_requests_are_late_breaks_a_promise(
    ahead_ms: int,
) -> None:
    _keeps_every_promise(
        PairScenario(faults=PairFaults(timeouts=1), leaps_ms=HORIZON, ahead_ms=ahead_ms),
        more_than=100_000,
    )


@every_mode
def test_no_schedule_of_a_send_deadline_that_passes_breaks_a_promise(effects: Effects) -> None:
    _keeps_every_promise(
        PairScenario(effects, PairFaults(timeouts=1), leaps_ms=DEADLINE), more_than=100_000
    )


def test_no_schedule_of_a_receipt_that_expires_while_a_copy_is_late_breaks_a_promise() -> None:
    _keeps_every_promise(PairScenario(faults=PairFaults(duplicates=1), leaps_ms=HORIZON))


@pytest.mark.slow
@every_mode
@pytest.mark.parametrize("ahead_ms", [0, AHEAD_MS, BEHIND_MS], ids=["same", "ahead", "behind"])
def test_no_schedule_of_a_client_that_dies_over_the_life_of_its_key_breaks_a_promise(
    effects: Effects, ahead_ms: int
) -> None:
    scenario = PairScenario(
        effects, PairFaults(client_crashes=1), leaps_ms=HORIZON, ahead_ms=ahead_ms
    )
    _keeps_every_promise(scenario, more_than=1_000_000)


@pytest.mark.slow
@every_mode
def test_no_schedule_in_which_both_sides_die_and_a_lease_runs_out_breaks_a_promise(
    effects: Effects,
) -> None:
    """A client that dies begins anew, so that there are two requests without a timeout."""
    faults = PairFaults(client_crashes=1, server_crashes=1, expiries=1)
    _keeps_every_promise(PairScenario(effects, faults), more_than=1_000_000)


@pytest.mark.parametrize("protection", BROKEN)
def test_without_this_protection_a_schedule_breaks_a_promise(protection: str) -> None:
    make, promise = BROKEN[protection]
    begin = make().begin
    found = visit(begin)

    assert found.shortest is not None
    assert promise in found.shortest.promise, str(found.shortest)
    printed = str(found.shortest)
    assert str(replay(begin, read_path(printed))) == printed
