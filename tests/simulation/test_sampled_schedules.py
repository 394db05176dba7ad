"""Worlds that are too large to be visited: schedules drawn by hypothesis, as lists of choices.

Three and four processes, several faults of each kind, clocks that jump, handlers that are slow, a
lock that answers with what was true some time ago. The everyday run draws the same schedules every
time; the slow one draws more, and others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from replayfloor.client.policy import RetryPolicy
from replayfloor.server.policy import Effects
from replayfloor.testing.explore import read_path
from replayfloor.testing.explore_states import Course, replay, shorten
from replayfloor.testing.pair_scenario import HORIZON, PairFaults, PairScenario
from replayfloor.testing.server_scenario import Faults, ServerScenario
from simulation.broken_processes import ClaimsWithoutUniqueIndex, FinishesWithoutFence

EVERY_DAY = settings(
    max_examples=300,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
MORE = settings(EVERY_DAY, max_examples=3_000, derandomize=False)

SERVER_FAULTS = Faults(
    crashes=2,
    expiries=2,
    lock_losses=2,
    lost_answers=1,
    cancels=1,
    failovers=2,
    stale_reads=2,
    clock_steps=2,
)
PAIR_FAULTS = PairFaults(
    losses=2,
    duplicates=2,
    timeouts=2,
    refusals=1,
    client_crashes=2,
    server_crashes=2,
    expiries=2,
    lock_losses=2,
    lost_answers=1,
)
PATIENT = RetryPolicy(attempts_max=4, wait_base_s=0.2, wait_cap_s=0.8, budget_s=40, lease_s=0.2)

schedules = st.lists(st.integers(min_value=0, max_value=40), max_size=90)
"""A choice is the number of a move, from the beginning again if there are fewer."""

servers = st.builds(
    ServerScenario,
    st.sampled_from(Effects),
    processes=st.integers(min_value=3, max_value=4),
    faults=st.just(SERVER_FAULTS),
    workers=st.sampled_from([(), ("a", "a", "b", "b"), ("a", "b", "a", "c")]),
    keys=st.sampled_from([(), ("one", "one", "other", "one")]),
    periods=st.integers(min_value=0, max_value=5),
    background=st.booleans(),
    batches=st.booleans(),
)
pairs = st.builds(
    PairScenario,
    st.sampled_from([Effects.EXTERNAL, Effects.ATOMIC]),
    st.just(PAIR_FAULTS),
    leaps_ms=st.sampled_from([(), HORIZON[:1], (20_000, HORIZON[0])]),
    ahead_ms=st.sampled_from([0, 7_999, -3_000, -30_000]),
    policy=st.just(PATIENT),
)
old_keys = st.builds(
    PairScenario,
    st.sampled_from([Effects.EXTERNAL, Effects.ATOMIC]),
    st.just(PairFaults(losses=2, timeouts=3, refusals=1, lock_losses=2)),
    leaps_ms=st.just(HORIZON),
    ahead_ms=st.sampled_from([0, 7_999, -3_000, -30_000]),
    policy=st.just(PATIENT),
)
"""Requests that are late, over the whole life of their key."""

WORLDS = {"server": servers, "pair": pairs, "pair, old keys": old_keys}
Scenario = ServerScenario | PairScenario


def _keeps_every_promise(begin: Callable[[], Course], choices: Sequence[int]) -> None:
    broken = replay(begin, choices)
    if broken is not None:
        pytest.fail(str(shorten(begin, broken)))


@pytest.mark.parametrize("world", WORLDS)
def test_no_schedule_drawn_from_a_large_world_breaks_a_promise(world: str) -> None:
    @EVERY_DAY
    @given(WORLDS[world], schedules)
    def keeps_every_promise(scenario: Scenario, choices: list[int]) -> None:
        _keeps_every_promise(scenario.begin, choices)

    keeps_every_promise()


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_no_schedule_of_many_more_drawn_from_a_large_world_breaks_a_promise(world: str) -> None:
    @MORE
    @given(WORLDS[world], schedules)
    def keeps_every_promise(scenario: Scenario, choices: list[int]) -> None:
        _keeps_every_promise(scenario.begin, choices)

    keeps_every_promise()


LARGE: dict[str, tuple[Callable[[], Course], str]] = {
    "the unique index": (
        ServerScenario(Effects.EXTERNAL, 4, SERVER_FAULTS, process=ClaimsWithoutUniqueIndex).begin,
        "executed 2 times",
    ),
    "the fence of the commit": (
        ServerScenario(Effects.ATOMIC, 3, SERVER_FAULTS, process=FinishesWithoutFence).begin,
        "executed 2 times",
    ),
}


@pytest.mark.parametrize("protection", LARGE)
def test_a_drawn_schedule_that_breaks_a_promise_is_found_and_made_short(protection: str) -> None:
    begin, promise = LARGE[protection]
    found: list[str] = []

    # What is found is made short by us: hypothesis would run much longer for the same.
    @settings(EVERY_DAY, max_examples=2_000, phases=[Phase.generate], report_multiple_bugs=False)
    @given(schedules)
    def keeps_every_promise(choices: list[int]) -> None:
        broken = replay(begin, choices)
        if broken is not None and promise in broken.promise:
            found.append(str(shorten(begin, broken)))
            raise AssertionError(found[-1])

    with pytest.raises(AssertionError):
        keeps_every_promise()

    steps = [line for line in found[-1].splitlines() if "->" in line or "." in line[:6]]
    assert promise in found[-1]
    assert len(steps) <= 40, found[-1]
    assert str(replay(begin, read_path(found[-1]))) == found[-1]
