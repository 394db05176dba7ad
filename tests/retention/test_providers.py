"""The rows that are shipped: complete, sourced, and with the figures that providers publish."""

from __future__ import annotations

import math
import re
from datetime import date

import pytest

from replayfloor.core.errors import ConfigurationError
from replayfloor.retention import PolicyError
from replayfloor.retention.providers import Direction, ProviderRow, get_provider, providers
from replayfloor.retention.providers_rules import FIGURES, PLACES
from replayfloor.retention.providers_terms import keep_at_least, rely_on
from replayfloor.retention.providers_text import shown
from replayfloor.retention.terms import UNKNOWN, Confidence

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0
ROWS = providers()
IDS = [f"{row.direction}/{row.name}" for row in ROWS]

# Worked by hand from what the providers publish: (direction, name, figure, seconds).
KNOWN_FIGURES = [
    ("outbound", "stripe-v1", "retention", 24 * HOUR_S),
    ("outbound", "stripe-v2", "retention", 30 * DAY_S),
    ("outbound", "adyen", "retention", 7 * DAY_S),
    ("outbound", "mollie", "retention", HOUR_S),
    ("outbound", "svix", "retention", 12 * HOUR_S),
    ("outbound", "paypal", "retention", 3 * HOUR_S),
    ("outbound", "paypal-orders", "retention", 6 * HOUR_S),
    ("outbound", "paypal-payments", "retention", 45 * DAY_S),
    ("outbound", "plaid-transfer", "retention", 48 * HOUR_S),
    ("outbound", "square", "retention", None),
    ("outbound", "gocardless", "retention", None),
    ("inbound", "stripe", "auto_retry", 3 * DAY_S),
    ("inbound", "stripe", "manual_resend", 30 * DAY_S),
    ("inbound", "shopify", "auto_retry", 4 * HOUR_S),
    ("inbound", "github", "auto_retry", 0.0),
    ("inbound", "github", "manual_resend", 3 * DAY_S),
    ("inbound", "slack", "auto_retry", 6 * MINUTE_S),
    ("inbound", "adyen", "auto_retry", 30 * DAY_S),
    ("inbound", "paddle", "auto_retry", 3 * DAY_S),
    ("inbound", "openai", "auto_retry", 72 * HOUR_S),
    ("inbound", "mollie", "auto_retry", 26 * HOUR_S),
    ("inbound", "razorpay", "manual_resend", 7 * DAY_S),
    ("inbound", "standard-webhooks", "auto_retry", 75 * HOUR_S + 35 * MINUTE_S + 5),
    ("inbound", "svix", "auto_retry", 27 * HOUR_S + 35 * MINUTE_S + 5),
    ("inbound", "klarna", "auto_retry", 21 * HOUR_S + 17 * MINUTE_S + 10),
    ("inbound", "paypal", "manual_resend", None),
    ("inbound", "stripe", "ack_timeout", None),
    ("inbound", "slack", "ack_timeout", 3.0),
    ("broker", "sqs", "retention_max", 14 * DAY_S),
    ("broker", "sqs", "redelivery", 30.0),
    ("broker", "sns", "horizon", 23 * DAY_S),
    ("broker", "eventbridge", "horizon", 24 * HOUR_S),
    ("broker", "rabbitmq", "redelivery", 30 * MINUTE_S),
    ("broker", "kafka", "redelivery", 5 * MINUTE_S),
    ("broker", "nats-jetstream", "redelivery_max", math.inf),
]

# What a receiver has to keep at least, and whether a part of it is unknown.
KEPT = {
    "stripe": (30 * DAY_S, False),
    "square": (28 * DAY_S, False),
    "github": (3 * DAY_S, False),
    "github-enterprise": (30 * DAY_S, False),
    "razorpay": (7 * DAY_S, False),
    "paypal": (3 * DAY_S, True),
    "adyen": (30 * DAY_S, True),
    "wise": (15 * DAY_S + 10 * HOUR_S + 7 * MINUTE_S, True),
    "sendgrid": (48 * HOUR_S, True),
    "klarna": (21 * HOUR_S + 17 * MINUTE_S + 10, True),
    "gocardless": (None, True),
}

# (direction, name, figure) -> the values that the sources give, and the safe side.
CONFLICTS: dict[tuple[str, str, str], tuple[set[str], str]] = {
    ("outbound", "paypal", "retention"): ({"PT3H", "PT6H", "PT72H", "P30D", "P45D"}, "PT3H"),
    ("outbound", "adyen", "retention"): ({"P7D", "P31D"}, "P7D"),
    ("outbound", "square", "retention"): ({UNKNOWN, "PT24H"}, UNKNOWN),
    ("outbound", "square", "key_length"): ({"45", "64", "128", "192", "255"}, "45"),
    ("outbound", "shopify", "retention"): (
        {"PT24H", UNKNOWN, "header Idempotency-Key"},
        UNKNOWN,
    ),
    ("inbound", "square", "auto_retry"): ({"PT24H", "PT72H"}, "PT72H"),
    ("inbound", "github", "manual_resend"): ({"P3D", "P30D"}, "P3D"),
    ("inbound", "github-enterprise", "manual_resend"): ({"P3D", "P30D", UNKNOWN}, "P30D"),
    ("inbound", "klarna", "auto_retry"): ({"PT12H", "PT21H17M10S"}, "PT21H17M10S"),
    ("inbound", "wise", "auto_retry"): ({"P14D", "P15DT10H7M"}, "P15DT10H7M"),
    ("inbound", "mercado-pago", "auto_retry"): ({"P4D", "PT96H"}, "P4D"),
    ("inbound", "sendgrid", "auto_retry"): ({"PT24H", "PT29H"}, "PT48H"),
    ("inbound", "standard-webhooks", "auto_retry"): ({"PT75H35M5S", "PT5M"}, "PT75H35M5S"),
    ("inbound", "stripe", "manual_resend"): ({"P3D", "P15D", "P30D"}, "P30D"),
    ("broker", "rabbitmq", "redelivery"): ({"PT30M"}, UNKNOWN),
}


def test_every_row_is_there() -> None:
    counts = {each: len(providers(each)) for each in Direction}

    assert counts == {Direction.OUTBOUND: 44, Direction.INBOUND: 37, Direction.BROKER: 8}


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_every_figure_has_a_source_or_is_unknown(row: ProviderRow) -> None:
    assert [figure.name for figure in row.figures] == [r.name for r in FIGURES[row.direction]]
    for figure in row.figures:
        assert figure.value
        assert (figure.confidence is Confidence.NOT_FOUND) is not figure.known
        assert figure.sources or not figure.known
        for source in figure.sources:
            assert source.at
            assert source.says
            assert source.read_on == UNKNOWN or source.day is not None


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_every_horizon_was_looked_for(row: ProviderRow) -> None:
    required = [rule.name for rule in FIGURES[row.direction] if rule.required]

    for name in required:
        assert row.figure(name).sources


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_durations_are_written_as_iso_8601(row: ProviderRow) -> None:
    for figure in row.figures:
        if figure.is_duration and figure.known:
            assert re.fullmatch(r"P[0-9DTHMS]+|unlimited", figure.value)
            assert figure.seconds is not None


def test_no_source_is_left_without_a_figure() -> None:
    for file in {row.file for row in ROWS}:
        rows = [row for row in ROWS if row.file == file]
        used = {source for row in rows for figure in row.figures for source in figure.sources}
        used |= {
            source
            for row in rows
            for figure in row.conflicts
            for claim in (figure.conflict.claims if figure.conflict else ())
            for source in claim.sources
        }
        assert used == set(rows[0].sources)


@pytest.mark.parametrize(("direction", "name", "figure", "seconds"), KNOWN_FIGURES)
def test_a_figure_is_the_published_one(
    direction: str, name: str, figure: str, seconds: float | None
) -> None:
    assert get_provider(name, direction=direction).figure(figure).seconds == seconds


@pytest.mark.parametrize(
    ("place", "expected"), CONFLICTS.items(), ids=["/".join(p) for p in CONFLICTS]
)
def test_a_conflict_is_kept_with_every_value_and_the_safe_side(
    place: tuple[str, str, str], expected: tuple[set[str], str]
) -> None:
    direction, name, figure = place
    conflict = get_provider(name, direction=direction).figure(figure).conflict

    assert conflict is not None
    assert ({claim.value for claim in conflict.claims}, conflict.safe) == expected
    assert all(claim.says and claim.sources for claim in conflict.claims)
    assert conflict.why
    assert len(conflict.claims) >= 2


def test_there_are_no_other_conflicts() -> None:
    found = {
        (row.direction.value, row.name, figure.name) for row in ROWS for figure in row.conflicts
    }

    assert found == set(CONFLICTS)


@pytest.mark.parametrize(("name", "expected"), KEPT.items())
def test_what_a_receiver_has_to_keep_is_the_longest_on_the_safe_side(
    name: str, expected: tuple[float | None, bool]
) -> None:
    horizon = keep_at_least(get_provider(name, direction="inbound"))

    assert (horizon.seconds, horizon.is_lower_bound) == expected


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("stripe-v1", DAY_S),
        ("adyen", 7 * DAY_S),
        ("square", None),
        ("shopify", None),
        ("paypal-orders-v1", None),
        ("twilio", None),
    ],
)
def test_a_sender_may_rely_on_what_is_solid_only(name: str, seconds: float | None) -> None:
    assert rely_on(get_provider(name, direction="outbound")).seconds == seconds


@pytest.mark.parametrize("row", providers("inbound"), ids=lambda row: row.name)
def test_a_receiver_can_read_where_things_are(row: ProviderRow) -> None:
    for name in PLACES:
        value = row.figure(name).value
        for part in value.split(" + "):
            assert re.fullmatch(r"header [A-Za-z0-9-]+|body( /\S+)?|none|unknown", part)


@pytest.mark.parametrize(
    ("name", "figure", "value"),
    [
        ("stripe", "event_id", "body /id"),
        ("stripe", "event_time", "body /created"),
        ("stripe", "signature", "header Stripe-Signature"),
        ("github", "event_id", "header X-GitHub-Delivery"),
        ("shopify", "event_id", "header X-Shopify-Event-Id + header X-Shopify-Topic"),
        ("standard-webhooks", "attempt_time", "header webhook-timestamp"),
        ("standard-webhooks", "gone", "410 disables the endpoint: never answer so"),
        ("gocardless", "batching", "body /events"),
        ("adyen", "batching", "body /notificationItems"),
        ("sendgrid", "batching", "body"),
        ("mollie", "event_id", "none"),
        ("coinbase-commerce", "event_id", UNKNOWN),
    ],
)
def test_what_receivers_need_is_in_the_row(name: str, figure: str, value: str) -> None:
    assert get_provider(name, direction="inbound").figure(figure).value == value


def test_a_figure_was_read_on_the_newest_day_of_its_sources() -> None:
    assert get_provider("stripe-v1").figure("retention").read_on == date(2026, 9, 30)
    # Of two dated sources, 2026-05-23 and 2026-07-01.
    adyen = get_provider("adyen", direction="outbound")
    assert adyen.figure("key_length").read_on == date(2026, 7, 1)
    assert get_provider("gocardless", direction="outbound").figure("scope").read_on == date(
        2024, 6, 1
    )
    assert get_provider("stripe", direction="inbound").figure("auto_retry").read_on is None


def test_a_name_in_several_directions_needs_one() -> None:
    with pytest.raises(PolicyError, match='say "outbound" or "inbound"'):
        get_provider("square")
    assert get_provider("square", direction="inbound").direction is Direction.INBOUND
    assert get_provider("sqs").direction is Direction.BROKER


@pytest.mark.parametrize(
    ("name", "direction", "message"),
    [
        ("strpe", "inbound", "did you mean 'stripe'"),
        ("stripe", "inbond", "did you mean 'inbound'"),
    ],
)
def test_a_mistyped_name_is_told(name: str, direction: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        get_provider(name, direction=direction)


def test_a_figure_that_the_direction_has_not_is_told() -> None:
    with pytest.raises(PolicyError, match="did you mean 'auto_retry'"):
        get_provider("stripe", direction="inbound").figure("autoretry")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("PT75H35M5S", "75 h 35 min 5 s"),
        ("P15DT10H7M", "15 d 10 h 7 min"),
        ("PT72H", "72 h"),
        ("PT0S", "0 s"),
        ("72h", "3 d"),
        ("unknown", "unknown"),
        ("header x", "header x"),
        ("P", "P"),
    ],
)
def test_a_length_is_shown_in_the_units_of_its_source(value: str, text: str) -> None:
    assert shown(value) == text
