"""Signatures that are an HMAC over the body alone, in one header: GitHub's, Shopify's, others'.

Such a signature has no time, so whoever has read a delivery can send it again at any time: that it
is applied once is for the receipts. And it covers no header: an id that is in one is not signed.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.webhooks.delivery import Delivery, InvalidSignature
from replayfloor.server.webhooks.verify_parts import (
    any_equal,
    checked_name,
    checked_secrets,
    mac,
    mismatch,
    signature_line,
)

Digest: TypeAlias = Literal["sha256", "sha384", "sha512"]
Encoding: TypeAlias = Literal["hex", "base64"]


@dataclass(frozen=True, slots=True, init=False, eq=False)
class HmacSignature:
    """Verifies one header that holds an HMAC over the body: for senders that have no class here.

        HmacSignature(header="X-Shop-Signature", secrets="...", encoding="base64")

    In hex, all letters are of one case, whichever; in base64, "=" fills up the end.

    Args:
        header: its name. The signature is its whole value, but for `prefix`.
        secrets: one, or several while one replaces the other. Text stands for its UTF-8. If the
            sender shows the key in hex or base64 and signs with what that stands for: decode it,
            and give bytes.
        encoding: how the signature is written.
        prefix: what it begins with, such as "sha256=".
        digest: of the HMAC. SHA-1 and MD5 are not offered.

    Raises ConfigurationError.
    """

    header: str
    encoding: Encoding
    prefix: str
    digest: Digest
    _keys: tuple[bytes, ...] = field(repr=False)

    def __init__(
        self,
        *,
        header: str,
        secrets: str | bytes | Sequence[str | bytes],
        encoding: Encoding = "hex",
        prefix: str = "",
        digest: Digest = "sha256",
    ) -> None:
        who = type(self).__name__
        _check(who, "encoding", encoding, ("hex", "base64"))
        _check(who, "digest", digest, ("sha256", "sha384", "sha512"))
        if not prefix.isascii() or prefix != prefix.lstrip():
            raise ConfigurationError(f"{who}: prefix is ASCII that does not begin with a blank")
        put = object.__setattr__
        put(self, "header", checked_name(who, header))
        put(self, "encoding", encoding)
        put(self, "prefix", prefix)
        put(self, "digest", digest)
        put(self, "_keys", _keys(who, secrets))

    def __call__(self, delivery: Delivery) -> None:
        """Return if the signature holds; raise InvalidSignature if it does not."""
        given = signature_line(delivery, self.header)
        if not given.startswith(self.prefix):
            raise InvalidSignature(f"{self.header} does not begin with {self.prefix!r}")
        made = (text for key in self._keys for text in self._written(key, delivery.body))
        if not any_equal(made, [given.removeprefix(self.prefix)]):
            raise mismatch(self.header, "the body was")

    def _written(self, key: bytes, body: bytes) -> tuple[bytes, ...]:
        made = mac(self.digest, key, body)
        if self.encoding == "base64":
            return (b64encode(made.digest()),)
        text = made.hexdigest().encode("ascii")
        return (text, text.upper())


@dataclass(frozen=True, slots=True, init=False, eq=False)
class GitHubSignature:
    """Verifies GitHub's `X-Hub-Signature-256` (HMAC-SHA256); its older SHA-1 header is not read.

    Its secrets are those that were typed in at the hook; two while one replaces the other.
    Raises ConfigurationError.
    """

    _signature: HmacSignature = field(repr=False)

    def __init__(self, *secrets: str) -> None:
        keys = checked_secrets(type(self).__name__, secrets)
        signature = HmacSignature(header="X-Hub-Signature-256", secrets=keys, prefix="sha256=")
        object.__setattr__(self, "_signature", signature)

    def __call__(self, delivery: Delivery) -> None:
        """Return if the signature holds; raise InvalidSignature if it does not."""
        self._signature(delivery)


@dataclass(frozen=True, slots=True, init=False, eq=False)
class ShopifySignature:
    """Verifies Shopify's `X-Shopify-Hmac-Sha256` (HMAC-SHA256 in base64).

    Its secrets are client secrets of the app; two while one replaces the other.
    Raises ConfigurationError.
    """

    _signature: HmacSignature = field(repr=False)

    def __init__(self, *secrets: str) -> None:
        keys = checked_secrets(type(self).__name__, secrets)
        signature = HmacSignature(header="X-Shopify-Hmac-Sha256", secrets=keys, encoding="base64")
        object.__setattr__(self, "_signature", signature)

    def __call__(self, delivery: Delivery) -> None:
        """Return if the signature holds; raise InvalidSignature if it does not."""
        self._signature(delivery)


def _keys(who: str, secrets: str | bytes | Sequence[str | bytes]) -> tuple[bytes, ...]:
    # Text alone is one secret: taken as a sequence, each of its letters would be a secret.
    alone = isinstance(secrets, str | bytes) or not isinstance(cast("object", secrets), Sequence)
    given = (cast("str | bytes", secrets),) if alone else tuple(cast("Sequence[str]", secrets))
    if b"" in given:
        raise ConfigurationError(f"{who}: expected keys of one byte and more")
    texts = [each for each in given if not isinstance(each, bytes)]
    if texts or not given:
        checked_secrets(who, texts)
    return tuple(each if isinstance(each, bytes) else each.encode() for each in given)


def _check(who: str, name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigurationError(f"{who}: {name}={value!r}: expected {' or '.join(known)}")
