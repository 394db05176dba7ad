"""Standard Webhooks 1.0.0: versions, rotation, elements that are passed over, ids, secrets."""

from __future__ import annotations

import subprocess
import sys
from base64 import b64decode, b64encode

import pytest

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.webhooks.delivery import InvalidSignature
from replayfloor.server.webhooks.verify import SIGNATURES_MAX, StandardWebhooksSignature
from webhooks.signing import (
    ED25519_SEED,
    ED25519_SEED_2,
    NOW_S,
    STANDARD_SECRET,
    STANDARD_SECRET_2,
    Headers,
    delivery,
    public_key,
    standard,
    standard_headers,
    standard_v1,
    standard_v1a,
)

BODY = b'{"type":"order.paid"}'
ID = "msg_2Zq"
V1 = standard_v1(STANDARD_SECRET, ID, NOW_S, BODY)
V1_OTHER = standard_v1(STANDARD_SECRET_2, ID, NOW_S, BODY)
V1A = standard_v1a(ED25519_SEED, ID, NOW_S, BODY)
V1A_OTHER = standard_v1a(ED25519_SEED_2, ID, NOW_S, BODY)


def now() -> float:
    """Return the moment of signing."""
    return float(NOW_S)


def verify(
    headers: Headers, *secrets: str, body: bytes = BODY, header_prefix: str = "webhook"
) -> None:
    """Verify as a receiver with these secrets, or with the first shared one."""
    StandardWebhooksSignature(
        *(secrets or (STANDARD_SECRET,)), header_prefix=header_prefix, clock=now
    )(delivery(headers, body))


def signed(*signatures: bytes) -> Headers:
    """Return the headers with this list of signatures."""
    return standard_headers(ID, NOW_S, *signatures)


def test_the_published_examples_hold() -> None:
    """Those that the scheme's own libraries are tested with."""
    event_id, at_s, body = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
    v1 = b"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    v1a = (
        b"v1a,tQ9V2XOqn7jL/DQenEFpqIugdBVtiMmER5mhSkXBNwM0"
        b"mkATuDe6KYYUuxqtaiHeYGb7KaaBRdM5WqyeFiL8Ag=="
    )
    public = public_key(b64decode("VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk="))

    for secret, signature in (("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", v1), (public, v1a)):
        verifier = StandardWebhooksSignature(secret, clock=lambda: at_s)
        verifier(delivery(standard_headers(event_id, at_s, signature), body))


@pytest.mark.parametrize(
    "secrets",
    [(STANDARD_SECRET, public_key(ED25519_SEED)), (public_key(ED25519_SEED), STANDARD_SECRET)],
)
def test_shared_secrets_and_public_keys_verify_side_by_side(secrets: tuple[str, str]) -> None:
    for signature in (V1, V1A):
        verify(signed(signature), *secrets)
    for signature in (V1_OTHER, V1A_OTHER):
        with pytest.raises(InvalidSignature):
            verify(signed(signature), *secrets)


@pytest.mark.parametrize(
    "signatures",
    [
        (V1_OTHER, V1),
        (V1, V1_OTHER),
        (b"v1,", b"v1,!", V1),
        (b"v2," + V1[3:], b"v1a,AAAA", V1),
        (b"v1a", b"v1", b"nothing", b",", b"=", V1),
        (b"", b"", V1, b""),
        (V1, V1),
    ],
    ids=repr,
)
def test_one_valid_signature_of_the_list_is_enough(signatures: tuple[bytes, ...]) -> None:
    verify(signed(*signatures))


@pytest.mark.parametrize(
    "signatures",
    [(b"v2," + V1[3:],), (b"V1," + V1[3:],), (b"v1a," + V1[3:],), (V1[3:],), (b"v1",), (b",",)],
    ids=repr,
)
def test_a_list_of_other_versions_alone_is_refused(signatures: tuple[bytes, ...]) -> None:
    with pytest.raises(InvalidSignature, match="no signature of version v1:"):
        verify(signed(*signatures))


def test_a_version_that_no_secret_verifies_is_named() -> None:
    with pytest.raises(InvalidSignature, match="no signature of version v1a:"):
        verify(signed(V1), public_key(ED25519_SEED))
    with pytest.raises(InvalidSignature, match="no signature of version v1 or v1a:"):
        verify(signed(b"v3,abc"), public_key(ED25519_SEED), STANDARD_SECRET)


def test_one_valid_signature_by_a_key_is_enough_too() -> None:
    public = public_key(ED25519_SEED)
    for signatures in ((V1A_OTHER, V1A), (V1A, V1A_OTHER), (b"v1a,AAAA", b"v1a,", b"v1a,!", V1A)):
        verify(signed(*signatures), public)
        verify(signed(*signatures), public_key(ED25519_SEED_2), public)


def test_a_signature_under_the_name_of_the_other_version_is_refused() -> None:
    secrets = (STANDARD_SECRET, public_key(ED25519_SEED))
    for signature in (b"v1a," + V1[3:], b"v1," + V1A[4:]):
        with pytest.raises(InvalidSignature):
            verify(signed(signature), *secrets)


@pytest.mark.parametrize("glue", [b"\t", b",", b"\n", b";"], ids=repr)
def test_only_a_space_separates(glue: bytes) -> None:
    with pytest.raises(InvalidSignature):
        verify(signed(V1_OTHER + glue + V1))


def test_a_public_key_is_no_shared_secret() -> None:
    """Whoever knows the public key could else sign: everybody may know it."""
    public = public_key(ED25519_SEED)
    as_secret = "whsec_" + public.removeprefix("whpk_")
    forged = standard_v1(as_secret, ID, NOW_S, BODY)

    for signature in (forged, b"v1a," + forged[3:]):
        with pytest.raises(InvalidSignature):
            verify(signed(signature), public)
        with pytest.raises(InvalidSignature):
            verify(signed(signature), public, STANDARD_SECRET)


def test_base64_that_is_not_canonical_is_refused() -> None:
    """A lenient reader takes each of these for the same bytes."""
    for valid, secret in ((V1, STANDARD_SECRET), (V1A, public_key(ED25519_SEED))):
        plain = valid.rstrip(b"=")
        for changed in (plain, plain + b"====", valid + b"=", valid[:-2] + b"!" + valid[-2:]):
            with pytest.raises(InvalidSignature):
                verify(signed(changed), secret)


def test_a_longer_list_than_the_limit_is_refused_even_if_it_has_a_valid_one() -> None:
    filler = [b"v1,x"] * (SIGNATURES_MAX - 1)

    verify(signed(*filler, V1))
    verify(signed(*filler, *[b""] * 1000, V1))
    with pytest.raises(InvalidSignature, match=f"{SIGNATURES_MAX + 1} signatures"):
        verify(signed(V1, *filler, b"v1,x"))


@pytest.mark.parametrize("event_id", ["msg.1", ".", "msg 1", " msg", "msg\t", "msg."], ids=repr)
def test_an_id_that_could_be_read_in_two_ways_is_refused(event_id: str) -> None:
    signature = standard_v1(STANDARD_SECRET, event_id, NOW_S, BODY)

    with pytest.raises(InvalidSignature, match="webhook-id"):
        verify(standard_headers(event_id, NOW_S, signature))


@pytest.mark.parametrize(
    "stamp",
    ["1.5", f"{NOW_S}.0", f"+{NOW_S}", f" {NOW_S}", f"{NOW_S} ", "17_80", "-1", "1e9", "٣", "x",
     "9" * 16, "9" * 5000],
    ids=lambda stamp: repr(stamp[:20]),
)  # fmt: skip
def test_a_timestamp_that_is_no_number_of_seconds_is_refused(stamp: str) -> None:
    signature = standard_v1(STANDARD_SECRET, ID, stamp, BODY)

    with pytest.raises(InvalidSignature, match="webhook-timestamp"):
        verify(standard_headers(ID, stamp, signature))


def test_what_was_signed_cannot_be_cut_at_another_dot() -> None:
    """Id, timestamp and body are joined by dots: the same text, divided differently."""
    body = f"{NOW_S}.x".encode()
    signature = standard_v1(STANDARD_SECRET, ID, NOW_S, body)
    verify(standard_headers(ID, NOW_S, signature), body=body)

    with pytest.raises(InvalidSignature):
        verify(standard_headers(f"{ID}.{NOW_S}", NOW_S, signature), body=b"x")


def test_svix_and_others_have_the_same_under_their_own_names() -> None:
    for prefix in ("svix", "X-Shop"):
        headers = standard(BODY, STANDARD_SECRET, prefix=prefix.lower())
        verify(headers, header_prefix=prefix)
        with pytest.raises(InvalidSignature, match="no header webhook-id"):
            verify(headers)
        with pytest.raises(InvalidSignature, match=f"no header {prefix}-id"):
            verify(standard(BODY, STANDARD_SECRET), header_prefix=prefix)


def test_the_names_of_two_families_are_not_mixed() -> None:
    """The id that is verified is the one under the configured name, whatever else is there."""
    mixed = (
        (b"webhook-id", b"msg_other"),
        *standard(BODY, STANDARD_SECRET, prefix="svix"),
        *standard(BODY, STANDARD_SECRET)[1:],
    )

    verify(mixed, header_prefix="svix")
    with pytest.raises(InvalidSignature):
        verify(mixed)


@pytest.mark.parametrize("size", [24, 32, 64])
def test_secrets_of_24_to_64_bytes_are_taken(size: int) -> None:
    secret = "whsec_" + b64encode(bytes(size)).decode()

    verify(standard(BODY, secret, event_id=ID), secret)


@pytest.mark.parametrize(
    ("secret", "says"),
    [
        ("whsec_" + b64encode(bytes(23)).decode(), "24 to 64 bytes"),
        ("whsec_" + b64encode(bytes(65)).decode(), "24 to 64 bytes"),
        ("whsec_", "24 to 64 bytes"),
        ("whsec_" + "-_" * 20, "base64"),
        ("whsec_" + "A" * 33, "base64"),
        (STANDARD_SECRET[:20] + "-" + STANDARD_SECRET[20:], "base64"),
        (STANDARD_SECRET.removeprefix("whsec_"), "whsec_"),
        ("WHSEC_" + STANDARD_SECRET.removeprefix("whsec_"), "whsec_"),
        ("v1," + STANDARD_SECRET, "whsec_"),
        ("whsk_" + b64encode(ED25519_SEED).decode(), "private"),
        ("whpk_" + b64encode(bytes(31)).decode(), "32 bytes"),
        ("whpk_" + b64encode(bytes(64)).decode(), "32 bytes"),
        ("whpk_é", "32 bytes"),
    ],
    ids=lambda text: text[:24],
)
def test_a_malformed_secret_is_refused_with_what_is_expected(secret: str, says: str) -> None:
    for secrets in ((secret,), (STANDARD_SECRET, secret)):
        with pytest.raises(ConfigurationError, match=says) as told:
            StandardWebhooksSignature(*secrets)
        assert len(secret) < 8 or secret[-8:] not in str(told.value)


def test_the_keys_are_not_shown_in_any_form() -> None:
    verifier = StandardWebhooksSignature(STANDARD_SECRET, public_key(ED25519_SEED))

    shown = "StandardWebhooksSignature(header_prefix='webhook', tolerance_s=300.0)"
    assert repr(verifier) == shown


@pytest.mark.parametrize("prefix", ["", "web hook", "webhook:", "grün", "a\nb", None], ids=repr)
def test_a_prefix_that_makes_no_name_of_a_header_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigurationError, match="name of a header"):
        StandardWebhooksSignature(STANDARD_SECRET, header_prefix=prefix)


def test_without_cryptography_shared_secrets_verify_and_public_keys_say_what_lacks() -> None:
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from replayfloor.server.webhooks.verify import StandardWebhooksSignature\n"
        "from replayfloor.core.errors import ConfigurationError\n"
        f"StandardWebhooksSignature({STANDARD_SECRET!r})\n"
        f"try: StandardWebhooksSignature({public_key(ED25519_SEED)!r})\n"
        "except ConfigurationError as error: sys.exit(str(error))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert "needs cryptography: install replayfloor[webhooks]" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_redelivery_after_12_h_with_a_fresh_timestamp_is_accepted_and_the_old_one_is_not() -> (
    None
):
    later_s = NOW_S + 12 * 3600
    verifier = StandardWebhooksSignature(STANDARD_SECRET, clock=lambda: later_s)

    verifier(delivery(standard(BODY, STANDARD_SECRET, event_id=ID, at_s=later_s), BODY))
    with pytest.raises(InvalidSignature, match="43200 s behind"):
        verifier(delivery(standard(BODY, STANDARD_SECRET, event_id=ID), BODY))
