"""The request that `resume` sends, as far as the journal does not have it: body, headers, query.

A secret comes from the environment or a file. On a command line everybody on the machine sees it,
and the shell's history keeps it; and nothing here repeats the value of a header.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from replayfloor.client.profile_answers import is_field_name
from replayfloor.core.errors import UsageError

SECRET_WORDS: Final = (
    "auth", "cookie", "credential", "key", "password", "secret", "signature", "token",
)  # fmt: skip
"""A header whose name holds one of these may hold a secret."""


@dataclass(frozen=True, slots=True)
class RequestParts:
    """What the command line says about the request."""

    body: str | None
    content_type: str | None
    query: str
    header: list[str]
    header_env: list[str]
    header_file: list[str]

    @property
    def given(self) -> bool:
        """Whether anything was said."""
        headers = (*self.header, *self.header_env, *self.header_file)
        return self.body is not None or self.content_type is not None or bool(self.query or headers)


@dataclass(frozen=True, slots=True)
class Resent:
    """The request's own part: the rest of it is in the journal."""

    body: bytes
    headers: tuple[tuple[str, str], ...]
    query: str


def read_parts(parts: RequestParts) -> Resent:
    """Return what was said, with what it names read. Raises UsageError."""
    headers: list[tuple[str, str]] = []
    if parts.content_type is not None:
        headers.append(("Content-Type", parts.content_type))
    headers += [_open_header(line) for line in parts.header]
    headers += [_from_environment(line) for line in parts.header_env]
    headers += [_from_file(line) for line in parts.header_file]
    for name, value in headers:
        if not is_field_name(name):
            raise UsageError(f"{name!r} is not the name of a header field")
        if not (value.isascii() and value.isprintable()):
            raise UsageError(f"the value of {name} has a character that no header can have")
    return Resent(_body(parts.body), tuple(headers), parts.query.removeprefix("?"))


def _body(file: str | None) -> bytes:
    if file is None:
        raise UsageError(
            "the journal keeps no bodies: give the body of the first time with --body FILE "
            "(/dev/null if it had none)"
        )
    if file == "-":
        return sys.stdin.buffer.read()
    return _read("--body", file)


def _read(option: str, file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"{option}: {error}") from error


def _open_header(line: str) -> tuple[str, str]:
    name, colon, value = (each.strip() for each in line.partition(":"))
    if not colon or not name:
        raise UsageError("--header: expected 'Name: value'")
    if any(word in name.lower() for word in SECRET_WORDS):
        raise UsageError(
            f"{name} may be a secret, and a command line is no place for one: use --header-env "
            f"{name}=VARIABLE or --header-file {name}=FILE"
        )
    return name, value


def _from_environment(line: str) -> tuple[str, str]:
    name, variable = _pair("--header-env", "VARIABLE", line)
    value = os.environ.get(variable)
    if not value:
        raise UsageError(f"--header-env {name}: the environment has no {variable}")
    return name, value.strip()


def _from_file(line: str) -> tuple[str, str]:
    name, file = _pair("--header-file", "FILE", line)
    text = _read("--header-file", file).decode("ascii", "replace")
    return name, text.strip()


def _pair(option: str, what: str, line: str) -> tuple[str, str]:
    name, equals, source = (each.strip() for each in line.partition("="))
    # Not repeated: who mistakes the form has perhaps written the secret itself.
    if not (equals and name and source):
        raise UsageError(f"{option}: expected Name={what}")
    return name, source
