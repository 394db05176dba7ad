"""JSON bodies: the same form exactly if they mean the same, and the bytes where that is unclear.

An input is two bodies, with a byte between them that no JSON has.
"""

from __future__ import annotations

import json
from typing import Final

from replayfloor.core.canonical import CANONICAL_BYTES_MAX, DEPTH_MAX, canonical_body

JSON: Final = b"application/json"
BETWEEN: Final = b"\xff"

Meaning = object
"""What a reader gets: numbers as their literal, in a tuple, which nothing else is."""


def check(data: bytes) -> None:
    """Read two bodies with another reader, and compare what is equal."""
    one, _, other = data.partition(BETWEEN)
    meanings = [_meaning(body) for body in (one, other)]
    forms = [canonical_body(JSON, body) for body in (one, other)]
    for body, meaning, form in zip((one, other), meanings, forms, strict=True):
        if meaning is None:
            assert form == b"r" + body, "unclear bodies are taken byte for byte"
        else:
            assert form.startswith(b"c"), "clear ones are not"
            assert canonical_body(JSON, written_anew(meaning[0])) == form, "their form counts"
    if None not in meanings:
        assert (meanings[0] == meanings[1]) is (forms[0] == forms[1]), (one, other)
    elif one != other:
        assert forms[0] != forms[1]


def _meaning(body: bytes) -> tuple[Meaning] | None:
    """Return what a body means, in a tuple; None if readers may differ in it."""
    if len(body) > CANONICAL_BYTES_MAX:
        return None
    try:
        meaning: Meaning = json.loads(
            body.decode("utf-8"),
            parse_int=lambda literal: ("number", literal),
            parse_float=lambda literal: ("number", literal),
            parse_constant=_refuse,
            object_pairs_hook=_members,
        )
    except (ValueError, RecursionError):
        return None
    return None if _depth(meaning) > DEPTH_MAX else (meaning,)


def _refuse(name: str) -> Meaning:
    raise ValueError(name)


def _members(pairs: list[tuple[str, Meaning]]) -> Meaning:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("repeated")
    return dict(pairs)


def _depth(meaning: Meaning) -> int:
    if isinstance(meaning, dict):
        return 1 + max(map(_depth, meaning.values()), default=0)
    if isinstance(meaning, list):
        return 1 + max(map(_depth, meaning), default=0)
    return 0


def written_anew(meaning: Meaning) -> bytes:
    """Write a body in another form: members in reverse, spaces, every character escaped."""
    match meaning:
        case dict():
            members = [
                written_anew(name) + b" :\n" + written_anew(value)
                for name, value in reversed(meaning.items())
            ]
            return b"{ " + b"\t, ".join(members) + b"\r\n}"
        case list():
            return b"[\n" + b" , ".join(map(written_anew, meaning)) + b" ]"
        case str():
            units = meaning.encode("utf-16-be", "surrogatepass")
            pairs = zip(units[::2], units[1::2], strict=True)
            return b'"' + b"".join(b"\\u%02X%02x" % pair for pair in pairs) + b'"'
        case (_, str(literal)):
            return literal.encode()
        case _:
            return json.dumps(meaning).encode()
