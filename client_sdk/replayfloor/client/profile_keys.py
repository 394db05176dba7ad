"""The keys that a provider takes: made to fit, and checked before anything is sent. Pure.

How a key is written into a request is in `options`.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache
from typing import Final
from uuid import uuid5

from replayfloor.core.errors import ConfigurationError, InvalidKey
from replayfloor.core.key import KeyRules, check_key
from replayfloor.core.uuid7 import RANDOM_BYTES, uuid7, uuid7_bits

KEY_ENTROPY_BYTES: Final = 16
"""Bytes that a key takes from a cryptographic source: what a UUID of version 4 is made of."""

_VERSION_4: Final = (0xF << 76, 0x4 << 76)
_VARIANT: Final = (0b11 << 62, 0b10 << 62)


class KeyForm(StrEnum):
    """What keys are made as."""

    UUID7 = "uuid7"
    """Tells its time, so that our own servers refuse it once receipts are gone (RFC 9562, 5.7)."""
    UUID4 = "uuid4"
    """For a provider that asks for randomness alone (RFC 9562, 5.4)."""
    UUID5 = "uuid5"
    """For a provider that asks for this version (RFC 9562, 5.5); the name is made up."""


def mint_key(form: KeyForm, rules: KeyRules, unix_ms: int, entropy: bytes) -> str:
    """Return a new key that keeps the rules: with dashes if they fit, and otherwise without.

    `unix_ms` is the time in ms since 1970; `entropy` is KEY_ENTROPY_BYTES bytes from a
    cryptographic source. Raises ConfigurationError if neither spelling fits.
    """
    made = f"{_number(form, unix_ms, entropy):032x}"
    dashed = f"{made[:8]}-{made[8:12]}-{made[12:16]}-{made[16:20]}-{made[20:]}"
    if rules.pattern is None and rules.length_min <= len(dashed) <= rules.length_max:
        return dashed  # as nearly all take it; there is no more to be checked
    for key in (dashed, made):
        try:
            return check_key(key, rules)
        except InvalidKey:
            continue
    raise ConfigurationError(
        f"no key can be made that the provider takes: a {form} has 36 characters, or 32 "
        f"without its dashes, and the rules are {rules}"
    )


@cache
def require_mintable(form: KeyForm, rules: KeyRules) -> None:
    """Raise ConfigurationError if no key can be made for the rules.

    Two keys are made, one of every hexadecimal digit: what a pattern says of a digit, it has to
    say of all.
    """
    for entropy in (bytes(range(0, 256, 17)), bytes(range(255, -1, -17))):
        mint_key(form, rules, int.from_bytes(entropy[:6], "big"), entropy)


def key_pattern(text: str) -> re.Pattern[str]:
    """Return the pattern of the keys that a provider takes; raises ConfigurationError."""
    try:
        return re.compile(text)
    except re.error as error:
        raise ConfigurationError(f"{text!r} is not a regular expression: {error}") from error


def _number(form: KeyForm, unix_ms: int, entropy: bytes) -> int:
    """Return the 128 bits of a new UUID."""
    if len(entropy) != KEY_ENTROPY_BYTES:
        raise ValueError(f"entropy must be {KEY_ENTROPY_BYTES} bytes")
    match form:
        case KeyForm.UUID7:
            return uuid7_bits(unix_ms, entropy[:RANDOM_BYTES])
        case KeyForm.UUID4:
            number = int.from_bytes(entropy, "big")
            for mask, bits in (_VERSION_4, _VARIANT):
                number = number & ~mask | bits
            return number
        case KeyForm.UUID5:
            # The name is as unique as the moment and the entropy are.
            return uuid5(uuid7(unix_ms, entropy[:RANDOM_BYTES]), entropy.hex()).int
