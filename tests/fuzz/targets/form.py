"""Form bodies: the same exactly if they have the same fields, whatever their order and escapes.

An input is two bodies, with a byte between them that no form has.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final
from urllib.parse import unquote_to_bytes

from replayfloor.core.canonical import FIELDS_MAX, FORM, canonical_body

BETWEEN: Final = b"\xff"
EXCLUDED: Final = "x"


def check(data: bytes) -> None:
    """Read two bodies with another reader, and compare what is equal."""
    one, _, other = data.partition(BETWEEN)
    for exclude in ((), ((EXCLUDED,),)):
        fields = [_fields(body, without={each[0] for each in exclude}) for body in (one, other)]
        forms = [canonical_body(FORM, body, exclude) for body in (one, other)]
        for body, read, form in zip((one, other), fields, forms, strict=True):
            assert (read is None) is (form == b"r" + body), body
        if None in fields:
            assert (one == other) is (forms[0] == forms[1])
        else:
            assert (fields[0] == fields[1]) is (forms[0] == forms[1]), (one, other)
    assert canonical_body(FORM, one) == canonical_body(FORM, b"&" + one + b"&&") or not (
        one.isascii() and one.count(b"&") < FIELDS_MAX - 3
    )


def _fields(body: bytes, *, without: set[str]) -> dict[bytes, list[bytes | None]] | None:
    """Return the values of each name, in order; None for a name without an equals sign."""
    if not body.isascii() or body.count(b"&") >= FIELDS_MAX:
        return None
    fields: dict[bytes, list[bytes | None]] = defaultdict(list)
    for part in body.split(b"&"):
        name, equals, value = part.partition(b"=")
        if part and _text(name).decode("latin-1") not in without:
            fields[_text(name)].append(_text(value) if equals else None)
    return dict(fields)


def _text(escaped: bytes) -> bytes:
    return unquote_to_bytes(escaped.replace(b"+", b"%20"))
