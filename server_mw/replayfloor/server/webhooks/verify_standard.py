"""Signatures as Standard Webhooks 1.0.0 has them, of both versions: `v1` and `v1a`.

The package `standardwebhooks` 1.1.0 verifies `v1` only, with a tolerance that cannot be set, and
fails at an element without a comma; so it is not used here.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.webhooks.delivery import Delivery, InvalidSignature
from replayfloor.server.webhooks.verify_ed25519 import PUBLIC_KEY_BYTES, ed25519_verifier
from replayfloor.server.webhooks.verify_parts import (
    SIGNATURES_MAX,
    TOLERANCE_S,
    Clock,
    any_equal,
    check_attempt,
    checked_name,
    checked_secrets,
    checked_tolerance,
    host_clock_s,
    mac,
    mismatch,
    one_line,
    signature_line,
)

SECRET_BYTES_MIN: Final = 24
"""Of a shared secret, without its prefix (Standard Webhooks, Signature scheme)."""

SECRET_BYTES_MAX: Final = 64
"""As SECRET_BYTES_MIN."""

_SHARED: Final = "whsec_"
_PUBLIC: Final = "whpk_"
_PRIVATE: Final = "whsk_"

_ID: Final = re.compile(r"[!-\-/-~]+")
"""Visible ASCII without ".", which ends the id in what is signed: "a.1" at 2 and "a" at "1.2" would
be signed alike."""


@dataclass(frozen=True, slots=True, init=False, eq=False)
class StandardWebhooksSignature:
    """Verifies `webhook-signature` over `webhook-id`, `webhook-timestamp` and the body.

        StandardWebhooksSignature("whsec_...")
        StandardWebhooksSignature("whsec_old", "whsec_new")      # while one replaces the other
        StandardWebhooksSignature("whpk_...")                    # ed25519; needs `cryptography`
        StandardWebhooksSignature("whsec_...", header_prefix="svix")

    One valid signature of the header's list is enough, by any of the secrets. Elements of another
    version, or without a comma, are passed over; more than SIGNATURES_MAX elements are refused. An
    id or a timestamp with a "." is refused, and so is a signature in other than canonical base64.

    Args:
        secrets: `whsec_` and base64 of 24 to 64 bytes for `v1` (HMAC-SHA256), `whpk_` and base64 of
            32 bytes for `v1a` (ed25519); of both kinds at once, if a sender changes from one to the
            other.
        header_prefix: what the three names begin with: "webhook", or "svix" for Svix. It must be
            the one that the source reads the id from: only these three headers are verified.
        tolerance_s: how far the timestamp may be from this host's clock, either way, in seconds.
        clock: this host's time in seconds since 1970.

    Raises ConfigurationError for secrets that are none, and for `whpk_` without `cryptography`.
    """

    header_prefix: str
    tolerance_s: float
    _clock: Clock = field(repr=False)
    _keys: tuple[bytes, ...] = field(repr=False)
    _verifiers: tuple[Callable[[bytes, bytes], bool], ...] = field(repr=False)

    def __init__(
        self,
        *secrets: str,
        header_prefix: str = "webhook",
        tolerance_s: float = TOLERANCE_S,
        clock: Clock = host_clock_s,
    ) -> None:
        who = type(self).__name__
        texts = checked_secrets(who, secrets)
        keys = [_key(who, text) for text in texts if not text.startswith(_PUBLIC)]
        public = [_public_key(who, text) for text in texts if text.startswith(_PUBLIC)]
        put = object.__setattr__
        put(self, "header_prefix", checked_name(who, header_prefix))
        put(self, "tolerance_s", checked_tolerance(who, tolerance_s))
        put(self, "_clock", clock)
        put(self, "_keys", tuple(keys))
        put(self, "_verifiers", tuple(ed25519_verifier(who, raw) for raw in public))

    def __call__(self, delivery: Delivery) -> None:
        """Return if one signature holds; raise InvalidSignature if none does."""
        event_id = self._event_id(delivery)
        stamp_name = f"{self.header_prefix}-timestamp"
        stamp = one_line(delivery, stamp_name)
        check_attempt(stamp_name, stamp, now_s=self._clock(), tolerance_s=self.tolerance_s)
        name = f"{self.header_prefix}-signature"
        found = _signatures(name, signature_line(delivery, name))
        head = f"{event_id}.{stamp}.".encode("ascii")
        if not (
            self._by_secret(found["v1"], head, delivery.body)
            or self._by_key(found["v1a"], head, delivery.body)
        ):
            raise self._refusal(name, found)

    def _event_id(self, delivery: Delivery) -> str:
        name = f"{self.header_prefix}-id"
        event_id = one_line(delivery, name)
        if not _ID.fullmatch(event_id):
            raise InvalidSignature(f'{name}: expected visible ASCII without blanks and without "."')
        return event_id

    def _by_secret(self, given: list[str], head: bytes, body: bytes) -> bool:
        made = (b64encode(mac("sha256", key, head, body).digest()) for key in self._keys)
        return bool(given) and any_equal(made, given)

    def _by_key(self, given: list[str], head: bytes, body: bytes) -> bool:
        if not (given and self._verifiers):
            return False
        signatures = [raw for raw in map(_canonical, given) if raw is not None]
        signed = head + body
        return any(holds(raw, signed) for holds in self._verifiers for raw in signatures)

    def _refusal(self, name: str, found: dict[str, list[str]]) -> InvalidSignature:
        known = [("v1", bool(self._keys)), ("v1a", bool(self._verifiers))]
        versions = [version for version, usable in known if usable]
        if any(found[version] for version in versions):
            return mismatch(name, "the id, the timestamp or the body was")
        return InvalidSignature(
            f"{name} has no signature of version {' or '.join(versions)}: {_SHARED} secrets verify "
            f"v1, {_PUBLIC} keys v1a"
        )


def _signatures(name: str, text: str) -> dict[str, list[str]]:
    elements = [element for element in text.split(" ") if element]
    if len(elements) > SIGNATURES_MAX:
        raise InvalidSignature(
            f"{name} has {len(elements)} signatures; at most {SIGNATURES_MAX} are looked at"
        )
    found: dict[str, list[str]] = {"v1": [], "v1a": []}
    for element in elements:
        version, comma, signature = element.partition(",")
        if comma and version in found:
            found[version].append(signature)
    return found


def _canonical(text: str) -> bytes | None:
    """Return what base64 stands for; None unless it is the one text that stands for it."""
    raw = _base64(text)
    return raw if raw is not None and b64encode(raw).decode() == text else None


def _base64(text: str) -> bytes | None:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return None


def _key(who: str, text: str) -> bytes:
    if text.startswith(_PRIVATE):
        raise ConfigurationError(
            f"{who}: a {_PRIVATE} key is the sender's private one: give its {_PUBLIC} key"
        )
    raw = _base64(text.removeprefix(_SHARED)) if text.startswith(_SHARED) else None
    if raw is None or not SECRET_BYTES_MIN <= len(raw) <= SECRET_BYTES_MAX:
        raise ConfigurationError(
            f"{who}: expected secrets of {_SHARED} and base64 of {SECRET_BYTES_MIN} to "
            f"{SECRET_BYTES_MAX} bytes, or public keys of {_PUBLIC} and base64 of "
            f"{PUBLIC_KEY_BYTES}; one of those given is neither"
        )
    return raw


def _public_key(who: str, text: str) -> bytes:
    raw = _base64(text.removeprefix(_PUBLIC))
    if raw is None or len(raw) != PUBLIC_KEY_BYTES:
        raise ConfigurationError(
            f"{who}: expected public keys of {_PUBLIC} and base64 of {PUBLIC_KEY_BYTES} bytes; "
            "one of those given is not"
        )
    return raw
