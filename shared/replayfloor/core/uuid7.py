"""UUID version 7 (RFC 9562, 5.7): make one from given time and random bits, and read its time.

Pure: the caller brings the clock and the entropy. The standard library of the Python versions we
support has no version 7.
"""

from __future__ import annotations

import re
from uuid import UUID

RANDOM_BYTES = 10
"""Entropy a key takes: 74 of these 80 bits are used."""

_TEXT = re.compile(
    r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE
)
"""Version 7 of the variant that has versions (RFC 9562, 4.1 and 4.2)."""

_VERSION_AT = 14
"""Where a UUID's text has its version."""


def uuid7(unix_ms: int, entropy: bytes) -> UUID:
    """Return the UUID of a moment; see `uuid7_bits`."""
    return UUID(int=uuid7_bits(unix_ms, entropy))


def uuid7_bits(unix_ms: int, entropy: bytes) -> int:
    """Return the 128 bits of the UUID of a moment.

    `unix_ms` is the time in ms since 1970, 48 bits; `entropy` is RANDOM_BYTES bytes from a
    cryptographic source (RFC 9562, 6.9). Raises ValueError if either does not fit.
    """
    if not 0 <= unix_ms < 1 << 48:
        raise ValueError("unix_ms must fit 48 bits")
    if len(entropy) != RANDOM_BYTES:
        raise ValueError(f"entropy must be {RANDOM_BYTES} bytes")
    random = int.from_bytes(entropy, "big")
    rand_a, rand_b = (random >> 62) & 0xFFF, random & ((1 << 62) - 1)
    return unix_ms << 80 | 0x7 << 76 | rand_a << 64 | 0b10 << 62 | rand_b


def minted_ms(key: str) -> int | None:
    """Return the time (ms since 1970) that a key tells, or None if it is not a UUIDv7.

    RFC 9562 (6.1) lets a maker alter the time; a reader has to allow for skew.
    """
    # Most keys are of version 4, and told apart by a character.
    found = _TEXT.fullmatch(key) if key[_VERSION_AT : _VERSION_AT + 1] == "7" else None
    return None if found is None else int(found[1] + found[2], 16)
