"""Signs deliveries as their senders do, with the standard library and `cryptography` alone.

Nothing of the code under test is used: what is signed here is what a sender would have sent.
Each function returns the headers of one attempt; `delivery` makes a Delivery of them.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from typing import Final

from replayfloor.server.webhooks.delivery import Delivery

Headers = tuple[tuple[bytes, bytes], ...]

# Invented; one of each form. The second of a pair is for rotations and for forgeries.
STANDARD_SECRET: Final = "whsec_" + b64encode(bytes(range(32))).decode()
STANDARD_SECRET_2: Final = "whsec_" + b64encode(bytes(range(100, 124))).decode()
ED25519_SEED: Final = bytes(range(50, 82))
ED25519_SEED_2: Final = bytes(range(150, 182))
STRIPE_SECRET: Final = "whsec_Tn4FvJq0pYx2"
STRIPE_SECRET_2: Final = "whsec_r81LwZeB6cKd"
GITHUB_SECRET: Final = "a sentence that both sides know"
GITHUB_SECRET_2: Final = "another sentence"
SLACK_SECRET: Final = "5f2c1b7a904d6e83c0de11a2b3c4d5e6"
SLACK_SECRET_2: Final = "00aa11bb22cc33dd44ee55ff66778899"
SHOPIFY_SECRET: Final = "shpss_0123456789abcdef0123456789abcdef"
SHOPIFY_SECRET_2: Final = "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"
NOW_S: Final = 1_780_000_000


def delivery(headers: Headers, body: bytes, *, path: bytes = b"/hooks") -> Delivery:
    """Return a delivery that arrived with these headers, and with what every request has."""
    around = ((b"host", b"shop.example"), (b"content-type", b"application/json"))
    return Delivery("POST", path, b"", around + headers, body, NOW_S * 1000)


def hmac_hex(secret: bytes, signed: bytes, digest: str = "sha256") -> bytes:
    """Return an HMAC in lower-case hex."""
    return hmac.new(secret, signed, getattr(hashlib, digest)).hexdigest().encode()


def hmac_base64(secret: bytes, signed: bytes, digest: str = "sha256") -> bytes:
    """Return an HMAC in base64."""
    return b64encode(hmac.new(secret, signed, getattr(hashlib, digest)).digest())


def standard_v1(secret: str, event_id: str, at_s: int | str, body: bytes) -> bytes:
    """Return one element of `webhook-signature`, by a shared secret."""
    key = b64decode(secret.removeprefix("whsec_"))
    return b"v1," + hmac_base64(key, f"{event_id}.{at_s}.".encode() + body)


def standard_v1a(seed: bytes, event_id: str, at_s: int | str, body: bytes) -> bytes:
    """Return one element of `webhook-signature`, by an ed25519 private key (its 32 bytes)."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    signer = Ed25519PrivateKey.from_private_bytes(seed)
    return b"v1a," + b64encode(signer.sign(f"{event_id}.{at_s}.".encode() + body))


def public_key(seed: bytes) -> str:
    """Return what a receiver is given of an ed25519 private key: `whpk_` and base64."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    public = Ed25519PrivateKey.from_private_bytes(seed).public_key()
    return "whpk_" + b64encode(public.public_bytes_raw()).decode()


def standard_headers(
    event_id: str, at_s: int | str, *signatures: bytes, prefix: str = "webhook"
) -> Headers:
    """Return the three headers of Standard Webhooks; `prefix` "svix" is that of Svix."""
    name = prefix.encode()
    return (
        (name + b"-id", event_id.encode()),
        (name + b"-timestamp", str(at_s).encode()),
        (name + b"-signature", b" ".join(signatures)),
    )


def standard(
    body: bytes,
    *secrets: str,
    event_id: str = "msg_2Zq",
    at_s: int = NOW_S,
    prefix: str = "webhook",
) -> Headers:
    """Sign as Standard Webhooks has it, once for each shared secret."""
    signatures = (standard_v1(secret, event_id, at_s, body) for secret in secrets)
    return standard_headers(event_id, at_s, *signatures, prefix=prefix)


def stripe(body: bytes, *secrets: str, at_s: int = NOW_S) -> Headers:
    """Sign as Stripe does, once for each secret of the endpoint."""
    signed = f"{at_s}.".encode() + body
    parts = [b"v1=" + hmac_hex(secret.encode(), signed) for secret in secrets]
    return ((b"stripe-signature", b",".join([f"t={at_s}".encode(), *parts])),)


def github(body: bytes, secret: str) -> Headers:
    """Sign as GitHub does, the older header included."""
    return (
        (b"x-hub-signature", b"sha1=" + hmac_hex(secret.encode(), body, "sha1")),
        (b"x-hub-signature-256", b"sha256=" + hmac_hex(secret.encode(), body)),
    )


def slack(body: bytes, secret: str, *, at_s: int | str = NOW_S) -> Headers:
    """Sign as Slack does."""
    signature = b"v0=" + hmac_hex(secret.encode(), f"v0:{at_s}:".encode() + body)
    return (
        (b"x-slack-request-timestamp", str(at_s).encode()),
        (b"x-slack-signature", signature),
    )


def shopify(body: bytes, secret: str) -> Headers:
    """Sign as Shopify does."""
    return ((b"x-shopify-hmac-sha256", hmac_base64(secret.encode(), body)),)


def paypal(
    *, transmission_id: str = "8c2f1f40-75a0-11f1", at: str = "2026-06-01T12:00:00Z"
) -> Headers:
    """Return the headers that PayPal sends; only PayPal can make a signature that holds."""
    return (
        (b"paypal-transmission-id", transmission_id.encode()),
        (b"paypal-transmission-time", at.encode()),
        (b"paypal-cert-url", b"https://api.paypal.com/v1/notifications/certs/CERT-0a1b-2c3d"),
        (b"paypal-auth-algo", b"SHA256withRSA"),
        (b"paypal-transmission-sig", b64encode(bytes(range(256)))),
    )
