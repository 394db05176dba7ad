"""Bodies by what they mean: equal bytes for bodies that differ in form only. Pure.

An honest retry may be serialised anew: members in another order, other white space, other escapes.
What cannot be read with certainty is taken byte for byte: a false difference is refused and can be
mended, a false equality answers one request with the result of another.

The forms written here are hashed into what is stored: a change of them, or of a limit, makes an
honest retry of a stored request another request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final, TypeAlias, cast
from urllib.parse import unquote_to_bytes

from replayfloor.core.fingerprint import media_type_of

Pointer: TypeAlias = tuple[str, ...]
"""The segments of a JSON pointer (RFC 6901), unescaped."""

CANONICAL_BYTES_MAX: Final = 1024 * 1024
"""Bytes of a body that is read for its meaning; reading takes up to 80 times that memory, if it
is all escapes or small numbers. A larger one is taken byte for byte: such documents are written
once, and sent again as they were."""

FIELDS_MAX: Final = 2000
"""Fields of a form, or parts of a multipart body, that are read for their meaning. What takes more
is no form: Django refuses 1000 fields, Starlette 1000 fields and 1000 files."""

DEPTH_MAX: Final = 100
"""Levels of a JSON document that is read for its meaning. The interpreter's own limit leaves less
or more room with each caller, and would make one body now canonical and now not."""

FORM: Final = b"application/x-www-form-urlencoded"
JSON: Final = b"application/json"

_BLANKS: Final = " \t\n\r"
"""What may stand around a JSON text (RFC 8259, section 2)."""

_NUL: Final = "\x00"
_WRITTEN_NUL: Final = b"\\u0000"
"""The one way to write it (RFC 8259, section 7)."""

_STARTS_WITH_NUL: Final = re.compile(rb'(?<!\\)"\\u0000')
"""Of the quotes in a JSON text only one that opens a string is followed by an escape; one that is
part of a string has a backslash before it."""

_NO_VALUE: Final = b"\xff" * 8
"""Stands where the length of a value would: "a&b" is two names, and not the name "a" with "b"."""

_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")  # RFC 6901, section 4
_EXCLUDED: Final = object()


def canonical_body(content_type: bytes, body: bytes, exclude: tuple[Pointer, ...] = ()) -> bytes:
    """Return the canonical form of a body, without what `exclude` points at.

    JSON (`application/json` and `+json`): independent of the order of members, of white space and
    of escapes; numbers by their literal, since 1.0 and 1 may be different to a reader; a repeated
    member makes it raw. Form fields: independent of the order of different fields and of escapes;
    a pointer of one segment names a field. Everything else, and what exceeds CANONICAL_BYTES_MAX,
    FIELDS_MAX or DEPTH_MAX: the bytes themselves, with nothing excluded.
    """
    written: bytes | None = None
    if len(body) <= CANONICAL_BYTES_MAX:
        media_type = media_type_of(content_type)
        if media_type == JSON or media_type.endswith(b"+json"):
            written = _json(body, exclude)
        elif media_type == FORM:
            written = _form(body, field_names(exclude))
    # The first byte keeps a raw body from being taken for the canonical form of another.
    return b"r" + body if written is None else b"c" + written


def field_names(exclude: tuple[Pointer, ...]) -> frozenset[bytes]:
    """Return the fields of a form that pointers name: those of one segment do, in UTF-8."""
    return frozenset(
        pointer[0].encode("utf-8", "surrogatepass") for pointer in exclude if len(pointer) == 1
    )


class _NotCanonical(ValueError):
    """The text is no JSON (RFC 8259), or its meaning depends on its reader."""


def _json(body: bytes, exclude: tuple[Pointer, ...]) -> bytes | None:
    # Numbers become strings that start with NUL, which the C encoder writes as they were. So a
    # string that itself starts with NUL gets a second one.
    if _WRITTEN_NUL in body:
        body = _STARTS_WITH_NUL.sub(rb'"\\u0000\\u0000', body)
    try:
        # UTF-8 without a mark, as RFC 8259 (8.1) has it: other codings may be read differently.
        text = body.decode().strip(_BLANKS)
        # One step below `decode`, which looks for blanks by two regular expressions.
        document: object
        document, end = _DECODER.raw_decode(text)
        if end != len(text):
            return None
        if body.count(b"[") + body.count(b"{") > DEPTH_MAX and _is_too_deep(document):
            return None
        if exclude:
            _remove(document, exclude)
        return _ENCODER.encode(document).encode("ascii")
    except (ValueError, RecursionError):
        return None


def _refuse_constant(name: str) -> object:
    raise _NotCanonical(f"{name} is not JSON")


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _NotCanonical("a member is repeated, and readers differ in which one counts")
    return members


_keep_literal: Callable[[str], str] = _NUL.__add__

_DECODER: Final = json.JSONDecoder(
    parse_int=_keep_literal,
    parse_float=_keep_literal,
    parse_constant=_refuse_constant,
    object_pairs_hook=_members,
)
_ENCODER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), check_circular=False)


def _is_too_deep(document: object) -> bool:
    level = [document]
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for container in level
            for inner in _elements(container)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return False
    return True


def _elements(container: object) -> list[object]:
    if isinstance(container, dict):
        return list(cast("dict[str, object]", container).values())
    return cast("list[object]", container) if isinstance(container, list) else []


def _remove(document: object, pointers: tuple[Pointer, ...]) -> None:
    """Take out what is pointed at. Every index counts in the document as it was received."""
    shortened: list[list[object]] = []
    for pointer in pointers:
        *parents, last = map(_as_decoded, pointer)
        container = document
        for segment in parents:
            container = _step(container, segment)
        if isinstance(container, dict):
            cast("dict[str, object]", container).pop(last, None)
        elif isinstance(container, list):
            elements = cast("list[object]", container)
            if _points_into(elements, last):
                elements[int(last)] = _EXCLUDED
                shortened.append(elements)
    for elements in shortened:
        elements[:] = [element for element in elements if element is not _EXCLUDED]


def _as_decoded(segment: str) -> str:
    return _NUL + segment if segment.startswith(_NUL) else segment


def _step(container: object, segment: str) -> object:
    if isinstance(container, dict):
        return cast("dict[str, object]", container).get(segment)
    if isinstance(container, list):
        elements = cast("list[object]", container)
        return elements[int(segment)] if _points_into(elements, segment) else None
    return None


def _points_into(elements: list[object], segment: str) -> bool:
    return _INDEX.fullmatch(segment) is not None and int(segment) < len(elements)


def _form(body: bytes, excluded: frozenset[bytes]) -> bytes | None:
    if not body.isascii() or body.count(b"&") >= FIELDS_MAX:
        return None
    fields = [_field(part) for part in body.split(b"&") if part]
    # Stable: the values of one field stay in their order.
    counting = sorted((field for field in fields if field[0] not in excluded), key=_name)
    written: list[bytes] = []
    for field in counting:
        written.extend(map(_counted, field))
        if len(field) == 1:
            written.append(_NO_VALUE)
    # Behind the last there is nothing that could be taken for its value.
    return b"".join(written[:-1] if counting and len(counting[-1]) == 1 else written)


def _field(part: bytes) -> tuple[bytes, ...]:
    """Return name and value, or the name alone: "a" and "a=" are kept apart."""
    return tuple(unquote_to_bytes(piece.replace(b"+", b" ")) for piece in part.split(b"=", 1))


def _name(field: tuple[bytes, ...]) -> bytes:
    return field[0]


def _counted(part: bytes) -> bytes:
    return len(part).to_bytes(8, "big") + part
