"""What holds of every signature that is shipped, whatever its scheme."""

from __future__ import annotations

import hmac
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.webhooks.delivery import InvalidSignature, Verifier
from replayfloor.server.webhooks.verify import (
    GitHubSignature,
    HmacSignature,
    PayPalTransmission,
    PayPalVerification,
    ShopifySignature,
    SlackSignature,
    StandardWebhooksSignature,
    StripeSignature,
)
from webhooks import signing
from webhooks.signing import NOW_S, Headers, delivery

BODY = '{"id":"evt_1","note":"grün"}'.encode()


def now() -> float:
    """Return the moment at which everything here is signed and verified."""
    return float(NOW_S)


def hmac_of(*secrets: str) -> HmacSignature:
    """Return a verifier with another encoding and digest than the named ones have."""
    return HmacSignature(
        header="X-Sum", secrets=secrets, encoding="base64", prefix="k=", digest="sha512"
    )


@dataclass(frozen=True)
class Scheme:
    """How one kind of verifier is made of secrets, and how its sender signs with one of them."""

    name: str
    make: Callable[..., Verifier]
    sign: Callable[[bytes, str], Headers]
    secret: str
    other: str

    @property
    def verifier(self) -> Verifier:
        """Return the verifier of the first secret."""
        return self.make(self.secret)


def standard(*secrets: str) -> StandardWebhooksSignature:
    return StandardWebhooksSignature(*secrets, clock=now)


def stripe(*secrets: str) -> StripeSignature:
    return StripeSignature(*secrets, clock=now)


def slack(*secrets: str) -> SlackSignature:
    return SlackSignature(*secrets, clock=now)


SEEDS = {signing.public_key(seed): seed for seed in (signing.ED25519_SEED, signing.ED25519_SEED_2)}


def by_key(body: bytes, public: str) -> Headers:
    """Sign with the private key of a public one."""
    signature = signing.standard_v1a(SEEDS[public], "msg_1", NOW_S, body)
    return signing.standard_headers("msg_1", NOW_S, signature)


def by_sum(body: bytes, secret: str) -> Headers:
    """Sign as `hmac_of` verifies."""
    return ((b"x-sum", b"k=" + signing.hmac_base64(secret.encode(), body, "sha512")),)


SCHEMES = [
    Scheme("v1", standard, signing.standard, signing.STANDARD_SECRET, signing.STANDARD_SECRET_2),
    Scheme("v1a", standard, by_key, *SEEDS),
    Scheme("stripe", stripe, signing.stripe, signing.STRIPE_SECRET, signing.STRIPE_SECRET_2),
    Scheme("slack", slack, signing.slack, signing.SLACK_SECRET, signing.SLACK_SECRET_2),
    Scheme(
        "github", GitHubSignature, signing.github, signing.GITHUB_SECRET, signing.GITHUB_SECRET_2
    ),
    Scheme(
        "shopify",
        ShopifySignature,
        signing.shopify,
        signing.SHOPIFY_SECRET,
        signing.SHOPIFY_SECRET_2,
    ),
    Scheme("hmac", hmac_of, by_sum, "the first one", "the second one"),
]
every_scheme = pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)


def covered(scheme: Scheme) -> Headers:
    """Return the headers that count: GitHub's older one is sent beside them, and not read."""
    signed = scheme.sign(BODY, scheme.secret)
    return tuple(pair for pair in signed if pair[0] != b"x-hub-signature")


def flipped(text: bytes, bit: int) -> bytes:
    """Return the text with one of its bits changed."""
    at = bit % (len(text) * 8)
    return text[: at // 8] + bytes([text[at // 8] ^ 1 << at % 8]) + text[at // 8 + 1 :]


@every_scheme
def test_what_the_sender_signed_is_accepted(scheme: Scheme) -> None:
    scheme.verifier(delivery(scheme.sign(BODY, scheme.secret), BODY))
    scheme.verifier(delivery(scheme.sign(b"", scheme.secret), b""))
    scheme.verifier(delivery(scheme.sign(b"\xff\x00", scheme.secret), b"\xff\x00"))


@every_scheme
def test_what_was_signed_with_another_secret_is_refused(scheme: Scheme) -> None:
    with pytest.raises(InvalidSignature, match="of another secret"):
        scheme.verifier(delivery(scheme.sign(BODY, scheme.other), BODY))


@every_scheme
def test_while_a_secret_is_replaced_both_are_accepted(scheme: Scheme) -> None:
    for order in ((scheme.secret, scheme.other), (scheme.other, scheme.secret)):
        verifier = scheme.make(*order)
        verifier(delivery(scheme.sign(BODY, scheme.secret), BODY))
        verifier(delivery(scheme.sign(BODY, scheme.other), BODY))


@every_scheme
def test_every_flipped_bit_of_the_body_is_refused(scheme: Scheme) -> None:
    verifier = scheme.verifier
    signed = scheme.sign(BODY, scheme.secret)

    for bit in range(len(BODY) * 8):
        with pytest.raises(InvalidSignature):
            verifier(delivery(signed, flipped(BODY, bit)))


@every_scheme
def test_every_flipped_bit_of_a_covered_header_is_refused(scheme: Scheme) -> None:
    """Id, timestamp and signature: also those bits that a lenient reader would not see, such as
    the last ones of base64 and the case of hex."""
    verifier = scheme.verifier
    headers = covered(scheme)
    verifier(delivery(headers, BODY))

    for at, (name, value) in enumerate(headers):
        for bit in range(len(value) * 8):
            changed = (*headers[:at], (name, flipped(value, bit)), *headers[at + 1 :])
            with pytest.raises(InvalidSignature):
                verifier(delivery(changed, BODY))


@every_scheme
@given(body=st.binary(max_size=300), bit=st.integers(0, 10_000), cut=st.booleans())
@settings(max_examples=15, deadline=None)
def test_any_body_is_accepted_as_signed_and_refused_as_changed(
    scheme: Scheme, body: bytes, bit: int, cut: bool
) -> None:
    verifier = scheme.verifier
    signed = scheme.sign(body, scheme.secret)
    changed = body[:-1] if cut and body else flipped(body, bit) if body else b"\x00"

    verifier(delivery(signed, body))
    with pytest.raises(InvalidSignature):
        verifier(delivery(signed, changed))


@every_scheme
def test_a_covered_header_that_is_missing_empty_twice_or_binary_is_refused(scheme: Scheme) -> None:
    headers = covered(scheme)
    for at, (name, value) in enumerate(headers):
        rest = (*headers[:at], *headers[at + 1 :])
        spoilt: dict[str, Headers] = {
            "no header": rest,
            "empty": (*rest, (name, b" \t")),
            "2 times": (*rest, (name, value), (name, value)),
            "visible ASCII": (*rest, (name, value + b"\xc3\xa9")),
        }
        for says, changed in spoilt.items():
            with pytest.raises(InvalidSignature, match=says) as told:
                scheme.verifier(delivery(changed, BODY))
            assert name in str(told.value).lower().encode()


@every_scheme
def test_a_forged_line_beside_the_signed_one_is_refused_wherever_it_stands(scheme: Scheme) -> None:
    for name, _ in covered(scheme):
        forged = ((name, b"x"),)
        for changed in (covered(scheme) + forged, forged + covered(scheme)):
            with pytest.raises(InvalidSignature, match="2 times"):
                scheme.verifier(delivery(changed, BODY))


@every_scheme
def test_blanks_around_a_signature_are_no_part_of_it(scheme: Scheme) -> None:
    *before, (name, value) = covered(scheme)

    scheme.verifier(delivery((*before, (name, b" \t" + value + b"\t ")), BODY))


LINES = st.one_of(
    st.binary(max_size=60),
    st.text(alphabet="v01at=,. +/sha256:whsec_AZ9é\t", max_size=80).map(str.encode),
    st.just(str(NOW_S).encode()),
)


@every_scheme
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_garbage_is_refused_and_raises_nothing_else(scheme: Scheme, data: st.DataObject) -> None:
    signed = covered(scheme)
    pairs = [
        (name, data.draw(st.one_of(LINES, st.just(value))))
        for name, value in signed
        for _ in range(data.draw(st.integers(0, 2)))
    ]
    body = data.draw(st.binary(max_size=40).filter(lambda body: body != BODY))

    with pytest.raises(InvalidSignature):
        scheme.verifier(delivery(tuple(pairs), body))


@every_scheme
def test_no_text_shows_a_secret_or_the_signature_that_was_expected(scheme: Scheme) -> None:
    verifier = scheme.make(scheme.secret, scheme.other)
    hidden = [scheme.secret, scheme.other, *(value.decode() for _, value in covered(scheme)[-1:])]
    signed = scheme.sign(BODY + b" ", scheme.secret)
    texts = [repr(verifier), str(verifier)]
    for headers in (signed, (), signed + signed):
        with pytest.raises(InvalidSignature) as told:
            verifier(delivery(headers, BODY))
        texts += [str(told.value), repr(told.value)]
        assert told.value.__cause__ is None

    parts = [part for each in hidden for part in (each, each[-12:])]
    assert [(part, text) for part, text in product(parts, texts) if part in text] == []


@every_scheme
def test_a_secret_that_is_none_is_refused_where_it_is_configured(scheme: Scheme) -> None:
    wrong = ["", " ", f"{scheme.secret}\n", f" {scheme.secret}", None, f"{scheme.secret}\udcff"]
    for secrets in [(), *((each,) for each in wrong), *((scheme.other, each) for each in wrong)]:
        with pytest.raises(ConfigurationError, match="expected") as told:
            scheme.make(*secrets)
        assert scheme.secret not in str(told.value)
        assert told.value.__cause__ is None


@every_scheme
def test_a_verifier_is_a_value_that_cannot_be_changed(scheme: Scheme) -> None:
    verifier = scheme.verifier

    with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
        verifier.clock = now  # type: ignore[attr-defined]
    assert not hasattr(verifier, "__dict__")


# A public key holds no secret that the time of a comparison could tell.
@pytest.mark.parametrize(
    "scheme", [each for each in SCHEMES if each.name != "v1a"], ids=lambda scheme: scheme.name
)
def test_signatures_are_compared_in_constant_time(
    scheme: Scheme, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison itself cannot be told from its result: so it is seen that it is the one."""
    seen: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest

    def watched(a: bytes, b: bytes) -> bool:
        seen.append((a, b))
        return real(a, b)

    monkeypatch.setattr("hmac.compare_digest", watched)
    with pytest.raises(InvalidSignature):
        scheme.verifier(delivery(scheme.sign(BODY, scheme.other), BODY))
    scheme.verifier(delivery(covered(scheme), BODY))

    assert [a == b for a, b in seen].count(True) == 1
    assert [a == b for a, b in seen].count(False) >= 1


TIMED = [scheme for scheme in SCHEMES if scheme.name in ("v1", "stripe", "slack")]
TIMED_MAKE: dict[str, Callable[..., Verifier]] = {
    "v1": StandardWebhooksSignature,
    "stripe": StripeSignature,
    "slack": SlackSignature,
}
every_timed = pytest.mark.parametrize("scheme", TIMED, ids=lambda scheme: scheme.name)


@every_timed
@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize("tolerance_s", [None, 5, 3600.5])
def test_the_tolerance_ends_where_it_says_on_both_sides(
    scheme: Scheme, side: int, tolerance_s: float | None
) -> None:
    options = {} if tolerance_s is None else {"tolerance_s": tolerance_s}
    limit = 300 if tolerance_s is None else tolerance_s
    signed = delivery(scheme.sign(BODY, scheme.secret), BODY)

    def at(off_s: float) -> None:
        clock = lambda: NOW_S + side * off_s  # noqa: E731
        TIMED_MAKE[scheme.name](scheme.secret, clock=clock, **options)(signed)

    at(0)
    at(limit)
    for off_s in (limit + 0.5, limit + 1, 10 * limit):
        with pytest.raises(InvalidSignature, match="check the clock") as told:
            at(off_s)
        assert f"tolerance of {limit:g} s" in str(told.value)
        assert ("behind" if side == 1 else "ahead of") in str(told.value)


def test_the_refusal_tells_how_far_the_clocks_are_apart() -> None:
    with pytest.raises(InvalidSignature, match=r"is 301 s behind this host's clock, more than the"):
        StripeSignature(signing.STRIPE_SECRET, clock=lambda: NOW_S + 301)(
            delivery(signing.stripe(BODY, signing.STRIPE_SECRET), BODY)
        )


@every_timed
def test_the_clock_is_the_middlewares_unless_another_is_given(
    scheme: Scheme, monkeypatch: pytest.MonkeyPatch
) -> None:
    verifier = TIMED_MAKE[scheme.name](scheme.secret)
    signed = delivery(scheme.sign(BODY, scheme.secret), BODY)

    monkeypatch.setattr("replayfloor.server.clock.wall_ms", lambda: (NOW_S + 300) * 1000)
    verifier(signed)
    monkeypatch.setattr("replayfloor.server.clock.wall_ms", lambda: (NOW_S + 300) * 1000 + 1)
    with pytest.raises(InvalidSignature):
        verifier(signed)


@every_timed
@pytest.mark.parametrize(
    "tolerance", [0, -1, float("inf"), float("nan"), True, None, "300"], ids=repr
)
def test_a_tolerance_that_is_none_is_refused(scheme: Scheme, tolerance: object) -> None:
    with pytest.raises(ConfigurationError, match="tolerance_s"):
        TIMED_MAKE[scheme.name](scheme.secret, tolerance_s=tolerance)


def test_what_paypal_is_asked_can_be_kept_and_sent() -> None:
    seen: list[PayPalTransmission] = []

    def ask(transmission: PayPalTransmission) -> bool:
        seen.append(transmission)
        return True

    PayPalVerification(ask)(delivery(signing.paypal(), BODY))

    assert pickle.loads(pickle.dumps(seen[0])) == seen[0]
