"""Performs what checks ask for, over httpx: the only module of the kit that sends anything.

It sends to one origin, the one of the address that its user gave: no redirect is followed, and no
proxy of the environment is used. How many requests, how long one and all of them may take, and
how much of an answer is read are limited.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self, cast

import httpx

from replayfloor.conform.effects import Count, Exchange, FreshName, Leave, Seen, Sending, Wait
from replayfloor.conform.target import NAME
from replayfloor.conform.verdicts import CannotRun
from replayfloor.core.effects import Effect
from replayfloor.core.errors import UsageError
from replayfloor.core.message import Headers

ANSWER_BYTES_MAX: Final = 64 << 20
"""What is read of one answer: more than any store keeps, less than a machine has."""

REQUESTS_MAX: Final = 5000
"""Requests of one run; all checks at a concurrency of 64 take less than a third of it."""

TOGETHER_MAX: Final = 64
"""The highest concurrency: a kit is no load generator."""

STAY_MIN_S: Final = 0.01
SETTLE_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Limits:
    """How long one answer, and the whole run, may take; in seconds."""

    answer_s: float = 20.0
    run_s: float = 300.0


class Left(Exception):
    """The client hangs up, as it was told to."""


class Shell:
    """Sends to one origin. Used by one run at a time; close it."""

    def __init__(
        self,
        url: str,
        *,
        count_url: str | None = None,
        count_lines: Headers = (),
        limits: Limits | None = None,
    ) -> None:
        """Take the address, and the one of the count: a path, or an address of the same origin.

        The count's fragment is a JSON pointer into its answer. Raises UsageError for an address
        that is none, or of another origin.
        """
        self._origin = httpx.URL(url)
        if self._origin.scheme not in ("http", "https") or not self._origin.host:
            raise UsageError(f"not an address of HTTP: {url}")
        self._count_path, _, self._pointer = (count_url or "").partition("#")
        self._count_lines = count_lines
        if not _same_origin(self._origin, self._origin.join(self._count_path)):
            raise UsageError("the count has to be on the server that is asked")
        self._limits = limits or Limits()
        self._ends_s = time.monotonic() + self._limits.run_s
        self._requests = 0
        self._client = httpx.Client(
            # Reading the certificates takes longer than many checks; http has none to verify.
            verify=self._origin.scheme == "https",
            trust_env=False,
            follow_redirects=False,
            timeout=self._limits.answer_s,
            limits=httpx.Limits(
                max_connections=2 * TOGETHER_MAX, max_keepalive_connections=TOGETHER_MAX
            ),
        )

    def __enter__(self) -> Self:
        """Use it until the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close every connection."""
        self._client.close()

    def __call__(self, effect: Effect[object]) -> object:
        """Perform one effect. Raises CannotRun if the server is away or a limit is reached."""
        match effect:
            case Exchange(sendings):
                return self._exchange(sendings)
            case Count(name):
                return self._count(name)
            case FreshName():
                return str(uuid.uuid4())
            case Wait(seconds):
                time.sleep(seconds)
                return None
            case _:
                raise TypeError(f"unknown effect: {effect!r}")

    def _exchange(self, sendings: tuple[Sending, ...]) -> tuple[Seen, ...]:
        self._requests += len(sendings)
        if self._requests > REQUESTS_MAX:
            raise CannotRun(f"more than {REQUESTS_MAX} requests")
        if time.monotonic() > self._ends_s:
            raise CannotRun(f"more than {self._limits.run_s:g} s")
        if len(sendings) == 1:
            return (self._send(sendings[0]),)
        barrier = threading.Barrier(len(sendings))

        def together(sending: Sending) -> Seen:
            barrier.wait()
            time.sleep(sending.after_s)
            return self._send(sending)

        with ThreadPoolExecutor(len(sendings)) as pool:
            return tuple(pool.map(together, sendings))

    def _send(self, sending: Sending) -> Seen:
        began_s = time.monotonic()
        try:
            with contextlib.closing(self._stream(sending)) as answer:
                body = _read(answer)
        except Left:
            return Seen(0, failure="left", began_s=began_s, ended_s=time.monotonic())
        except httpx.ConnectError as error:
            raise CannotRun(f"the server cannot be reached: {error}") from error
        except httpx.TimeoutException:
            return Seen(0, failure="no answer in time", began_s=began_s, ended_s=time.monotonic())
        except (httpx.HTTPError, httpx.StreamError) as error:
            why = f"no complete answer ({type(error).__name__}: {error})"
            return Seen(0, failure=why, began_s=began_s, ended_s=time.monotonic())
        if answer.status_code >= 500:
            # Many servers close the connection after a failure: the next request shall see that.
            time.sleep(SETTLE_S)
        headers = tuple((name.lower(), value) for name, value in answer.headers.raw)
        return Seen(answer.status_code, headers, body, "", began_s, time.monotonic())

    def _stream(self, sending: Sending) -> httpx.Response:
        lines = [*sending.lines, (b"accept-encoding", b"identity")]
        content: bytes | Iterator[bytes] = sending.body
        if sending.chunked:
            content = _pieces(sending.body)
        elif sending.leave is Leave.IN_BODY:
            lines.append((b"content-length", str(len(sending.body)).encode()))
            content = _half(sending.body)
        timeout = httpx.Timeout(self._limits.answer_s)
        if sending.leave is Leave.AFTER_SENDING:
            timeout = httpx.Timeout(self._limits.answer_s, read=max(sending.stay_s, STAY_MIN_S))
        request = httpx.Request(
            sending.method,
            self._origin.join(sending.path),
            headers=lines,
            content=content or None,
            extensions={"timeout": timeout.as_dict()},
        )
        if not _same_origin(self._origin, request.url):
            raise UsageError(f"not on the server that is asked: {sending.path}")
        return self._client.send(request, stream=True)

    def _count(self, name: str) -> int:
        path = self._count_path.replace(NAME, name)
        seen = self._send(Sending("GET", path, self._count_lines, b""))
        if seen.status != 200:
            raise CannotRun(f"the count is answered {seen}")
        try:
            value: object = json.loads(seen.body)
            for part in self._pointer.strip("/").split("/") if self._pointer else ():
                value = cast("dict[str, object]", value)[part]
        except (ValueError, LookupError, TypeError) as error:
            raise CannotRun(f"the count cannot be read: {seen.body[:100]!r}") from error
        if not isinstance(value, int):
            raise CannotRun(f"the count is no whole number: {value!r}")
        return value


def _same_origin(one: httpx.URL, other: httpx.URL) -> bool:
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


def _read(answer: httpx.Response) -> bytes:
    body = bytearray()
    for chunk in answer.iter_raw():
        body += chunk
        if len(body) > ANSWER_BYTES_MAX:
            raise httpx.StreamError(f"more than {ANSWER_BYTES_MAX} bytes")
    return bytes(body)


def _pieces(body: bytes) -> Iterator[bytes]:
    middle = len(body) // 2
    yield body[:middle]
    yield body[middle:]


def _half(body: bytes) -> Iterator[bytes]:
    yield body[: len(body) // 2]
    raise Left
