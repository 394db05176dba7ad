"""ed25519 by `cryptography`, which is asked for when a public key is given, and not before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from replayfloor.core.errors import ConfigurationError

PUBLIC_KEY_BYTES: Final = 32
"""Of an ed25519 public key (RFC 8032, section 5.1.5)."""


def ed25519_verifier(who: str, public_key: bytes) -> Callable[[bytes, bytes], bool]:
    """Return a function of a signature and what it should be over, that says whether it holds.

    `public_key` has PUBLIC_KEY_BYTES. Raises ConfigurationError without `cryptography`.
    """
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{who}: a public key (ed25519) needs cryptography: install replayfloor[webhooks]"
        ) from error
    key = Ed25519PublicKey.from_public_bytes(public_key)

    def holds(signature: bytes, signed: bytes) -> bool:
        try:
            key.verify(signature, signed)
        except InvalidSignature:
            return False
        return True

    return holds
