"""The JSON document of a delivery: read without loss, and cut into its events. Pure.

An event is cut out of the text and not written anew: so nothing that the sender wrote is rounded,
reordered or escaped in another way.
"""

from __future__ import annotations

import json
import re
from typing import Final, cast

from replayfloor.core.canonical import Pointer
from replayfloor.core.values import frozen

EVENTS_MAX: Final = 10_000
"""Events of one delivery. Senders that are known put some hundreds into one; each takes a claim."""

NARROWED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of all narrowed bodies of a delivery together. Each repeats what surrounds the list, so a
body within its own limit could otherwise ask for the product of both."""

_SPACE: Final = re.compile(r"[ \t\n\r]*")  # RFC 8259, section 2
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")  # RFC 6901, section 4


class NotTold(ValueError):
    """Something is not where it was looked for. The text goes on after "<place> "."""


class Absent(NotTold):
    """Nothing is there at all."""

    def __init__(self) -> None:
        """Say so."""
        super().__init__("is absent")


class Number(str):
    """A number of a JSON document, by its literal: 1 and 1.0 may be different to a reader."""

    __slots__ = ()


class Repeated:
    """Stands for a member that its object has more than once: readers differ in which counts."""


REPEATED: Final = Repeated()


@frozen
class Entry:
    """One event of a batch: its value, and the body narrowed to it; None if it was alone."""

    value: object
    body: bytes | None


def read(body: bytes) -> object:
    """Return a JSON document: numbers as Number, repeated members as REPEATED.

    Raises NotTold if it is none (RFC 8259): not in UTF-8, or with NaN or Infinity, too.
    """
    text = _text(body)
    value, end = _value(text, _skip(text, 0))
    _require_end(text, end)
    return value


def step(container: object, segment: str) -> object:
    """Return what one segment of a JSON pointer leads to; raises NotTold."""
    if isinstance(container, dict):
        members = cast("dict[str, object]", container)
        if segment in members:
            value = members[segment]
            if value is REPEATED:
                raise NotTold("is there more than once")
            return value
    elif isinstance(container, list) and _INDEX.fullmatch(segment):
        elements = cast("list[object]", container)
        if int(segment) < len(elements):
            return elements[int(segment)]
    raise Absent


def cut(body: bytes, pointer: Pointer) -> tuple[Entry, ...]:
    """Return the elements of the list that `pointer` names, each with its narrowed body.

    Raises NotTold: for what is no JSON document, has no such list, or is beyond a limit.
    """
    text = _text(body)
    found: list[_List] = []
    _require_end(text, _find(text, _skip(text, 0), pointer, found))
    if not found:
        raise Absent
    elements = found[0].elements
    if len(elements) > EVENTS_MAX:
        raise NotTold(f"has more than {EVENTS_MAX} entries")
    if len(elements) == 1:
        return (Entry(elements[0].value, None),)
    before, after = text[: found[0].start].encode(), text[found[0].end :].encode()
    around = len(before) + len(after)
    if around * len(elements) + len(body) > NARROWED_BYTES_MAX:
        raise NotTold(f"takes more than {NARROWED_BYTES_MAX} bytes to hand on entry by entry")
    return tuple(
        Entry(each.value, b"%b[%b]%b" % (before, text[each.start : each.end].encode(), after))
        for each in elements
    )


@frozen
class _Element:
    value: object
    start: int
    end: int


@frozen
class _List:
    elements: tuple[_Element, ...]
    start: int
    end: int


def _find(text: str, at: int, pointer: Pointer, found: list[_List]) -> int:
    """Put the list that `pointer` names into `found`; return where the value at `at` ends.

    Every value beside the way is read too: a document with a defect anywhere is none.
    """
    if not pointer:
        elements, end = _elements(text, at)
        found.append(_List(elements, at, end))
        return end
    if text[at : at + 1] != "{":
        raise Absent
    at = _skip(text, at + 1)
    if text[at : at + 1] == "}":
        return at + 1
    seen = False
    while True:
        if text[at : at + 1] != '"':
            raise _malformed()
        name, at = _value(text, at)
        at = _skip(text, _mark(text, at, ":"))
        if name == pointer[0]:
            if seen:
                raise NotTold("is there more than once")
            seen = True
            at = _find(text, at, pointer[1:], found)
        else:
            _, at = _value(text, at)
        at = _skip(text, at)
        if text[at : at + 1] == "}":
            return at + 1
        at = _skip(text, _mark(text, at, ","))


def _elements(text: str, at: int) -> tuple[tuple[_Element, ...], int]:
    if text[at : at + 1] != "[":
        raise NotTold("is no list")
    elements: list[_Element] = []
    at = _skip(text, at + 1)
    if text[at : at + 1] == "]":
        return (), at + 1
    while True:
        value, end = _value(text, at)
        elements.append(_Element(value, at, end))
        at = _skip(text, end)
        if text[at : at + 1] == "]":
            return tuple(elements), at + 1
        at = _skip(text, _mark(text, at, ","))


def _text(body: bytes) -> str:
    try:
        # A mark at the start is not allowed (RFC 8259, 8.1), and may be ignored.
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _malformed() from None


def _value(text: str, at: int) -> tuple[object, int]:
    try:
        return cast("tuple[object, int]", _DECODER.raw_decode(text, at))
    except (ValueError, RecursionError):
        raise _malformed() from None


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return at if match is None else match.end()


def _mark(text: str, at: int, mark: str) -> int:
    at = _skip(text, at)
    if text[at : at + 1] != mark:
        raise _malformed()
    return at + 1


def _require_end(text: str, at: int) -> None:
    if _skip(text, at) != len(text):
        raise _malformed()


def _malformed() -> NotTold:
    return NotTold("cannot be read: the body is no JSON document in UTF-8")


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                members[name] = REPEATED
            seen.add(name)
    return members


_DECODER: Final = json.JSONDecoder(
    parse_int=Number,
    parse_float=Number,
    parse_constant=_refuse_constant,
    object_pairs_hook=_members,
)
