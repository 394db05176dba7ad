"""Rows as terms of policies: what is not solid stays unknown, and the safe side counts."""

from __future__ import annotations

import pytest

from replayfloor.retention import HorizonUnknown, InboundPolicy, TermKind, parse_policies
from replayfloor.retention.providers import get_provider, providers
from replayfloor.retention.providers_terms import RowCatalogue, provider, sender, term
from replayfloor.retention.terms import Confidence

HOUR_S, DAY_S = 3600.0, 86_400.0


def test_a_sender_has_the_figures_of_its_row_with_their_sources() -> None:
    made = sender(get_provider("stripe", direction="inbound"))

    assert made.automatic_retry is not None
    assert made.manual_resend is not None
    assert (made.automatic_retry.seconds, made.manual_resend.seconds) == (3 * DAY_S, 30 * DAY_S)
    assert "https://docs.stripe.com/webhooks" in made.manual_resend.provenance.source
    assert "15 d" in made.manual_resend.provenance.note
    assert made.manual_resend.provenance.confidence is Confidence.DOCUMENTED


@pytest.mark.parametrize(
    ("name", "seconds"), [("square", 72 * HOUR_S), ("sendgrid", 48 * HOUR_S), ("wise", 1_332_420.0)]
)
def test_where_sources_disagree_the_safe_side_counts(name: str, seconds: float) -> None:
    made = sender(get_provider(name, direction="inbound"))

    assert made.automatic_retry is not None
    assert made.automatic_retry.seconds == seconds


@pytest.mark.parametrize("name", ["braintree", "mercado-pago"])
def test_what_is_not_solid_is_unknown_and_says_what_is_known(name: str) -> None:
    row = get_provider(name, direction="inbound")
    found = term(row, "auto_retry", TermKind.AUTOMATIC_RETRY)

    assert row.figure("auto_retry").known
    assert found.seconds is None
    assert "not solid" in found.provenance.note


def test_without_an_end_is_no_term() -> None:
    row = get_provider("paypal-orders-v1")

    assert provider(row).key_retention.seconds is None


def test_a_broker_is_a_sender_whose_horizon_is_read_unless_it_is_fixed() -> None:
    fixed, read = sender(get_provider("sns")), sender(get_provider("sqs"))

    assert fixed.broker_redelivery is not None
    assert fixed.broker_redelivery.seconds == 23 * DAY_S
    assert read.broker_redelivery is not None
    assert read.broker_redelivery.seconds is None


@pytest.mark.parametrize("direction", ["inbound", "broker"])
def test_every_row_of_a_sender_makes_one(direction: str) -> None:
    for row in providers(direction):
        assert sender(row).name == row.name


def test_every_row_of_a_provider_makes_one() -> None:
    for row in providers("outbound"):
        assert provider(row).name == row.name


def test_a_policy_derives_from_the_catalogue() -> None:
    policies = parse_policies(
        '[inbound.hooks]\nsenders = ["stripe", "github"]\nplanned_outage = "5d"\n'
        '[outbound.charge]\nprovider = "stripe-v1"\nretry_budget = "60s"\n',
        "replayfloor.toml",
        catalogue=RowCatalogue(providers()),
    )

    hooks = policies.inbound["hooks"]
    assert hooks.retention_s == 35 * DAY_S
    assert hooks.floor.driver is not None
    assert policies.outbound["charge"].provider.key_retention.seconds == 24 * HOUR_S


def test_a_policy_asks_for_what_the_catalogue_does_not_know() -> None:
    policy = InboundPolicy("hooks", senders=(sender(get_provider("paypal", direction="inbound")),))

    with pytest.raises(HorizonUnknown, match="paypal"):
        _ = policy.floor


def test_the_catalogue_is_looked_up_by_direction() -> None:
    rows = RowCatalogue(providers())

    assert rows.sender("stripe-v1") is None
    assert rows.provider("stripe") is None
    assert "stripe" in rows.sender_names()
    assert "sqs" in rows.sender_names()
    assert "stripe-v1" in rows.provider_names()
    assert list(rows.sender_names()) == sorted(rows.sender_names())
