"""What is asked, as its user describes it; and the requests that are made of that. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, cast

from replayfloor.conform.effects import Leave, Sending
from replayfloor.core.message import Headers

NAME: Final = "{id}"
"""What is replaced in paths, bodies and the count's address by the name of the operation."""

FIELD: Final = b"Idempotency-Key"
CONTENT_TYPE: Final = b"content-type"


class Kind(StrEnum):
    """Paths beside the main one, for answers of a kind that the main one does not give."""

    OTHER = "other"
    SLOW = "slow"
    EMPTY = "204"
    REDIRECT = "redirect"
    DECLINED = "declined"
    FAILING = "failing"
    BINARY = "binary"
    STREAM = "stream"
    LARGE = "large"


@dataclass(frozen=True, slots=True)
class Target:
    """A protected operation. `lines` go with every request, its Content-Type among them.

    `second` replaces lines of the same names, for a request of another principal. `quoted` is
    whether a key is sent as a String in double quotes, or bare. `origin` is that of a page.
    """

    method: str
    path: str
    lines: Headers
    body: bytes
    other_body: bytes
    second: Headers = ()
    origin: bytes = b""
    paths: Mapping[Kind, str] = field(default_factory=lambda: MappingProxyType({}))
    concurrency: int = 8
    counted: bool = False
    quoted: bool = True

    def slow_path(self) -> str:
        """Return the path on which duplicates surely meet, or the main one."""
        return self.paths.get(Kind.SLOW, self.path)


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: its name is its key, and stands for `{id}` in what is sent."""

    target: Target
    name: str

    @property
    def key(self) -> bytes:
        """The field value of its key."""
        return (f'"{self.name}"' if self.target.quoted else self.name).encode()

    def sending(
        self,
        *,
        keys: tuple[bytes, ...] | None = None,
        method: str | None = None,
        path: str | None = None,
        body: bytes | None = None,
        field_name: bytes = FIELD,
        more: Headers = (),
        second: bool = False,
        chunked: bool = False,
        after_s: float = 0.0,
        leave: Leave = Leave.NEVER,
        stay_s: float = 0.0,
    ) -> Sending:
        """Return a request of this operation; `keys` are the values of its key's header lines."""
        lines = self.target.lines
        if second:
            replaced = {name.lower() for name, _ in self.target.second}
            lines = tuple(line for line in lines if line[0].lower() not in replaced)
            lines += self.target.second
        named = (self.key,) if keys is None else keys
        return Sending(
            method=method or self.target.method,
            path=(self.target.path if path is None else path).replace(NAME, self.name),
            lines=lines + more + tuple((field_name, value) for value in named),
            body=self._named(self.target.body if body is None else body),
            chunked=chunked,
            after_s=after_s,
            leave=leave,
            stay_s=stay_s,
        )

    def other(self) -> bytes:
        """Return the payload of another request."""
        return self.target.other_body

    def _named(self, body: bytes) -> bytes:
        return body.replace(NAME.encode(), self.name.encode())


def other_body(body: bytes) -> bytes:
    """Return a payload that differs from `body` and, as far as can be guessed, is as valid.

    Of a JSON object, the first number is raised by one; without one, a text is extended; without
    that, a member is added. Anything else gets more bytes.
    """
    try:
        content: object = json.loads(body)
    except (ValueError, RecursionError):
        return body + b" other"
    if not isinstance(content, dict):
        return json.dumps([content, "other"]).encode()
    members = cast("dict[str, object]", content)
    for name, value in members.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            return json.dumps(members | {name: value + 1}).encode()
    for name, value in members.items():
        if isinstance(value, str) and NAME not in value:
            return json.dumps(members | {name: value + "-other"}).encode()
    return json.dumps(members | {"conform_other": True}).encode()
