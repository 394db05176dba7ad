"""A key in a JSON body, for providers that take none in a header. Bytes in, bytes out.

The body is not written anew: one member is put in front of the others, and every other byte stays,
so that a number keeps its spelling and a signature of the rest its value.
"""

from __future__ import annotations

import json
from typing import Final, cast

from replayfloor.core.errors import InvalidKey, UsageError

_BLANK: Final = b" \t\r\n"
_OPEN: Final = b"{"


def read_member(body: bytes, name: str) -> str | None:
    """Return the key that a body holds already, or None.

    Raises UsageError if the body has no place for one, InvalidKey if what it holds is no key.
    """
    found = [value for member, value in _members(body, name) if member == name]
    if not found:
        return None
    if len(found) > 1:
        raise InvalidKey(f"the body has several members {name!r}; which of them counts is unclear")
    if not isinstance(found[0], str):
        raise InvalidKey(f"the body's member {name!r} is not a string")
    return found[0]


def with_member(body: bytes, name: str, key: str) -> bytes:
    """Return the body with the key in it; unchanged if it holds that key already.

    Raises UsageError if the body is not a JSON object in UTF-8, or holds another key.
    """
    standing = read_member(body, name)
    if standing == key:
        return body
    if standing is not None:
        raise UsageError(f"the body's member {name!r} is another key than the operation's")
    rest = body.lstrip(_BLANK).removeprefix(_OPEN)
    member = f"{json.dumps(name)}:{json.dumps(key)}".encode("ascii")
    comma = b"" if rest.lstrip(_BLANK).startswith(b"}") else b","
    return _OPEN + member + comma + rest


def _members(body: bytes, name: str) -> list[tuple[str, object]]:
    # Pairs, so that a member that is there twice is seen twice; a nested object is a list as well.
    def pairs(members: list[tuple[str, object]]) -> object:
        return _Members(members)

    try:
        content: object = json.loads(body.decode("utf-8"), object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, _Members):
        raise UsageError(
            f"the key goes into the body's member {name!r}, so the body has to be a JSON object "
            "in UTF-8"
        )
    return cast("list[tuple[str, object]]", content)


class _Members(list[tuple[str, object]]):
    """The members of an object, to be told from an array."""
