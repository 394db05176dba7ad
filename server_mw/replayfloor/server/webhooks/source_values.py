"""What stands at a place of a delivery, and what it means: an id, a time. Pure.

The texts of ids are hashed into what is stored: a change of how they are written makes a
redelivery another event.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from email.utils import parsedate_to_datetime
from typing import Final, assert_never, cast
from urllib.parse import parse_qsl, quote

from replayfloor.core.canonical import FIELDS_MAX
from replayfloor.core.message import get_all
from replayfloor.server.webhooks.batches import REPEATED, Absent, NotTold, Number, read, step
from replayfloor.server.webhooks.delivery import Delivery
from replayfloor.server.webhooks.places import Place, PlaceKind

ID_CHARS_MAX: Final = 1024
"""Characters of an event's id as `id_text` writes it. The longest ids that senders are known to use
have some hundred; what is longer was read in the wrong place."""

EARLIEST_MS: Final = 946_684_800_000
"""The year 2000. A time before it is a default value, or counts in another unit; to believe it
would have an event taken for one that is past its horizon."""

LATEST_MS: Final = 100_000_000_000_000
"""The year 5138. What is later counts in another unit."""

_MS_FROM: Final = 100_000_000_000
"""A number from here on counts milliseconds: as seconds it would be after the year 5138, and as
milliseconds what is below is before 1974."""

_NUMBER: Final = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,20})?", re.ASCII)
_ISO: Final = re.compile(r"[0-9]{4}-?[0-9]{2}-?[0-9]{2}[T ][0-9].{1,40}", re.ASCII | re.IGNORECASE)
_RFC_1123: Final = re.compile(
    r"[A-Z][a-z]{2}, [0-9]{1,2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} (?:GMT|UTC|[+-][0-9]{4})", re.ASCII
)
_UNESCAPED: Final = ":/=@"
"""Beside letters, digits and "_.-~"; none of them separates, or marks, a part of an id."""


class Told:
    """One delivery, or one entry of its batch, and what stands at its places. Reads each once."""

    def __init__(self, delivery: Delivery, *entry: object) -> None:
        """Take a delivery; and the value of one event, if it tells of several."""
        self._delivery = delivery
        self._document: list[object] = list(entry)
        self._form: dict[str, list[str]] | None = None

    def at(self, place: Place) -> object:
        """Return what stands there; raises NotTold, whose text goes on after the place."""
        match place.kind:
            case PlaceKind.HEADER:
                return _only([value.decode("latin-1") for value in self._lines(place.name)])
            case PlaceKind.FORM:
                return _only(self._fields().get(place.name, []))
            case PlaceKind.BODY:
                if not self._document:
                    self._document.append(read(self._delivery.body))
                value = self._document[0]
                for segment in place.pointer:
                    value = step(value, segment)
                return value
            case _:
                assert_never(place.kind)

    def at_or_none(self, place: Place | None) -> object:
        """Return what stands there, or None if that cannot be told, or is null."""
        if place is None:
            return None
        try:
            return self.at(place)
        except NotTold:
            return None

    def has(self, place: Place) -> bool:
        """Return whether anything stands there, read with certainty."""
        try:
            self.at(place)
        except NotTold:
            return False
        return True

    def time_ms_at(self, place: Place | None) -> int | None:
        """Return the time that stands there, as `time_ms` does; None too if nothing does."""
        return time_ms(self.at_or_none(place))

    def text_at(self, place: Place | None) -> str | None:
        """Return the text or number that stands there, as `id_part` does; None if none does."""
        try:
            return id_part(self.at_or_none(place))
        except NotTold:
            return None

    def _lines(self, name: str) -> list[bytes]:
        return get_all(self._delivery.headers, name.encode("ascii"))

    def _fields(self) -> dict[str, list[str]]:
        if self._form is None:
            self._form = {}
            try:
                fields = parse_qsl(
                    self._delivery.body.decode("ascii"),
                    keep_blank_values=True,
                    errors="strict",
                    max_num_fields=FIELDS_MAX,
                )
            except ValueError:
                raise NotTold("cannot be read: the body is no form in UTF-8") from None
            for name, value in fields:
                self._form.setdefault(name, []).append(value)
        return self._form


def _only(values: list[str]) -> str:
    match values:
        case []:
            raise Absent
        case [value]:
            return value.strip(" \t")
        case _:
            raise NotTold("is there more than once")


# -- ids ------------------------------------------------------------------------------------------


def id_part(value: object) -> str:
    """Return a text or a number as a part of an id; raises NotTold for what is neither.

    A text is percent-encoded (UTF-8) but for letters, digits and "_.-~:/=@"; a number is its
    literal after "#": so the text "1" and the number 1 are two ids, as 1 and 1.0 are.
    """
    match value:
        case Number():
            return f"#{value}"
        case str():
            if not value.strip():
                raise NotTold("is empty")
            return _escaped(value)
        case _:
            raise NotTold("is no text and no number")


def id_text(parts: Iterable[str]) -> str:
    """Return an id of its parts, joined by "+"; raises NotTold if it is too long."""
    text = "+".join(parts)
    if len(text) > ID_CHARS_MAX:
        raise NotTold(f"is longer than {ID_CHARS_MAX} characters")
    return text


def compared_text(value: object) -> str:
    """Return a JSON value as text: equal for values that mean the same, whatever their form.

    Raises NotTold for an object with a repeated member, and for what is nested too deeply.
    """
    try:
        return _written(value)
    except RecursionError:
        raise NotTold("is nested too deeply") from None


def _written(value: object) -> str:
    match value:
        case Number():
            return f"#{value}"
        case str():
            return f'"{_escaped(value)}"'
        case dict():
            members = cast("dict[str, object]", value)
            pairs = sorted(f"{_escaped(key)}>{_written(members[key])}" for key in members)
            return "{" + ",".join(pairs) + "}"
        case list():
            return "[" + ",".join(map(_written, cast("list[object]", value))) + "]"
        case _ if value is REPEATED:
            raise NotTold("has a member more than once")
        case _:
            return f"!{value}"


def _escaped(text: str) -> str:
    # A surrogate without its other half may stand in JSON, and has to be told from its neighbours.
    return quote(text, safe=_UNESCAPED, errors="surrogatepass")


# -- times ----------------------------------------------------------------------------------------


def time_ms(value: object) -> int | None:
    """Return a time in ms since 1970, or None if it cannot be read with certainty.

    Unix seconds or milliseconds, as a number or a text; RFC 3339 and ISO 8601 with date and time
    (without an offset: UTC); RFC 1123. None too for what is outside of EARLIEST_MS and LATEST_MS.
    """
    if not isinstance(value, str):
        return None
    text = value.strip()
    try:
        ms = _unix_ms(Decimal(text)) if _NUMBER.fullmatch(text) else _calendar_ms(text)
    except (ValueError, OverflowError):
        return None
    return ms if ms is not None and EARLIEST_MS <= ms < LATEST_MS else None


def _unix_ms(number: Decimal) -> int:
    return int(number if number >= _MS_FROM else number * 1000)


def _calendar_ms(text: str) -> int | None:
    if _ISO.fullmatch(text):
        moment = datetime.fromisoformat(text.upper())
    elif _RFC_1123.fullmatch(text):
        moment = parsedate_to_datetime(text)
    else:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
