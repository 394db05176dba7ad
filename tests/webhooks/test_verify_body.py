"""GitHub's, Slack's and Shopify's signatures, and the HMAC that others put into one header."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.webhooks.delivery import InvalidSignature
from replayfloor.server.webhooks.verify import (
    GitHubSignature,
    HmacSignature,
    ShopifySignature,
    SlackSignature,
)
from webhooks.signing import (
    GITHUB_SECRET,
    NOW_S,
    SHOPIFY_SECRET,
    SLACK_SECRET,
    delivery,
    github,
    hmac_base64,
    hmac_hex,
    shopify,
    slack,
)

BODY = b'{"action":"opened"}'


def test_githubs_published_example_holds() -> None:
    digest = b"757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"

    GitHubSignature("It's a Secret to Everybody")(
        delivery(((b"x-hub-signature-256", b"sha256=" + digest),), b"Hello, World!")
    )


def test_githubs_sha_1_signature_is_not_read() -> None:
    sha1, sha256 = github(BODY, GITHUB_SECRET)
    verifier = GitHubSignature(GITHUB_SECRET)

    with pytest.raises(InvalidSignature, match="no header X-Hub-Signature-256"):
        verifier(delivery((sha1,), BODY))
    with pytest.raises(InvalidSignature, match="does not begin with 'sha256='"):
        verifier(delivery(((sha256[0], sha1[1]),), BODY))
    verifier(delivery(((b"x-hub-signature", b"sha1=wrong"), sha256), BODY))


def test_a_mixed_case_is_no_hex_and_either_case_is() -> None:
    signature = hmac_hex(b"secret", BODY)
    verifier = HmacSignature(header="X-Sum", secrets="secret")

    verifier(delivery(((b"x-sum", signature),), BODY))
    verifier(delivery(((b"x-sum", signature.upper()),), BODY))
    with pytest.raises(InvalidSignature):
        verifier(delivery(((b"x-sum", signature[:32] + signature[32:].upper()),), BODY))


def test_slacks_published_example_holds() -> None:
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow"
        b"&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner"
        b"&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands"
        b"%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015."
        b"47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    digest = b"a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    headers = (
        (b"x-slack-signature", b"v0=" + digest),
        (b"x-slack-request-timestamp", b"1531420618"),
    )

    SlackSignature("8f742231b10e8888abcd99yyyzzz85a5", clock=lambda: 1531420618)(
        delivery(headers, body)
    )


@pytest.mark.parametrize("prefix", [b"", b"v1=", b"V0=", b"v0"], ids=repr)
def test_another_version_of_slacks_scheme_is_refused(prefix: bytes) -> None:
    stamp, (name, signature) = slack(BODY, SLACK_SECRET)
    changed = (stamp, (name, prefix + signature.removeprefix(b"v0=")))

    with pytest.raises(InvalidSignature, match="X-Slack-Signature"):
        SlackSignature(SLACK_SECRET, clock=lambda: NOW_S)(delivery(changed, BODY))


@pytest.mark.parametrize("stamp", ["", "x", "1.5", f"{NOW_S}:", "9" * 16], ids=repr)
def test_a_timestamp_of_slacks_that_is_no_number_of_seconds_is_refused(stamp: str) -> None:
    with pytest.raises(InvalidSignature, match="X-Slack-Request-Timestamp"):
        SlackSignature(SLACK_SECRET, clock=lambda: NOW_S)(
            delivery(slack(BODY, SLACK_SECRET, at_s=stamp), BODY)
        )


def test_shopifys_signature_is_base64_and_not_hex() -> None:
    verifier = ShopifySignature(SHOPIFY_SECRET)
    verifier(delivery(shopify(BODY, SHOPIFY_SECRET), BODY))

    as_hex = hmac_hex(SHOPIFY_SECRET.encode(), BODY)
    ((name, value),) = shopify(BODY, SHOPIFY_SECRET)
    for changed in (as_hex, value.rstrip(b"="), value + b"="):
        with pytest.raises(InvalidSignature, match="X-Shopify-Hmac-Sha256"):
            verifier(delivery(((name, changed),), BODY))


@pytest.mark.parametrize("digest", ["sha256", "sha384", "sha512"])
@pytest.mark.parametrize("prefix", ["", "sig=", "v1:"])
def test_others_may_have_another_digest_encoding_and_prefix(digest: str, prefix: str) -> None:
    for encoding, sign in (("hex", hmac_hex), ("base64", hmac_base64)):
        verifier = HmacSignature(
            header="X-Sum",
            secrets="secret",
            encoding=encoding,  # type: ignore[arg-type]
            prefix=prefix,
            digest=digest,  # type: ignore[arg-type]
        )
        signature = prefix.encode() + sign(b"secret", BODY, digest)
        verifier(delivery(((b"x-sum", signature),), BODY))
        other = "sha256" if digest == "sha512" else "sha512"
        changed = prefix.encode() + sign(b"secret", BODY, other)
        with pytest.raises(InvalidSignature):
            verifier(delivery(((b"x-sum", changed),), BODY))


def test_a_secret_of_text_is_one_secret_and_not_one_for_each_letter() -> None:
    for secrets in ("secret", b"secret"):
        verifier = HmacSignature(header="X-Sum", secrets=secrets)
        verifier(delivery(((b"x-sum", hmac_hex(b"secret", BODY)),), BODY))
        for letter in b"secret":
            with pytest.raises(InvalidSignature):
                verifier(delivery(((b"x-sum", hmac_hex(bytes([letter]), BODY)),), BODY))


def test_a_key_of_bytes_is_taken_as_it_is() -> None:
    key = hashlib.sha256(b"invented").digest() + b"\n"
    verifier = HmacSignature(header="X-Sum", secrets=[key, "grün"])

    verifier(delivery(((b"x-sum", hmac_hex(key, BODY)),), BODY))
    verifier(delivery(((b"x-sum", hmac_hex("grün".encode(), BODY)),), BODY))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"secrets": ()}, "at least one secret"),
        ({"secrets": ""}, "not empty"),
        ({"secrets": b""}, "one byte"),
        ({"secrets": ["a", b""]}, "one byte"),
        ({"secrets": None}, "not NoneType"),
        ({"secrets": [None]}, "not NoneType"),
        ({"secrets": [b"a", 5]}, "not int"),
        ({"header": "X Sum"}, "name of a header"),
        ({"header": ""}, "name of a header"),
        ({"encoding": "base32"}, "hex or base64"),
        ({"digest": "sha1"}, "sha256 or"),
        ({"digest": "md5"}, "sha256 or"),
        ({"prefix": " k="}, "prefix"),
        ({"prefix": "ü="}, "prefix"),
    ],
    ids=repr,
)
def test_options_that_make_no_signature_are_refused(options: dict[str, str], says: str) -> None:
    given: dict[str, Any] = {"header": "X-Sum", "secrets": "secret", **options}
    with pytest.raises(ConfigurationError, match=says):
        HmacSignature(**given)
