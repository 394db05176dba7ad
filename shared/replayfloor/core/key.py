"""Read and write the Idempotency-Key field (draft-ietf-httpapi-idempotency-key-header-07, 2.1).

The field is a Structured Field Item whose value is a String (RFC 9651, 3.3.3). A malformed field
is always refused and never ignored: ignoring it would run the request unprotected while its
sender believes it is safe.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import http_sf

from replayfloor.core.errors import ConfigurationError, InvalidKey

DRAFT_REVISION = "draft-ietf-httpapi-idempotency-key-header-07"
"""The revision this package implements (15 October 2025); docs and problem links follow it."""

KEY_LENGTH_MAX = 255
"""Characters of a key. The longest limit that providers publish (Stripe: 255)."""

FIELD_BYTES_MAX = 4096
"""Bytes of the raw field, before it is parsed: the longest legal key, every character escaped,
with room for parameters. RFC 9651 (3.3.3) asks a parser for Strings of at least 1024 characters."""

KEY_LENGTH_LIMIT = (FIELD_BYTES_MAX - 2) // 2
"""The highest `length_max`: in the field every character may be escaped, between two quotes."""

UNQUOTED = re.compile(rb"[A-Za-z0-9][A-Za-z0-9_.:~+/=@-]{0,254}")
"""What `accept_unquoted` takes besides a String: the alphabet of the raw keys that provider SDKs
send. Everything a Structured Field would read as bytes, a boolean or a date is outside of it."""


PLAIN_STRING = re.compile(rb'"[ !#-\[\]-~]*"')
"""A String without an escape (RFC 9651, 3.3.3): its value is what stands between the quotes.
Nearly every key is one, and the parser of all structured fields takes ten times as long."""


@dataclass(frozen=True, slots=True)
class KeyRules:
    """What a key must look like, beyond being a String.

    `length_min` and `length_max` count characters; `pattern` must match the whole key;
    `accept_unquoted` also takes a bare value (not conformant, but what most SDKs send), and then
    `"k"` and `k` are the same key.
    """

    length_min: int = 1
    length_max: int = KEY_LENGTH_MAX
    pattern: re.Pattern[str] | None = None
    accept_unquoted: bool = False

    def __post_init__(self) -> None:
        """Refuse limits that no key, or no field, could meet."""
        if not 1 <= self.length_min <= self.length_max <= KEY_LENGTH_LIMIT:
            raise ConfigurationError(
                f"key length must be within 1..{KEY_LENGTH_LIMIT} with min <= max, "
                f"got {self.length_min}..{self.length_max}"
            )


DEFAULT_RULES = KeyRules()


def parse_key(lines: Sequence[bytes], rules: KeyRules = DEFAULT_RULES) -> str:
    """Return the key that the header lines carry.

    `lines` holds the raw value of each Idempotency-Key line of one request. Parameters are ignored
    (RFC 9651, 2.3). Letter case matters: keys are compared byte for byte.

    Raises InvalidKey with a message for the sender of the request: it says what is wrong and how
    to mend it, and never repeats the value.
    """
    if len(lines) != 1:
        raise InvalidKey("send exactly one Idempotency-Key header line (RFC 9110, 5.3)")
    raw = lines[0].strip(b" \t")
    if len(raw) > FIELD_BYTES_MAX:
        raise InvalidKey(f"the Idempotency-Key header is longer than {FIELD_BYTES_MAX} bytes")
    key = raw[1:-1].decode("ascii") if PLAIN_STRING.fullmatch(raw) else _parse_string(raw)
    if key is None and rules.accept_unquoted and UNQUOTED.fullmatch(raw):
        key = raw.decode("ascii")
    if key is None:
        raise InvalidKey(_advice(raw))
    return check_key(key, rules)


def check_key(key: str, rules: KeyRules = DEFAULT_RULES) -> str:
    """Return `key` if it keeps the rules; raises InvalidKey if not."""
    if not key.strip(" "):
        raise InvalidKey("the key is empty or blank")
    if not rules.length_min <= len(key) <= rules.length_max:
        raise InvalidKey(
            f"the key must have {rules.length_min} to {rules.length_max} characters, "
            f"it has {len(key)}"
        )
    if rules.pattern is not None and not rules.pattern.fullmatch(key):
        raise InvalidKey(f"the key does not match the pattern {rules.pattern.pattern}")
    return key


def write_key(key: str) -> bytes:
    """Return the field value for a key: a String in double quotes (RFC 9651, 4.1.6).

    Raises InvalidKey if the key is empty or holds a character outside 0x20-0x7E.
    """
    check_key(key, KeyRules(length_max=KEY_LENGTH_LIMIT))
    try:
        return http_sf.ser(key).encode("ascii")
    except (http_sf.StructuredFieldError, ValueError) as error:
        raise InvalidKey("a key may hold the characters 0x20 to 0x7E only") from error


def _parse_string(raw: bytes) -> str | None:
    """Return the value if the field is a String, None if it is malformed or of another type."""
    try:
        item: object = http_sf.parse(raw, tltype="item")
    except (http_sf.StructuredFieldError, ValueError):
        return None
    value = item[0] if isinstance(item, tuple) else None
    # Tokens and display strings are UserStrings, so this excludes them; the exact test is a guard
    # against a release that makes them subclasses of str.
    return value if type(value) is str else None


def _advice(raw: bytes) -> str:
    if UNQUOTED.fullmatch(raw):
        return 'wrap the key in double quotes: Idempotency-Key: "..." (RFC 9651, 3.3.3)'
    return (
        "the value must be one Structured Field String: printable ASCII in double quotes, "
        'with \\ only before " and \\ (RFC 9651, 3.3.3)'
    )
