"""The digest changes if, and only if, a figure or the retention does."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import date

import pytest

from replayfloor.retention import (
    Confidence,
    InboundPolicy,
    Length,
    OutboundPolicy,
    Provenance,
    Provider,
    Sender,
    Term,
    TermKind,
)

SHOP = Sender("shop", automatic_retry="72h", manual_resend="30d")
HOOKS = InboundPolicy(
    "hooks",
    senders=(SHOP, Sender("bank", broker_redelivery="4h")),
    client_retry_budget="1h",
    broker_redelivery="2h",
    reconciliation_cadence="1h",
    planned_outage="12h",
    safety_margin="5d",
)
REFUNDS = OutboundPolicy(
    "refunds",
    provider=Provider("shop", key_retention="24h"),
    retry_budget="120s",
    job_queue_delay="1h",
    planned_outage="2h",
    manual_rerun="3h",
    safety_margin="1h",
)


def test_the_text_says_every_figure_and_what_follows() -> None:
    assert HOOKS.text == (
        "replayfloor policy 1\n"
        'inbound "hooks"\n'
        '"" broker_redelivery 7200 s\n'
        '"" client_retry_budget 3600 s\n'
        '"" planned_outage 43200 s\n'
        '"" reconciliation_cadence 3600 s\n'
        '"" safety_margin 432000 s\n'
        '"bank" broker_redelivery 14400 s\n'
        '"shop" automatic_retry 259200 s\n'
        '"shop" manual_resend 2592000 s\n'
        "= retention 3070800 s\n"
    )
    assert HOOKS.digest == hashlib.sha256(HOOKS.text.encode()).hexdigest()


def test_the_digest_of_a_release_is_the_digest_of_the_next() -> None:
    """It is kept in databases: another text for the same policy would refuse every deployment."""
    assert HOOKS.digest == ("062ad41ca5e7ed9944845b6a5ceda95bff97ab067f31d3af95ba0aef0c099a6d")


@pytest.mark.parametrize(
    "change",
    [
        {"client_retry_budget": 3600.000001}, {"broker_redelivery": "3h"},
        {"reconciliation_cadence": "2h"}, {"planned_outage": None}, {"safety_margin": "6d"},
        {"planned_outage": "unknown"}, {"retention": "40d"},
    ],
)  # fmt: skip
def test_a_changed_figure_changes_the_digest(change: dict[str, Length | None]) -> None:
    assert HOOKS.with_terms(**change).digest != HOOKS.digest


@pytest.mark.parametrize(
    "first",
    [
        SHOP.with_terms(manual_resend="29d"), SHOP.with_terms(manual_resend="unknown"),
        SHOP.with_terms(automatic_retry=None),
        Sender("store", automatic_retry="72h", manual_resend="30d"),
    ],
)  # fmt: skip
def test_a_changed_sender_changes_the_digest(first: Sender) -> None:
    assert replace(HOOKS, senders=(first, *HOOKS.senders[1:])).digest != HOOKS.digest
    assert replace(HOOKS, senders=HOOKS.senders[1:]).digest != HOOKS.digest
    assert replace(HOOKS, name="others").digest != HOOKS.digest


@pytest.mark.parametrize(
    "change",
    [
        {"retry_budget": 121}, {"job_queue_delay": None}, {"planned_outage": 1},
        {"manual_rerun": "unknown"}, {"safety_margin": None},
    ],
)  # fmt: skip
def test_a_changed_figure_changes_the_digest_of_a_client_too(
    change: dict[str, Length | None],
) -> None:
    assert REFUNDS.with_terms(**change).digest != REFUNDS.digest


@pytest.mark.parametrize(("name", "keeps"), [("shop", "25h"), ("store", "24h")])
def test_a_changed_provider_changes_the_digest(name: str, keeps: str) -> None:
    provider = Provider(name, key_retention=keeps)

    assert replace(REFUNDS, provider=provider).digest != REFUNDS.digest
    assert replace(REFUNDS, name="others").digest != REFUNDS.digest


def test_where_a_figure_comes_from_and_how_it_was_written_change_nothing() -> None:
    source = Provenance("https://shop.example", date(2026, 9, 30), Confidence.DOCUMENTED, "a note")
    told = SHOP.with_terms(manual_resend=Term(TermKind.MANUAL_RESEND, 30 * 86_400.0, source))
    turned = replace(HOOKS, senders=(HOOKS.senders[1], told))
    written = turned.with_terms(client_retry_budget=3600, planned_outage="PT12H")

    assert written.digest == HOOKS.digest


def test_the_two_directions_have_no_digest_in_common() -> None:
    assert REFUNDS.text.startswith('replayfloor policy 1\noutbound "refunds"\n')
    assert REFUNDS.text.endswith("= send_window 82800 s\n")


def test_a_name_cannot_pass_for_a_figure() -> None:
    one = InboundPolicy("p", senders=(Sender('a" automatic_retry 60 s', automatic_retry=60),))
    other = InboundPolicy("p", senders=(Sender("a", automatic_retry=60),))

    assert one.digest != other.digest
    assert '"a\\" automatic_retry 60 s" automatic_retry 60 s' in one.text


def test_a_policy_that_is_refused_has_a_digest_all_the_same() -> None:
    unknown = HOOKS.with_terms(planned_outage="unknown")
    too_short = HOOKS.with_terms(retention="1h")

    assert unknown.text.endswith("= retention unknown\n")
    assert too_short.text.endswith("= retention 3600 s\n")
