"""The formula: worked figures, who decides, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayfloor.retention import (
    HorizonUnknown,
    InboundPolicy,
    PolicyError,
    Provenance,
    RetentionTooShort,
    Sender,
    Term,
    TermKind,
    assert_covers,
)
from replayfloor.retention.durations import US_PER_S, seconds

HOUR, DAY = 3600.0, 86_400.0
TERMS = (
    TermKind.CLIENT_RETRY_BUDGET,
    TermKind.BROKER_REDELIVERY,
    TermKind.PLANNED_OUTAGE,
    TermKind.SAFETY_MARGIN,
)
lengths = st.integers(0, 400 * 86_400 * US_PER_S).map(seconds)
positive = st.integers(1, 400 * 86_400 * US_PER_S).map(seconds)
senders = st.builds(
    Sender,
    st.text("abcdef", min_size=1, max_size=4),
    automatic_retry=positive,
    manual_resend=st.none() | lengths,
    broker_redelivery=st.none() | lengths,
)
policies = st.builds(
    InboundPolicy,
    st.just("p"),
    senders=st.lists(senders, min_size=1, max_size=4, unique_by=lambda each: each.name).map(tuple),
    client_retry_budget=st.none() | lengths,
    broker_redelivery=st.none() | lengths,
    reconciliation_cadence=st.none() | positive,
    planned_outage=st.none() | lengths,
    safety_margin=st.none() | lengths,
)


def test_all_three_additions_are_added_to_the_longest_horizon() -> None:
    policy = InboundPolicy(
        "job",
        client_retry_budget="4h",
        broker_redelivery="0s",
        reconciliation_cadence="1h",
        planned_outage="19h",
    )

    assert policy.floor.formula == "max(4 h, 0) + 1 h + 19 h = 24 h"
    assert policy.retention_s == 24 * HOUR


def test_four_hours_an_hour_and_twenty_hours_are_twenty_five() -> None:
    policy = InboundPolicy(
        "job",
        client_retry_budget="4h",
        broker_redelivery="0s",
        reconciliation_cadence="1h",
        planned_outage="20h",
    )

    assert policy.floor.formula == "max(4 h, 0) + 1 h + 20 h = 25 h"


def test_a_broker_that_is_more_patient_than_the_client_decides() -> None:
    policy = InboundPolicy(
        "queue",
        client_retry_budget="30s",
        broker_redelivery="120s",
        reconciliation_cadence="5min",
        safety_margin="5min",
    )

    assert policy.floor.formula == "max(30 s, 120 s) + 5 min + 5 min = 12 min"
    assert policy.retention_s == 720.0
    assert policy.floor.driver.term.name is TermKind.BROKER_REDELIVERY
    assert policy.floor.driver.sender is None


def test_seventy_two_hours_of_retries_and_an_outage_of_twelve_are_eighty_four() -> None:
    shop = Sender("shop", automatic_retry="72h")
    policy = InboundPolicy("hooks", senders=(shop,), planned_outage="12h")

    assert policy.floor.formula == "72 h + 12 h = 84 h"
    assert policy.retention_s == 84 * HOUR


def test_a_month_of_resends_and_five_days_are_thirty_five_days() -> None:
    shop = Sender("shop", manual_resend="30d")
    policy = InboundPolicy("hooks", senders=(shop,), safety_margin="5d")

    assert policy.floor.formula == "30 d + 5 d = 35 d"
    assert policy.retention_s == 35 * DAY


def test_of_several_senders_the_most_patient_one_decides_and_is_named() -> None:
    quick = Sender("quick", automatic_retry="3h")
    patient = Sender("patient", automatic_retry="3d", manual_resend="15d")
    policy = InboundPolicy("hooks", senders=(quick, patient), client_retry_budget="4d")

    assert policy.floor.driver.sender == patient
    assert policy.floor.driver.term.name is TermKind.MANUAL_RESEND
    assert policy.floor.driver.label == "patient: manual resend"
    assert [each.label for each in policy.floor.horizons] == [
        "client retry budget",
        "quick: automatic retry",
        "patient: automatic retry",
        "patient: manual resend",
    ]


def test_the_additions_are_named_in_the_order_of_the_formula() -> None:
    policy = InboundPolicy(
        "p", client_retry_budget=1, safety_margin=4, planned_outage=3, reconciliation_cadence=2
    )

    assert [each.name for each in policy.floor.additions] == [
        TermKind.RECONCILIATION_CADENCE,
        TermKind.PLANNED_OUTAGE,
        TermKind.SAFETY_MARGIN,
    ]
    assert policy.floor.floor_s == 10.0


@given(policies, st.data())
def test_the_floor_never_falls_when_a_figure_grows(
    policy: InboundPolicy, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(TERMS)).value
    now: Term | None = getattr(policy, name)
    grown_s = (now.seconds if now and now.seconds else 0.0) + data.draw(positive)

    assert policy.with_terms(**{name: grown_s}).floor.floor_s >= policy.floor.floor_s


@given(policies, positive)
def test_an_addition_is_added_to_the_microsecond(policy: InboundPolicy, more_s: float) -> None:
    bare = policy.with_terms(planned_outage=None).floor.floor_s
    with_outage = policy.with_terms(planned_outage=more_s).floor.floor_s

    assert round((with_outage - bare) * US_PER_S) == round(more_s * US_PER_S)


@given(policies, st.data())
def test_the_order_of_senders_changes_nothing(policy: InboundPolicy, data: st.DataObject) -> None:
    order = data.draw(st.permutations(policy.senders))
    turned = replace(policy, senders=tuple(order))

    assert turned.floor.floor_s == policy.floor.floor_s
    assert turned.floor.driver == policy.floor.driver
    assert turned.digest == policy.digest


def test_of_equally_patient_ones_the_same_decides_whatever_the_order() -> None:
    first, second = Sender("a", automatic_retry="3d"), Sender("b", automatic_retry="3d")

    one = InboundPolicy("p", senders=(first, second)).floor
    other = InboundPolicy("p", senders=(second, first)).floor

    assert one.driver == other.driver


def test_an_unknown_figure_is_no_floor_however_long_the_others_are() -> None:
    shop = Sender("shop", automatic_retry="30d", manual_resend="unknown")
    policy = InboundPolicy("hooks", senders=(shop,))

    with pytest.raises(HorizonUnknown) as caught:
        _ = policy.floor

    assert "shop: manual resend" in str(caught.value)
    assert "[senders.shop] manual_resend = { value" in str(caught.value)
    with pytest.raises(HorizonUnknown):
        _ = policy.retention_s


def test_choosing_a_figure_for_an_unknown_one_gives_a_floor() -> None:
    shop = Sender("shop", automatic_retry="3d", manual_resend="unknown")
    source = Provenance("mail of our account manager")
    chosen = shop.with_terms(manual_resend=Term(TermKind.MANUAL_RESEND, 15 * DAY, source))

    assert InboundPolicy("hooks", senders=(chosen,)).floor.driver.term.provenance == source


def test_only_figures_that_there_are_can_be_changed() -> None:
    shop = Sender("shop", automatic_retry="3d")
    policy = InboundPolicy("hooks", senders=(shop,))

    with pytest.raises(PolicyError, match="no figure 'resend'"):
        shop.with_terms(resend="3d")
    with pytest.raises(PolicyError, match="no figure 'senders'"):
        policy.with_terms(senders="3d")
    with pytest.raises(PolicyError, match="states no horizon"):
        shop.with_terms(automatic_retry=None)


def test_an_unknown_addition_is_no_floor_either() -> None:
    policy = InboundPolicy("p", client_retry_budget="1h", planned_outage="unknown")

    with pytest.raises(HorizonUnknown, match="planned outage"):
        _ = policy.floor


def test_a_retention_that_is_not_derived_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"derived, not chosen.*senders"):
        InboundPolicy("p", retention="24h")


def test_a_retention_below_the_floor_is_refused_with_both_and_who_decides() -> None:
    shop = Sender("shop", automatic_retry="72h")
    policy = InboundPolicy("hooks", senders=(shop,), planned_outage="12h", retention="24h")

    with pytest.raises(RetentionTooShort) as caught:
        _ = policy.retention_s

    text = str(caught.value)
    assert "retention is 1 d, below the floor of 84 h" in text
    assert "shop: automatic retry decides" in text
    assert "28.6 %" in text


def test_a_retention_of_exactly_the_floor_or_longer_is_taken() -> None:
    shop = Sender("shop", automatic_retry="72h")
    exact = InboundPolicy("hooks", senders=(shop,), retention="72h")
    longer = InboundPolicy("hooks", senders=(shop,), retention="80h")

    assert (exact.retention_s, longer.retention_s) == (72 * HOUR, 80 * HOUR)
    exact.require(72 * HOUR)
    with pytest.raises(RetentionTooShort):
        exact.require(72 * HOUR - 1e-6)


def test_horizons_of_zero_are_no_horizon() -> None:
    with pytest.raises(PolicyError, match="longer than zero"):
        _ = InboundPolicy("p", client_retry_budget=0, planned_outage="1h").floor


def test_a_floor_beyond_ten_years_is_a_mistake_of_unit() -> None:
    policy = InboundPolicy("p", client_retry_budget="3000d", planned_outage="3000d")

    with pytest.raises(PolicyError, match="p: the floor is longer than ten years"):
        _ = policy.floor


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (TermKind.RECONCILIATION_CADENCE, 0.0), (TermKind.RETENTION, 0.0),
        (TermKind.KEY_RETENTION, 0.0), (TermKind.RETRY_BUDGET, 0.0),
        (TermKind.PLANNED_OUTAGE, -1.0), (TermKind.PLANNED_OUTAGE, 1e12),
    ],
)  # fmt: skip
def test_a_figure_that_means_nothing_is_refused(kind: TermKind, value: float) -> None:
    with pytest.raises(PolicyError, match=kind.value):
        Term(kind, value)


def test_a_term_of_another_kind_is_refused() -> None:
    with pytest.raises(PolicyError, match="planned_outage was given a safety_margin"):
        InboundPolicy(
            "p", client_retry_budget="1h", planned_outage=Term(TermKind.SAFETY_MARGIN, 1.0)
        )


def test_a_sender_states_a_horizon_and_is_named_once() -> None:
    with pytest.raises(PolicyError, match="states no horizon"):
        Sender("shop")
    shop = Sender("shop", automatic_retry="1h")
    with pytest.raises(PolicyError, match="named twice"):
        InboundPolicy("p", senders=(shop, shop))


@pytest.mark.parametrize("name", ["", "a\nb", "\x1b[31m"])
def test_a_name_stays_on_its_line(name: str) -> None:
    with pytest.raises(PolicyError, match="no name"):
        Sender(name, automatic_retry="1h")


def test_a_horizon_that_is_covered_passes() -> None:
    shop = Sender("shop", automatic_retry="72h", manual_resend="30d")
    policy = InboundPolicy("hooks", senders=(shop,), safety_margin="5d")

    for horizon in ("30d", 35 * DAY, Term(TermKind.MANUAL_RESEND, 30 * DAY)):
        assert_covers(policy, horizon)


def test_a_horizon_that_is_not_covered_fails_with_both_lengths_and_what_is_open() -> None:
    policy = InboundPolicy("hooks", senders=(Sender("shop", automatic_retry="24h"),))

    with pytest.raises(AssertionError) as caught:
        assert_covers(policy, "30d")

    text = str(caught.value)
    for part in ("hooks", "1 d", "30 d", "3.33 %", "29 d = 96.7 % open"):
        assert part in text


def test_a_number_that_was_trimmed_below_the_floor_fails_even_a_short_horizon() -> None:
    policy = InboundPolicy(
        "hooks", senders=(Sender("shop", automatic_retry="72h"),), retention="24h"
    )

    with pytest.raises(RetentionTooShort):
        assert_covers(policy, "1h")
