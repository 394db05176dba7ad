"""The Idempotency-Key field in words and as a JSON Schema, and a key that it takes. Pure.

The schema is of the field's value as it is sent, quotes included. Its regular expressions are in
the part that Python and ECMA-262 read alike, and take exactly what the middleware takes; only a
`key_pattern` is left to words, since it is a Python expression about the key without its quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from replayfloor.core.errors import InvalidKey
from replayfloor.core.key import check_key, write_key
from replayfloor.core.uuid7 import minted_ms
from replayfloor.server.docs.facts import code, words
from replayfloor.server.margins import skew_ms
from replayfloor.server.policy import Options

UUID4: Final = "8e03978e-40d5-43e8-bc93-6894a57f9324"
"""The example of draft -07, section 6."""

UUID7: Final = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"
"""The example of RFC 9562, appendix A.6."""

UUID_LENGTH: Final = len(UUID7)

BARE_LENGTH_MAX: Final = 255
"""What `replayfloor.core.key.UNQUOTED` takes."""

_FLAGS = (("i", re.IGNORECASE), ("s", re.DOTALL), ("x", re.VERBOSE))
"""The flags that change which keys match; a key has no line ends."""

_CHARACTER = r'(?:[ !#-\[\]-~]|\\["\\])'
_UUID7 = "-".join(
    (
        "[0-9a-fA-F]{8}",
        "[0-9a-fA-F]{4}",
        "7[0-9a-fA-F]{3}",
        "[89abAB][0-9a-fA-F]{3}",
        "[0-9a-fA-F]{12}",
    )
)


def key_rules(options: Options) -> tuple[str, ...]:
    """Say what a key looks like, one rule a line; the format is published (draft -07, 5)."""
    rules = options.key_rules
    low, high = rules.length_min, rules.length_max
    count = f"exactly {low}" if low == high else f"{low} to {high}"
    lines = [
        "One header line; its value is one Structured Field String (RFC 9651, 3.3.3): "
        f"{count} printable ASCII characters between double quotes, not all of them spaces, with "
        'a `\\` before each `"` and `\\` among them.'
    ]
    if rules.accept_unquoted:
        lines.append(
            "The quotes may be left out if the key is made of letters, digits and `_.:~+/=@-` and "
            "begins with a letter or digit (255 characters at most). With or without quotes it is "
            "the same key."
        )
    if rules.pattern is not None:
        pattern = code(pattern_text(rules.pattern).replace("\n", "\\n"))
        lines.append(f"The whole key matches the regular expression {pattern}.")
    if options.require_uuid7 and options.retention_ms is not None:
        ahead = words(skew_ms(options.retention_ms))
        lines.append(
            f"The key is a UUID version 7 (RFC 9562) whose time is less than {ahead} ahead."
        )
    lines.append("Keys that differ in letter case are different keys.")
    return tuple(lines)


def pattern_text(pattern: re.Pattern[str]) -> str:
    """Return a regular expression with the flags that it was compiled with written in it."""
    flags = "".join(letter for letter, flag in _FLAGS if pattern.flags & flag)
    written = not flags or pattern.pattern.startswith("(?")
    return pattern.pattern if written else f"(?{flags}){pattern.pattern}"


def uniqueness(owner: str | None) -> str:
    """Say among whose requests a key is unique (draft -07, 2.2, leaves that to the resource)."""
    text = "Make a new random key, such as a UUID, for every new operation."
    if owner:
        text += (
            f" Keys are kept apart by {owner}: the same key of another {owner} is another "
            "operation."
        )
    return text


def key_schema(options: Options) -> dict[str, object]:
    """Return the schema of the field's value."""
    rules = options.key_rules
    low, high = rules.length_min, rules.length_max
    if options.require_uuid7:
        low = high = UUID_LENGTH
        quoted, bare = f'"{_UUID7}"', _UUID7
    else:
        quoted = f'"(?! *"){_CHARACTER}{{{low},{high}}}"'
        bare_high = min(high, BARE_LENGTH_MAX)
        bare = f"[A-Za-z0-9][A-Za-z0-9_.:~+/=@-]{{{low - 1},{bare_high - 1}}}"
    # In the field each character may have a backslash before it; of a UUID none has.
    longest = high + 2 if options.require_uuid7 else 2 * high + 2
    if rules.accept_unquoted and low <= BARE_LENGTH_MAX:
        return _string(low, longest, f"^(?:{quoted}|{bare})$")
    return _string(low + 2, longest, f"^{quoted}$")


def _string(shortest: int, longest: int, pattern: str) -> dict[str, object]:
    return {"type": "string", "minLength": shortest, "maxLength": longest, "pattern": pattern}


def key_example(options: Options) -> str | None:
    """Return a field value that is taken, or None if no key is known that fits `key_pattern`."""
    for key in _candidates(options):
        try:
            check_key(key, options.key_rules)
        except InvalidKey:
            continue
        if not options.require_uuid7 or minted_ms(key) is not None:
            return write_key(key).decode("ascii")
    return None


def _candidates(options: Options) -> Iterator[str]:
    """Yield keys in the forms that APIs ask for."""
    yield from (UUID4, UUID7)
    for key in (UUID4, UUID7):
        yield from (key.upper(), key.replace("-", ""), key.replace("-", "").upper())
    length = options.key_rules.length_min
    for repeated in (UUID4.replace("-", ""), "clkyoesmbgybucifusbbtdsbohtyuuwz", "7309184625"):
        for wanted in (min(options.key_rules.length_max, len(repeated)), length):
            yield (repeated * (wanted // len(repeated) + 1))[:wanted]
