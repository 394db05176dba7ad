"""Holding an answer back: what was sent is kept as it is until it is time to decide."""

from __future__ import annotations

import pytest
from starlette.types import Message

from replayfloor.core.errors import UsageError
from replayfloor.core.message import Response
from replayfloor.server.asgi_capture import Capture, without_body_extensions
from replayfloor.server.effects import Captured

HEADERS_MAX = 10
HEADERS = [(b"X-Case", b"caf\xe9"), (b"link", b"<a>"), (b"link", b"<b>")]
KEPT = ((b"x-case", b"caf\xe9"), (b"link", b"<a>"), (b"link", b"<b>"))
START: Message = {"type": "http.response.start", "status": 201, "headers": HEADERS}


def body(content: bytes, *, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": content, "more_body": more}


def test_an_answer_is_decided_on_at_its_end_and_not_before() -> None:
    capture = Capture(100, HEADERS_MAX)

    decided = [capture.add(each) for each in (START, body(b"a", more=True), body(b"b"))]

    assert decided == [False, False, True]
    assert capture.captured() == Captured(Response(201, KEPT, b"ab"), complete=True)


def test_the_messages_are_kept_as_they_were_sent() -> None:
    capture = Capture(100, HEADERS_MAX)
    sent = [START, body(b"a", more=True), body(b"")]

    for message in sent:
        capture.add(message)

    assert capture.messages == sent


@pytest.mark.parametrize(
    ("bodies", "decided", "complete"),
    [
        ([body(b"x" * 10)], True, True),
        ([body(b"x" * 11)], True, False),
        ([body(b"x" * 10, more=True)], False, False),
        ([body(b"x" * 11, more=True)], True, False),
        ([body(b"x" * 6, more=True), body(b"x" * 6, more=True)], True, False),
        ([body(b"x" * 6, more=True), body(b"x" * 4)], True, True),
    ],
)
def test_an_answer_above_the_limit_is_decided_on_as_soon_as_it_is_above(
    bodies: list[Message], decided: bool, complete: bool
) -> None:
    capture = Capture(10, HEADERS_MAX)
    capture.add(START)

    assert [capture.add(each) for each in bodies][-1] is decided
    assert capture.captured().complete is complete


def test_a_limit_of_nothing_still_keeps_an_empty_answer() -> None:
    capture = Capture(0, HEADERS_MAX)
    capture.add(START)

    assert capture.add(body(b""))
    assert capture.captured().complete


@pytest.mark.parametrize(("lines", "complete"), [(3, True), (4, True), (5, False)])
def test_an_answer_with_more_header_lines_than_the_limit_is_not_kept(
    lines: int, complete: bool
) -> None:
    capture = Capture(100, 4)
    capture.add({**START, "headers": [(b"x-line", b"%d" % n) for n in range(lines)]})
    capture.add(body(b"a"))

    assert capture.captured().complete is complete


@pytest.mark.parametrize(
    "content_type",
    [b"text/event-stream", b"Text/Event-Stream", b"text/event-stream; charset=utf-8"],
)
def test_an_event_stream_is_decided_on_with_its_first_bytes(content_type: bytes) -> None:
    capture = Capture(100, HEADERS_MAX)
    capture.add({**START, "headers": [(b"content-type", content_type)]})

    assert capture.add(body(b"data: 1\n\n", more=True))
    assert not capture.captured().complete


def test_members_that_a_message_may_leave_out_have_the_protocols_defaults() -> None:
    capture = Capture(100, HEADERS_MAX)
    capture.add({"type": "http.response.start", "status": 204})

    assert capture.add({"type": "http.response.body"})
    assert capture.captured() == Captured(Response(204, (), b""), complete=True)


def test_headers_may_be_an_iterable_that_is_read_once() -> None:
    capture = Capture(100, HEADERS_MAX)
    capture.add({**START, "headers": iter(HEADERS)})
    capture.add(body(b""))

    assert capture.captured().response.headers == KEPT
    assert list(capture.messages[0]["headers"]) == HEADERS


@pytest.mark.parametrize(
    "name", ["http.response.debug", "http.response.early_hint", "http.response.push"]
)
def test_a_message_ahead_of_the_answer_is_held_back_and_is_no_part_of_it(name: str) -> None:
    capture = Capture(100, HEADERS_MAX)
    sent = [{"type": name}, START, body(b"a")]

    decided = [capture.add(each) for each in sent]

    assert decided == [False, False, True]
    assert capture.captured() == Captured(Response(201, KEPT, b"a"), complete=True)
    assert capture.messages == sent


def test_extensions_that_bypass_the_body_messages_are_hidden_and_the_others_are_not() -> None:
    hidden: dict[str, object] = {
        "http.response.pathsend": {},
        "http.response.zerocopysend": {},
        "http.response.trailers": {},
    }
    kept: dict[str, object] = {"http.response.debug": {}, "tls": {"version": 1}}

    assert without_body_extensions(hidden | kept) == kept
    assert without_body_extensions(None) == without_body_extensions({}) == {}


@pytest.mark.parametrize("value", [b"/orders/1\r\nset-cookie: a=b", b"a\nb", b"a\x00b"])
def test_an_answer_that_no_server_can_send_is_refused_before_anything_is_stored(
    value: bytes,
) -> None:
    capture = Capture(100, HEADERS_MAX)

    with pytest.raises(UsageError, match="CR, LF or NUL"):
        capture.add({**START, "headers": [(b"location", value)]})
