"""Where in a delivery something is told, as text: parsed, and refused if it is no place. Pure.

    header X-Shopify-Event-Id       a header field, in any case
    body /data/object/id            a JSON pointer (RFC 6901) into the body
    body                            the body itself
    form payment_id                 a field of a form (application/x-www-form-urlencoded)

Several are joined by " + ". What stands there is read in `reading`.
"""

from __future__ import annotations

import re
from dataclasses import field
from enum import Enum
from typing import Final, cast

from replayfloor.core.canonical import Pointer
from replayfloor.core.errors import ConfigurationError
from replayfloor.core.values import frozen

SEPARATOR: Final = " + "

NOTATION: Final = (
    'write "header NAME", "body /json/pointer", "body" or "form NAME", several with " + " between'
)

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_POINTER: Final = re.compile(r"(?:/(?:[^~/]|~[01])*)+", re.DOTALL)
"""RFC 6901, section 3, without the empty pointer, which is written as "body"."""


class PlaceKind(Enum):
    """What a place is in. The value is the first word of its text."""

    HEADER = "header"
    BODY = "body"
    FORM = "form"


@frozen
class Place:
    """One place. `name` is that of the header or of the field; `pointer` is for the body.

    Two are equal if they are the same place, however their `text` writes it.
    """

    kind: PlaceKind
    text: str = field(compare=False)
    name: str = ""
    pointer: Pointer = ()


def parse_places(what: str, text: str) -> tuple[Place, ...]:
    """Return the places of a text; `what` names the option, for the message.

    Raises ConfigurationError, which says how a place is written; also for one named twice.
    """
    if not isinstance(cast("object", text), str):
        raise ConfigurationError(f"{what} is no text: {text!r}: {NOTATION}")
    places = tuple(_parse(what, part.strip()) for part in text.split(SEPARATOR))
    if len(set(places)) < len(places):
        raise ConfigurationError(f"{what}={text!r} names a place twice: name it once")
    if {PlaceKind.BODY, PlaceKind.FORM} <= {place.kind for place in places}:
        raise ConfigurationError(
            f"{what}={text!r}: a body is a JSON document or a form: name places in one of them"
        )
    return places


def parse_place(what: str, text: str) -> Place:
    """Return the one place of a text; raises ConfigurationError, also if it names several."""
    place, *others = parse_places(what, text)
    if others:
        raise ConfigurationError(f"{what}={text!r} names several places: name one")
    return place


def _parse(what: str, text: str) -> Place:
    word, _, rest = text.partition(" ")
    match word:
        case "header" if _TOKEN.fullmatch(rest):
            return Place(PlaceKind.HEADER, f"header {rest}", name=rest.lower())
        case "body" if not rest:
            return Place(PlaceKind.BODY, "body")
        case "body" if _POINTER.fullmatch(rest):
            segments = (each.replace("~1", "/").replace("~0", "~") for each in rest[1:].split("/"))
            return Place(PlaceKind.BODY, f"body {rest}", pointer=tuple(segments))
        case "form" if rest:
            return Place(PlaceKind.FORM, f"form {rest}", name=rest)
        case _:
            raise ConfigurationError(f"{what}: {text!r} is no place: {NOTATION}")
