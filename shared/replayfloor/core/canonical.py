"""Bodies by what they mean: equal bytes for bodies that differ in form only. Pure.

An honest retry may be serialised anew: members in another order, other white space, other escapes.
What cannot be read with certainty is taken byte for byte: a false difference is refused and can be
mended, a false equality answers one request with the result of another.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Final, cast
from urllib.parse import unquote_to_bytes

_FORM: Final = b"application/x-www-form-urlencoded"


def canonical_body(content_type: bytes, body: bytes) -> bytes:
    """Return the canonical form of a body.

    JSON (`application/json` and `+json`): independent of the order of members, of white space and
    of escapes; numbers by their literal, since 1.0 and 1 may be different to a reader; a repeated
    member makes it raw. Form fields: independent of the order of different fields and of escapes.
    Everything else: the bytes themselves.
    """
    media_type = content_type.partition(b";")[0].strip().lower()
    written: bytes | None = None
    if media_type == b"application/json" or media_type.endswith(b"+json"):
        written = _json(body)
    elif media_type == _FORM:
        written = _form(body)
    # The first byte keeps a raw body from being taken for the canonical form of another.
    return b"r" + body if written is None else b"c" + written


class _NotCanonical(ValueError):
    """The text is no JSON (RFC 8259), or its meaning depends on its reader."""


class _Literal(str):
    """A number as it was written."""

    __slots__ = ()


def _json(body: bytes) -> bytes | None:
    try:
        value: object = json.loads(
            body,
            parse_int=_Literal,
            parse_float=_Literal,
            parse_constant=_refuse_constant,
            object_pairs_hook=_members,
        )
        out: list[str] = []
        _write(value, out.append)
        return "".join(out).encode("ascii")
    except (ValueError, RecursionError):
        return None


def _refuse_constant(name: str) -> object:
    raise _NotCanonical(f"{name} is not JSON")


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _NotCanonical("a member is repeated, and readers differ in which one counts")
    return members


def _write(value: object, put: Callable[[str], None]) -> None:
    match value:
        case _Literal():
            put(str.__str__(value))
        case str() | bool() | None:
            put(json.dumps(value))
        case dict():
            members = cast("dict[str, object]", value)
            put("{")
            for name in sorted(members):
                put(json.dumps(name) + ":")
                _write(members[name], put)
                put(",")
            put("}")
        case list():
            put("[")
            for element in cast("list[object]", value):
                _write(element, put)
                put(",")
            put("]")
        case _:
            raise _NotCanonical(f"{type(value)} does not come from JSON")


def _form(body: bytes) -> bytes | None:
    if not body.isascii():
        return None
    fields = [_field(part) for part in body.split(b"&") if part]
    # Stable: the values of one field stay in their order.
    return b"".join(_counted(part) for field in sorted(fields, key=_name) for part in field)


def _field(part: bytes) -> tuple[bytes, ...]:
    """Return name and value, or the name alone: "a" and "a=" are kept apart."""
    return tuple(unquote_to_bytes(piece.replace(b"+", b" ")) for piece in part.split(b"=", 1))


def _name(field: tuple[bytes, ...]) -> bytes:
    return field[0]


def _counted(part: bytes | Iterable[int]) -> bytes:
    content = bytes(part)
    return len(content).to_bytes(8, "big") + content
