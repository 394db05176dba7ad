"""HTTP messages as plain values: bytes in, bytes out. No parsing of bodies, no I/O.

Header names are lower-case bytes, values are untouched bytes, and order and repetition are kept,
because a replay has to be the first answer byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable

from replayfloor.core.values import frozen

Headers = tuple[tuple[bytes, bytes], ...]


@frozen
class Response:
    """A complete answer. `body` is the content after any coding the application applied."""

    status: int
    headers: Headers
    body: bytes


def get_all(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    """Return the values of every line of a header, in order; `name` is lower-case bytes."""
    found: list[bytes] = []
    for field, value in headers:
        if field == name:
            found.append(value)
    return found


def get_first(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """Return the value of the first line of a header, or None; `name` is lower-case bytes."""
    for field, value in headers:
        if field == name:
            return value
    return None
