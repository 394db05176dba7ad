"""Stripe's scheme, by its rules, and side by side with what the package `stripe` says."""

from __future__ import annotations

import time

import pytest
import stripe as official
from hypothesis import given, settings
from hypothesis import strategies as st

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.webhooks.delivery import InvalidSignature
from replayfloor.server.webhooks.verify import SIGNATURES_MAX, StripeSignature
from webhooks.signing import (
    NOW_S,
    STRIPE_SECRET,
    STRIPE_SECRET_2,
    delivery,
    hmac_hex,
    stripe,
)

BODY = b'{"id":"evt_1","object":"event"}'
SIGNED = f"{NOW_S}.".encode() + BODY
V1 = b"v1=" + hmac_hex(STRIPE_SECRET.encode(), SIGNED)
V1_OTHER = b"v1=" + hmac_hex(STRIPE_SECRET_2.encode(), SIGNED)
T = f"t={NOW_S}".encode()


def verify(header: bytes, *secrets: str, body: bytes = BODY) -> None:
    """Verify as a receiver with these secrets, or with the first one."""
    verifier = StripeSignature(*(secrets or (STRIPE_SECRET,)), clock=lambda: NOW_S)
    verifier(delivery(((b"stripe-signature", header),), body))


def ours(header: str, body: str) -> bool:
    """Return whether it is accepted here, now."""
    pair = (b"stripe-signature", header.encode("latin-1"))
    try:
        StripeSignature(STRIPE_SECRET)(delivery((pair,), body.encode()))
    except InvalidSignature:
        return False
    return True


def theirs(header: str, body: str) -> bool:
    """Return whether the package `stripe` accepts it, now."""
    try:
        official.WebhookSignature.verify_header(body, header, STRIPE_SECRET, tolerance=300)
    except official.SignatureVerificationError:
        return False
    return True


@pytest.mark.parametrize(
    "header",
    [
        b",".join(parts)
        for parts in (
            (T, V1),
            (V1, T),
            (T, V1_OTHER, V1),
            (T, V1, V1_OTHER),
            (T, b"v0=0", b"v2=" + V1_OTHER[3:], V1),
            (T, b"=", V1),
        )
    ],
    ids=range(6),
)
def test_one_valid_v1_is_enough_and_the_rest_is_passed_over(header: bytes) -> None:
    verify(header)


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (T, "no signature of scheme v1"),
        (T + b",v0=" + V1[3:], "no signature of scheme v1"),
        (T + b",V1=" + V1[3:], "no signature of scheme v1"),
        (T + b", " + V1, "no signature of scheme v1"),
        (T + b",v1=", "another secret"),
        (T + b",v1=" + V1[3:].upper(), "another secret"),
        (T + b"," + V1 + b"=", "another secret"),
        (V1, "0 timestamps"),
        (b"t," + V1, "without"),
        (T + b"," + T + b"," + V1, "2 timestamps"),
        (b"t=1," + T + b"," + V1, "2 timestamps"),
        (T + b",t=1," + V1, "2 timestamps"),
        (b"t=," + V1, "not a number"),
        (b"t=-5," + V1, "not a number"),
        (b"t= 5," + V1, "not a number"),
        (b"t=" + b"9" * 400 + b"," + V1, "not a number"),
        (b"whatever", "without"),
        (b"what=ever", "0 timestamps"),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value[:30]),
)
def test_a_header_that_says_too_little_or_too_much_is_refused(header: bytes, says: str) -> None:
    with pytest.raises(InvalidSignature, match=says) as told:
        verify(header)
    assert str(told.value).startswith("Stripe-Signature")


@pytest.mark.parametrize("odd", ["v1", "t", "v0", "", " "])
def test_a_header_with_an_element_that_is_no_pair_is_refused(odd: str) -> None:
    now_s, body = int(time.time()), BODY.decode()
    made = official.WebhookSignature.generate_signature_header(body, STRIPE_SECRET, now_s)

    for header in (f"{made},{odd}", f"{odd},{made}", made.replace(",", f",{odd},")):
        assert not ours(header, body)
        # The package minds only the schemes that it reads.
        assert theirs(header, body) == (odd not in {"v1", "t"})


def test_a_longer_list_than_the_limit_is_refused_even_if_it_has_a_valid_one() -> None:
    filler = [b"v0=x"] * (SIGNATURES_MAX - 2)

    verify(b",".join([T, *filler, V1]))
    with pytest.raises(InvalidSignature, match=f"{SIGNATURES_MAX + 1} elements"):
        verify(b",".join([T, V1, *filler, b"v0=x"]))


@pytest.mark.parametrize("secret", ["whsec_", "sk_test_1", "pk_live_1", "WHSEC_x", "x"])
def test_what_is_no_secret_of_an_endpoint_is_refused(secret: str) -> None:
    for secrets in ((secret,), (STRIPE_SECRET, secret)):
        with pytest.raises(ConfigurationError, match="whsec_"):
            StripeSignature(*secrets)


def test_a_redelivery_after_12_h_with_a_fresh_timestamp_is_accepted_and_the_old_one_is_not() -> (
    None
):
    later_s = NOW_S + 12 * 3600
    verifier = StripeSignature(STRIPE_SECRET, clock=lambda: later_s)

    verifier(delivery(stripe(BODY, STRIPE_SECRET, at_s=later_s), BODY))
    with pytest.raises(InvalidSignature, match="43200 s behind"):
        verifier(delivery(stripe(BODY, STRIPE_SECRET), BODY))


@given(body=st.text(max_size=200))
@settings(max_examples=20, deadline=None)
def test_what_the_official_package_signs_is_accepted_and_what_is_signed_here_it_accepts(
    body: str,
) -> None:
    now_s = int(time.time())
    made = official.WebhookSignature.generate_signature_header(body, STRIPE_SECRET, now_s)
    ((_, mine),) = stripe(body.encode(), STRIPE_SECRET, at_s=now_s)

    assert made == mine.decode()
    assert ours(made, body)
    assert theirs(made, body)


ELEMENTS = st.sampled_from(["t", "t0", "told", "v1", "other", "v0", "bare", "blank", "upper", "="])


@given(kinds=st.lists(ELEMENTS, max_size=5), body=st.sampled_from(["", "x", '{"a":"grün"}']))
@settings(max_examples=80, deadline=None)
def test_what_is_accepted_here_the_official_package_accepts_too(
    kinds: list[str], body: str
) -> None:
    now_s = int(time.time())
    v1 = hmac_hex(STRIPE_SECRET.encode(), f"{now_s}.{body}".encode()).decode()
    words = {
        "t": f"t={now_s}",
        "t0": "t=0",
        "told": f"t={now_s - 400}",
        "v1": f"v1={v1}",
        "other": f"v1={hmac_hex(STRIPE_SECRET_2.encode(), body.encode()).decode()}",
        "v0": f"v0={v1}",
        "bare": "v1",
        "blank": "",
        "upper": f"v1={v1.upper()}",
        "=": f"v1=={v1}",
    }
    header = ",".join(words[kind] for kind in kinds)

    accepted = ours(header, body)
    assert accepted <= theirs(header, body)
    harmful = {"t0", "told", "bare", "blank"} & set(kinds)
    assert accepted == (kinds.count("t") == 1 and "v1" in kinds and not harmful)


def test_both_refuse_what_is_too_old_or_of_another_secret() -> None:
    now_s = int(time.time())
    for secret, at_s in ((STRIPE_SECRET, now_s - 302), (STRIPE_SECRET_2, now_s)):
        ((_, header),) = stripe(BODY, secret, at_s=at_s)
        assert not ours(header.decode(), BODY.decode())
        assert not theirs(header.decode(), BODY.decode())
