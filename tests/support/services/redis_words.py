"""Asks a Redis something and reads the answer, whatever its shape; no client library in between."""

from __future__ import annotations

import socket
from io import BufferedRWPair
from typing import Any

from .server import LOOPBACK

CONNECT_TIMEOUT_S = 1.0
ANSWER_TIMEOUT_S = 10.0


def ask(port: int, *words: str | int) -> str:
    """Return the answer to one command as text. Raises RuntimeError for an error reply."""
    return str(_ask(port, words))


def ask_list(port: int, *words: str | int) -> list[Any]:
    """Return an answer that is a list, of text, numbers and lists."""
    answer = _ask(port, words)
    assert isinstance(answer, list)
    return answer


def pairs(fields: list[str]) -> dict[str, str]:
    """Return a flat list of names and values as a dictionary."""
    return dict(zip(fields[::2], fields[1::2], strict=True))


def info(port: int, *words: str) -> dict[str, str]:
    """Return what INFO or CLUSTER INFO says, as a dictionary."""
    lines = ask(port, *words).splitlines()
    return {name: value for name, colon, value in (line.partition(":") for line in lines) if colon}


def replication(port: int) -> dict[str, str]:
    """Return the server's role, and its links to others."""
    return info(port, "INFO", "replication")


def _ask(port: int, words: tuple[str | int, ...]) -> object:
    with socket.create_connection((LOOPBACK, port), CONNECT_TIMEOUT_S) as connection:
        connection.settimeout(ANSWER_TIMEOUT_S)
        with connection.makefile("rwb") as stream:
            encoded = [str(word).encode() for word in words]
            parts = [b"*%d\r\n" % len(encoded)]
            parts += [b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded]
            stream.write(b"".join(parts))
            stream.flush()
            return _read(stream)


def _read(stream: BufferedRWPair) -> object:
    line = stream.readline().rstrip(b"\r\n").decode(errors="replace")
    kind, rest = line[:1], line[1:]
    match kind:
        case "+":
            return rest
        case ":":
            return int(rest)
        case "$" if rest == "-1":
            return ""
        case "$":
            return stream.read(int(rest) + 2)[:-2].decode(errors="replace")
        case "*":
            return [_read(stream) for _ in range(int(rest))]
        case _:
            raise RuntimeError(line)
