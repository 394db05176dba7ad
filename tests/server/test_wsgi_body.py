"""`wsgi.input`: read once and whole, within its length, and given to the application anew."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import IO, cast

import pytest

from replayfloor.core.problem import ProblemKind
from server.wsgi_client import CREATED, Worker, environ, serve
from server.wsgi_server import Environ, StartResponse, WSGIApp

FRESH, REPLAY = (201, None, False), (201, None, True)
TOO_LARGE = (413, ProblemKind.BODY_TOO_LARGE, False)
LINES = b"first\nsecond\n" + bytes(range(256)) + b"\nlast"
MIB = 1024 * 1024

WAYS: dict[str, Callable[[IO[bytes]], bytes]] = {
    "read": lambda stream: stream.read(-1),
    "read in pieces": lambda stream: b"".join(iter(lambda: stream.read(7), b"")),
    "readline": lambda stream: b"".join(iter(stream.readline, b"")),
    "readlines": lambda stream: b"".join(stream.readlines()),
    "iteration": lambda stream: b"".join(stream),
}


class Unreadable(io.RawIOBase):
    """A stream that nobody may read: its end is not known, so a read would wait for ever."""

    def read(self, _size: int = -1) -> bytes:
        raise AssertionError("it was read")

    readline = readlines = __iter__ = read  # type: ignore[assignment]


class Counted(io.BytesIO):
    """A stream that counts the bytes asked for."""

    asked = 0

    def read(self, size: int | None = -1, /) -> bytes:
        taken = super().read(size)
        self.asked += len(taken)
        return taken


class Broken(io.BytesIO):
    """A connection that ends in the middle, as gunicorn and mod_wsgi tell it."""

    def read(self, _size: int | None = -1, /) -> bytes:
        raise ConnectionResetError("the client has gone")


def reading(
    worker: Worker, seen: list[bytes], read: Callable[[IO[bytes]], bytes] = WAYS["read"]
) -> WSGIApp:
    """Return an application that reads its body, writes a row and answers."""

    def app(request: Environ, start_response: StartResponse) -> Iterable[bytes]:
        seen.append(read(cast("IO[bytes]", request["wsgi.input"])))
        return worker.answering()(request, start_response)

    return app


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("body", [b"", b"{}", LINES])
def test_the_application_reads_the_body_in_any_way(worker: Worker, way: str, body: bytes) -> None:
    seen: list[bytes] = []

    answer = serve(worker.protect(reading(worker, seen, WAYS[way])), environ(body))

    assert (answer.brief, seen) == (FRESH, [body])


@pytest.mark.parametrize("way", WAYS)
def test_a_body_that_is_too_large_for_memory_is_handed_over_intact(
    worker: Worker, way: str
) -> None:
    seen: list[bytes] = []
    body = (LINES + b"\n") * (MIB // len(LINES) + 1)
    app = worker.protect(reading(worker, seen, WAYS[way]), body_bytes_max=2 * MIB)

    answers = [serve(app, environ(body)).brief for _ in range(2)]
    other = serve(app, environ(body[:-1] + b"!"))

    assert answers == [FRESH, REPLAY]
    assert seen == [body]
    assert other.problem is ProblemKind.KEY_REUSED


@pytest.mark.parametrize("length", [None, "", "0", "none"])
def test_a_body_without_a_length_is_none_and_is_not_read(
    worker: Worker, length: str | None
) -> None:
    """PEP 3333: an application must not read past CONTENT_LENGTH, and a socket has no end."""
    seen: list[bytes] = []
    app = worker.raw(reading(worker, seen))

    answers = [
        serve(app, environ(CONTENT_LENGTH=length, wsgi_input=Unreadable())).brief for _ in range(2)
    ]

    assert answers == [FRESH, REPLAY]
    assert seen == [b""]


def test_no_byte_of_the_next_request_is_read(worker: Worker) -> None:
    seen: list[bytes] = []
    stream = io.BytesIO(b"{}POST /next HTTP/1.1")

    serve(worker.protect(reading(worker, seen)), environ(b"{}", wsgi_input=stream))

    assert (seen, stream.read()) == ([b"{}"], b"POST /next HTTP/1.1")


@pytest.mark.parametrize("chunks", [b"", b"{}", LINES])
def test_a_chunked_body_is_read_to_its_end_and_has_a_length_then(
    worker: Worker, chunks: bytes
) -> None:
    lengths: list[object] = []

    def app(request: Environ, start_response: StartResponse) -> Iterable[bytes]:
        lengths.append((request["CONTENT_LENGTH"], request.get("HTTP_TRANSFER_ENCODING")))
        return reading(worker, seen)(request, start_response)

    seen: list[bytes] = []
    request = environ(
        chunks,
        CONTENT_LENGTH=None,
        HTTP_TRANSFER_ENCODING="chunked",
    )
    request["wsgi.input_terminated"] = True

    answer = serve(worker.protect(app), request)

    assert (answer.brief, seen) == (FRESH, [chunks])
    assert lengths == [(str(len(chunks)), None)]


@pytest.mark.parametrize(
    "stream", [io.BytesIO(b""), io.BytesIO(b"half"), Broken(b"")], ids=["none", "half", "error"]
)
def test_a_client_that_leaves_before_its_body_is_complete_executes_nothing(
    worker: Worker, stream: io.BytesIO
) -> None:
    app = worker.protect(worker.answering())
    body = b"a whole body"

    left = serve(app, environ(body, wsgi_input=stream))

    assert (left.status, left.problem, worker.rows) == (400, None, 0)
    assert serve(app, environ(body)).brief == FRESH


def test_a_body_that_announces_too_much_is_refused_unread(worker: Worker) -> None:
    app = worker.raw(worker.answering(), body_bytes_max=100)

    answer = serve(app, environ(CONTENT_LENGTH="101", wsgi_input=Unreadable()))

    assert (answer.brief, worker.rows) == (TOO_LARGE, 0)


def test_a_chunked_body_above_the_limit_is_read_no_further_than_that(worker: Worker) -> None:
    app = worker.raw(worker.answering(), body_bytes_max=100)
    stream = Counted(b"x" * 10_000)
    request = environ(CONTENT_LENGTH=None, wsgi_input=stream)
    request["wsgi.input_terminated"] = True

    answer = serve(app, request)

    assert (answer.brief, worker.rows) == (TOO_LARGE, 0)
    assert stream.asked == 101


def test_a_body_of_exactly_the_limit_is_executed(worker: Worker) -> None:
    app = worker.protect(worker.answering(), body_bytes_max=100)

    assert serve(app, environ(b"x" * 100)).brief == FRESH


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_request_that_is_not_protected_passes_with_the_servers_own_objects(
    worker: Worker, method: str
) -> None:
    """Servers know their own file wrapper by its type, and length and sendfile by it."""
    stream, returned = Unreadable(), [b"a"]
    request = environ(key=None if method == "POST" else '"k"', wsgi_input=stream)
    request |= {"REQUEST_METHOD": method, "CONTENT_LENGTH": "1000000000"}
    seen: list[object] = []

    def start_response(*_arguments: object) -> Callable[[bytes], object]:
        raise AssertionError("nothing was answered")

    def app(environ_: Environ, start: StartResponse) -> Iterable[bytes]:
        seen.extend((environ_, start, environ_["wsgi.input"]))
        return returned

    body = worker.raw(app, body_bytes_max=10)(request, start_response)

    assert [id(each) for each in seen] == [id(request), id(start_response), id(stream)]
    assert body is returned
    assert "replayfloor.claim" not in request


def test_what_the_application_notes_in_the_environ_is_seen_around_us(worker: Worker) -> None:
    request = environ()

    def app(environ_: Environ, start_response: StartResponse) -> Iterable[bytes]:
        environ_["test.user"] = "u-1"
        start_response("201 Created", list(CREATED))
        return []

    serve(worker.protect(app), request)

    assert request["test.user"] == "u-1"
