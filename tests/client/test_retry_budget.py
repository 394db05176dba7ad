"""An outage is not amplified: so many retries may fail at one origin, and then none is made."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from client.worlds import POLICY, PROFILE
from replayfloor.client.budget import RetryBudget
from replayfloor.client.budget_rules import CAPACITY, COST, COST_THROTTLED, Refund, Spend
from replayfloor.client.events import BudgetExhausted, Ending
from replayfloor.core.errors import ConfigurationError
from replayfloor.testing.client_faults import Attempt, Fate
from replayfloor.testing.client_world import ClientWorld

ORIGIN = "https://api.example"
CALLS = 100


def _outage(budget: RetryBudget, fate: Fate) -> list[ClientWorld]:
    """Many operations of one transport, each of which fails as often as it is attempted."""
    worlds: list[ClientWorld] = []
    for number in range(CALLS):
        world = ClientWorld(PROFILE, POLICY, [Attempt(fate)] * 10, f"invoice-{number}")
        world.budget = budget
        world.call()
        worlds.append(world)
    return worlds


@pytest.mark.parametrize(
    ("fate", "cost"), [(Fate.REPLY_LOST, COST), (Fate.TURNED_AWAY, COST_THROTTLED)]
)
def test_an_outage_is_met_with_one_attempt_each_and_a_bounded_number_of_retries(
    fate: Fate, cost: int
) -> None:
    worlds = _outage(RetryBudget(), fate)

    assert sum(len(world.departures) for world in worlds) == CALLS + CAPACITY // cost
    assert all(world.departures for world in worlds)
    last = worlds[-1]
    assert any(isinstance(event, BudgetExhausted) for event in last.events)


def test_a_budget_that_is_never_spent_is_noticed() -> None:
    class Endless(RetryBudget):
        def spend(self, effect: Spend) -> bool:
            return True

    worlds = _outage(Endless(), Fate.REPLY_LOST)

    assert sum(len(world.departures) for world in worlds) == CALLS * POLICY.attempts_max


def test_a_call_that_is_refused_a_retry_is_pending_and_can_be_resumed() -> None:
    world = ClientWorld(PROFILE, POLICY, [Attempt(Fate.REPLY_LOST)])
    world.budget = RetryBudget(0)

    first = world.call()
    second = world.call()

    assert (first.ending, second.ending) == (Ending.PENDING, Ending.RETURNED)
    assert "too many retries" in first.detail
    assert len(world.departures) == 2


def test_a_success_brings_back_what_its_retry_took() -> None:
    world = ClientWorld(PROFILE, POLICY, [Attempt(Fate.REPLY_LOST)])
    world.call()

    assert world.budget.left(ORIGIN) == CAPACITY


def test_first_attempts_that_succeed_fill_the_bucket_up_to_its_rim() -> None:
    budget = RetryBudget()
    budget.spend(Spend(ORIGIN, 3))

    levels: list[int] = []
    for _ in range(5):
        budget.refund(Refund(ORIGIN, 1))
        levels.append(budget.left(ORIGIN))

    assert levels == [CAPACITY - 2, CAPACITY - 1, CAPACITY, CAPACITY, CAPACITY]


def test_origins_share_nothing() -> None:
    budget = RetryBudget(COST)

    assert budget.spend(Spend(ORIGIN, COST))
    assert not budget.spend(Spend(ORIGIN, 1))
    assert budget.spend(Spend("https://other.example", COST))


def test_of_many_threads_as_many_are_allowed_as_there_are_tokens() -> None:
    budget = RetryBudget(50)
    with ThreadPoolExecutor(16) as threads:
        allowed = list(threads.map(lambda _: budget.spend(Spend(ORIGIN, 1)), range(500)))

    assert allowed.count(True) == 50


def test_a_negative_capacity_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        RetryBudget(-1)
