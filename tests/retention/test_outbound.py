"""Until when a client may retry, and that it agrees with what the client's profiles do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayfloor.client.policy import DEFAULT_POLICY
from replayfloor.client.profiles import RETENTION_MAX_S, Profile
from replayfloor.retention import (
    HorizonUnknown,
    OutboundPolicy,
    PlanTooLong,
    PolicyError,
    Provider,
)
from replayfloor.retention.durations import DURATION_MAX_S, US_PER_S, seconds
from replayfloor.retention.margins import default_margin_s

HOUR, DAY = 3600.0, 86_400.0
KEEPS_A_DAY = Provider("shop", key_retention="24h")
NS = 1_000_000_000
retentions = st.integers(US_PER_S, 3600 * 86_400 * US_PER_S).map(seconds)


def test_the_client_and_the_policy_call_the_same_length_absurd() -> None:
    assert RETENTION_MAX_S == DURATION_MAX_S


@given(retentions)
def test_a_profile_stops_sending_when_the_policy_says_so(retention_s: float) -> None:
    policy = OutboundPolicy(
        "p", provider=Provider("shop", key_retention=retention_s), retry_budget=1
    )
    profile = Profile(name="shop", retention_s=retention_s)

    assert policy.send_window_s == pytest.approx(profile.send_window_s, rel=0, abs=1e-6)
    assert abs(policy.send_deadline_ns(0) - profile.send_deadline_ns(0)) <= 1000


def test_a_margin_that_is_given_is_the_one_of_a_profile_with_it() -> None:
    policy = OutboundPolicy("p", provider=KEEPS_A_DAY, retry_budget="120s", safety_margin="1h")
    profile = Profile(name="shop", retention_s=DAY, margin_s=HOUR)

    assert policy.send_window_s == profile.send_window_s == 23 * HOUR
    assert policy.send_deadline_ns(7 * NS) == profile.send_deadline_ns(7 * NS)


def test_the_default_retries_of_the_client_fit_into_an_hour() -> None:
    """The shortest retention of a provider that is known is half an hour."""
    provider = Provider("brief", key_retention="30min")
    policy = OutboundPolicy("p", provider=provider, retry_budget=DEFAULT_POLICY.budget_s)

    policy.require_plan(retry_budget_s=DEFAULT_POLICY.budget_s)


def test_without_a_pause_the_budget_of_one_call_is_all() -> None:
    policy = OutboundPolicy("p", provider=KEEPS_A_DAY, retry_budget="120s")

    assert policy.reach.reach_s == 120.0
    assert policy.reach.driver is None
    assert policy.reach.formula == "2 min"


def test_the_longest_pause_lies_between_two_calls() -> None:
    policy = OutboundPolicy(
        "p",
        provider=KEEPS_A_DAY,
        retry_budget="120s",
        job_queue_delay="1h",
        planned_outage="4h",
        manual_rerun="20h",
    )

    assert policy.reach.formula == "2 min + 20 h + 2 min = 20 h 4 min"
    assert policy.reach.driver == policy.manual_rerun
    policy.require_plan()


def test_a_plan_that_goes_beyond_the_key_is_refused_with_both_lengths() -> None:
    policy = OutboundPolicy(
        "refunds", provider=KEEPS_A_DAY, retry_budget="120s", manual_rerun="24h"
    )

    with pytest.raises(PlanTooLong) as caught:
        policy.require_plan()

    text = str(caught.value)
    for part in ("refunds", "shop", "1 d 4 min", "23 h 31 min 12 s", "second time", "manual rerun"):
        assert part in text


def test_a_plan_may_use_the_whole_window_and_no_microsecond_more() -> None:
    policy = OutboundPolicy("p", provider=KEEPS_A_DAY, retry_budget=60, safety_margin="1h")
    fitting = policy.with_terms(planned_outage=23 * HOUR - 120)

    fitting.require_plan()
    with pytest.raises(PlanTooLong):
        policy.with_terms(planned_outage=23 * HOUR - 120 + 1e-6).require_plan()


def test_what_the_client_really_does_counts_where_it_is_worse() -> None:
    policy = OutboundPolicy("p", provider=KEEPS_A_DAY, retry_budget="120s", planned_outage="12h")
    narrow = Profile(name="shop", retention_s=DAY, margin_s=12 * HOUR)

    policy.require_plan(send_window_s=2 * DAY, retry_budget_s=1)
    with pytest.raises(PlanTooLong, match="12 h"):
        policy.require_plan(send_window_s=narrow.send_window_s)
    with pytest.raises(PlanTooLong):
        policy.require_plan(retry_budget_s=12 * HOUR)


def test_a_retention_that_nobody_publishes_is_refused_until_somebody_chooses() -> None:
    unknown = Provider("shop", key_retention="unknown")
    policy = OutboundPolicy("p", provider=unknown, retry_budget="120s")

    with pytest.raises(HorizonUnknown, match="key_retention"):
        _ = policy.send_window_s
    with pytest.raises(HorizonUnknown):
        policy.require_plan()
    assert replace(policy, provider=KEEPS_A_DAY).send_window_s > 0


def test_an_unknown_pause_is_refused_even_beside_a_longer_one() -> None:
    policy = OutboundPolicy(
        "p",
        provider=KEEPS_A_DAY,
        retry_budget="2min",
        job_queue_delay="unknown",
        manual_rerun="20h",
    )

    with pytest.raises(HorizonUnknown, match="job queue delay"):
        policy.require_plan()


def test_a_margin_that_leaves_no_time_to_send_is_refused() -> None:
    policy = OutboundPolicy("p", provider=KEEPS_A_DAY, retry_budget="2min", safety_margin="24h")

    with pytest.raises(PolicyError, match="leaves nothing"):
        _ = policy.send_window_s


def test_the_default_margin_of_a_short_retention_leaves_half_of_it() -> None:
    assert default_margin_s(10.0) == 5.0
    assert default_margin_s(HOUR) == 72.0
    assert default_margin_s(30.0 * 60) == 60.0
