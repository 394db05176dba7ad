"""The profiles that are shipped: their figures, sources, keys, and what is refused."""

from __future__ import annotations

import re
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.shipped import any_profile
from replayfloor.client.catalogue import catalogue, profile
from replayfloor.client.catalogue.figures import CONFIDENCES, FIGURES
from replayfloor.client.profile_facts import UNKNOWN
from replayfloor.client.profile_keys import KEY_ENTROPY_BYTES
from replayfloor.client.profiles import RETENTION_MAX_S
from replayfloor.core.errors import ConfigurationError, InvalidKey

HOUR_S, DAY_S = 3600.0, 86_400.0
# What the providers publish, worked by hand; None where they publish nothing.
RETENTIONS_S: dict[str, float | None] = {
    "adyen": 7 * DAY_S,
    "checkout": DAY_S,
    "dwolla": DAY_S,
    "gocardless": None,
    "increase": None,
    "klarna": DAY_S,
    "mercado-pago": None,
    "modern-treasury": DAY_S,
    "mollie": HOUR_S,
    "paypal": 3 * HOUR_S,
    "paypal-orders": 6 * HOUR_S,
    "paypal-payments": 45 * DAY_S,
    "paypal-payments-v1": 30 * DAY_S,
    "paypal-payouts": 30 * DAY_S,
    "paypal-subscriptions": 72 * HOUR_S,
    "paypal-vault": 3 * HOUR_S,
    "plaid-transfer": 48 * HOUR_S,
    "plaid-wallet": DAY_S,
    "razorpay-payouts": None,
    "razorpay-refunds": None,
    "replayfloor": 300.0,
    "square": None,
    "stripe-v1": DAY_S,
    "stripe-v2": 30 * DAY_S,
    "svix": 12 * HOUR_S,
    "xero": None,
    "yookassa": DAY_S,
}
KNOWN = [name for name, retention_s in RETENTIONS_S.items() if retention_s is not None]
UNPUBLISHED = [name for name, retention_s in RETENTIONS_S.items() if retention_s is None]
KEY_LENGTHS = {
    "adyen": (1, 64),
    "increase": (1, 200),
    "klarna": (36, 36),
    "mercado-pago": (1, 64),
    "paypal-orders": (1, 108),
    "plaid-transfer": (1, 50),
    "plaid-wallet": (1, 128),
    "razorpay-payouts": (4, 36),
    "razorpay-refunds": (10, 255),
    "square": (1, 45),
    "stripe-v1": (1, 255),
    "xero": (1, 128),
    "yookassa": (1, 64),
}


def test_the_catalogue_is_what_it_should_be() -> None:
    assert catalogue() == tuple(sorted(RETENTIONS_S))


@pytest.mark.parametrize("name", KNOWN)
def test_the_retention_is_the_published_one(name: str) -> None:
    assert profile(name).retention_s == RETENTIONS_S[name]


@pytest.mark.parametrize("name", UNPUBLISHED)
def test_a_retention_that_nobody_publishes_has_to_be_given(name: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        profile(name)

    message = str(caught.value)
    assert "retention_s" in message
    assert "read on: " in message
    assert "https://" in message or "GitHub" in message
    assert profile(name, retention_s=HOUR_S).retention_s == HOUR_S


@pytest.mark.parametrize("name", catalogue())
def test_every_figure_has_a_source_and_a_date(name: str) -> None:
    facts = any_profile(name).facts

    assert tuple(fact.figure for fact in facts) == FIGURES
    for fact in facts:
        assert fact.value
        assert fact.confidence in CONFIDENCES
        assert (fact.confidence == "not found") is fact.value.startswith(UNKNOWN)
        assert fact.sources
        for source in fact.sources:
            assert source.at
            assert source.says
            assert source.read_on == UNKNOWN or re.fullmatch(r"20\d\d-\d\d(-\d\d)?", source.read_on)


@pytest.mark.parametrize("name", catalogue())
def test_the_limits_are_sane_and_a_minted_key_keeps_them(name: str) -> None:
    made = any_profile(name)
    first, second = (made.mint_key(10**12, bytes([n] * KEY_ENTROPY_BYTES)) for n in (1, 2))

    assert 0 < made.send_window_s < made.retention_s <= RETENTION_MAX_S
    assert 1 <= made.key_rules.length_min <= made.key_rules.length_max <= 255
    assert made.check_key(first) == first
    assert first != second
    assert set(made.methods) <= {"POST", "PATCH", "PUT", "DELETE"}
    assert made.quoted is (name == "replayfloor")


@pytest.mark.parametrize(("name", "lengths"), KEY_LENGTHS.items())
def test_the_length_of_a_key_is_the_published_one(name: str, lengths: tuple[int, int]) -> None:
    rules = any_profile(name).key_rules

    assert (rules.length_min, rules.length_max) == lengths


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("square", "x" * 46),
        ("adyen", "x" * 65),
        ("klarna", "invoice-1"),
        ("razorpay-payouts", "abc"),
        ("razorpay-payouts", "x" * 37),
        ("razorpay-payouts", "invoice:1"),
        ("razorpay-refunds", "too-short"),
        ("stripe-v1", "x" * 256),
    ],
)
def test_a_key_that_the_provider_would_not_take_is_refused(name: str, key: str) -> None:
    with pytest.raises(InvalidKey, match=name):
        any_profile(name).check_key(key)


@pytest.mark.parametrize(
    ("name", "version"), [("stripe-v1", 7), ("adyen", 4), ("checkout", 4), ("klarna", 5)]
)
@given(ms=st.integers(0, 2**48 - 1), entropy=st.binary(min_size=16, max_size=16))
def test_keys_are_of_the_version_that_is_asked_for(
    name: str, version: int, ms: int, entropy: bytes
) -> None:
    key = profile(name).mint_key(ms, entropy)

    assert (UUID(key).version, UUID(key).variant) == (version, "specified in RFC 4122")


def test_a_longer_retention_than_the_provider_grants_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="executed a second time"):
        profile("stripe-v1", retention_s=DAY_S + 1)
    with pytest.raises(ConfigurationError, match="259200"):
        profile("paypal-orders", retention_s=4 * DAY_S)


def test_a_retention_may_be_shorter_or_longer_by_agreement() -> None:
    assert profile("stripe-v1", retention_s=60).retention_s == 60
    assert profile("paypal-orders", retention_s=3 * DAY_S).retention_s == 3 * DAY_S
    assert profile("checkout", retention_s=90 * DAY_S).retention_s == 90 * DAY_S


def test_a_given_retention_says_so_and_keeps_the_catalogues_word() -> None:
    fact = profile("stripe-v1", retention_s=60).fact("retention")

    assert fact is not None
    assert (fact.value, fact.confidence) == ("60 s", "given")
    assert "PT24H" in fact.conflict


@pytest.mark.parametrize("name", ["adyen", "paypal", "square"])
def test_conflicts_of_the_sources_are_kept(name: str) -> None:
    assert any(fact.conflict for fact in any_profile(name).facts if fact.figure != "hint")


def test_accounts_and_modes_have_namespaces_of_their_own() -> None:
    spaces = {
        profile("stripe-v1", account=account, mode=mode).namespace
        for account in ("", "acct_1", "acct_2")
        for mode in ("live", "test")
    } | {profile("stripe-v2", account="acct_1").namespace}

    assert len(spaces) == 7
    assert profile("stripe-v1", account="acct_1", mode="test").namespace == "stripe-v1/acct_1/test"


@pytest.mark.parametrize(
    "names",
    [
        {"name": "stripe"},
        {"account": "a/b"},
        {"account": "a b"},
        {"mode": "live/x"},
        {"mode": ""},
        {"margin_s": DAY_S},
        {"retention_s": 0.0},
        {"retention_s": -1.0},
    ],
)
def test_what_makes_no_profile_is_refused(names: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        profile(**({"name": "stripe-v1"} | names))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "host", "path", "covered"),
    [
        ("stripe-v1", "api.stripe.com", "/v1/charges", True),
        ("stripe-v1", "API.STRIPE.COM", "/v1", True),
        ("stripe-v1", "api.stripe.com", "/v10/charges", False),
        ("stripe-v1", "api.stripe.com", "/v2/charges", False),
        ("stripe-v1", "api.example", "/v1/charges", False),
        ("stripe-v1", "127.0.0.1", "/v1/charges", True),
        ("stripe-v1", "localhost", "/v1/charges", True),
        ("paypal-orders", "api-m.paypal.com", "/v2/checkout/orders/1/capture", True),
        ("paypal-orders", "api-m.paypal.com", "/v2/payments/captures/1/refund", False),
        ("paypal-payments", "api-m.paypal.com", "/v2/payments/captures/1/refund", True),
        ("paypal-payments-v1", "api-m.paypal.com", "/v1/payments/payouts", False),
        ("paypal", "api-m.paypal.com", "/v1/identity/anything", True),
        ("replayfloor", "mine.example", "/anything", True),
    ],
)
def test_a_profile_speaks_of_its_hosts_and_paths(
    name: str, host: str, path: str, covered: bool
) -> None:
    assert profile(name).covers("post", host, path) is covered
    assert not profile(name).covers("GET", host, path)


def test_our_own_servers_are_learned_from_and_told_the_first_attempt() -> None:
    ours = {name: (any_profile(name).learns_lifetime, any_profile(name).sends_first_sent)
            for name in catalogue()}  # fmt: skip

    assert {name for name, says in ours.items() if says != (False, False)} == {"replayfloor"}
    assert ours["replayfloor"] == (True, True)
