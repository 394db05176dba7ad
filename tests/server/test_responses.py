"""Answers of the common frameworks as plain ones; made by the frameworks themselves."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path

import flask
import pytest
import werkzeug
from django.http import HttpResponse, StreamingHttpResponse
from django.template.response import SimpleTemplateResponse
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse

from replayfloor.core.errors import UsageError
from replayfloor.core.message import Response as Plain
from replayfloor.core.message import get_all, get_first
from replayfloor.server.responses import to_response

TEXT = "text/plain; charset=utf-8"


def test_an_answer_of_starlette_keeps_every_line_of_its_headers() -> None:
    made = JSONResponse({"id": 7}, 201, {"Location": "/p/7"}, background=BackgroundTask(print))
    made.headers.append("Link", "</a>")
    made.headers.append("Link", "</b>")

    answer = to_response(made)

    assert (answer.status, answer.body) == (201, b'{"id":7}')
    assert get_all(answer.headers, b"link") == [b"</a>", b"</b>"]
    assert get_first(answer.headers, b"location") == b"/p/7"
    assert get_first(answer.headers, b"content-type") == b"application/json"


def test_an_answer_of_flask_keeps_every_line_of_its_headers() -> None:
    app = flask.Flask(__name__)
    with app.test_request_context():
        made = flask.make_response({"id": 7}, 201)
    made.headers.add("Link", "</a>")
    made.headers.add("Link", "</b>")

    answer = to_response(made)

    assert (answer.status, answer.body) == (201, b'{"id":7}\n')
    assert get_all(answer.headers, b"link") == [b"</a>", b"</b>"]
    assert get_first(answer.headers, b"content-type") == b"application/json"


def test_an_answer_of_werkzeug_in_several_parts_is_taken_whole() -> None:
    made = werkzeug.Response([b"a", b"b"], 202, content_type=TEXT)

    assert to_response(made).body == b"ab"


def test_an_answer_of_django_is_taken_without_its_cookies() -> None:
    made = HttpResponse(b"paid", status=201, content_type=TEXT, headers={"Location": "/p/7"})
    made.set_cookie("session", "s3cret")

    answer = to_response(made)

    assert answer == Plain(201, ((b"location", b"/p/7"), (b"content-type", TEXT.encode())), b"paid")


@pytest.mark.parametrize(
    "headers",
    [
        {"Location": "/p/7", "X-A": "é"},
        [("Location", "/p/7"), ("X-A", "é")],
        ((b"location", b"/p/7"), (b"x-a", b"\xe9")),
        [["LOCATION", b"/p/7 "], (memoryview(b"X-a"), "é")],
    ],
)
def test_an_answer_may_be_written_down(headers: object) -> None:
    answer = to_response((HTTPStatus.CREATED, headers, "Zürich"))

    expected = ((b"location", b"/p/7"), (b"x-a", b"\xe9"))
    assert answer == Plain(201, expected, "Zürich".encode())
    assert type(answer.status) is int


def test_a_plain_answer_is_what_it_was() -> None:
    plain = Plain(204, ((b"etag", b"7"),), b"")

    assert to_response(plain) == plain


def _parts() -> list[object]:
    return [
        StreamingResponse(iter(())),
        FileResponse(__file__),
        werkzeug.Response(iter(["a"])),
        StreamingHttpResponse(iter(()), content_type=TEXT),
    ]


@pytest.mark.parametrize("made", _parts(), ids=lambda made: f"{type(made).__module__}")
def test_an_answer_that_is_still_to_be_produced_is_refused_with_advice(made: object) -> None:
    with pytest.raises(UsageError, match=r"streams its body.*complete response"):
        to_response(made)


def test_a_file_sent_by_flask_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    app = flask.Flask(__name__)
    with app.test_request_context():
        made = flask.send_file(path)

    with pytest.raises(UsageError, match="streams its body"):
        to_response(made)
    made.close()


def test_an_answer_of_django_that_is_not_rendered_is_refused() -> None:
    with pytest.raises(UsageError, match=r"call its render\(\)"):
        to_response(SimpleTemplateResponse("page.html", content_type=TEXT))


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        "paid",
        {"id": 7},
        object(),
        (201, {}),
        (201, {}, b"", b""),
        ("201 Created", {}, b""),
        (True, {}, b""),
        (199, {}, b""),
        (600, {}, b""),
        (201, "Location: /p", b""),
        (201, 7, b""),
        (201, ["Location"], b""),
        (201, [("a", "b", "c")], b""),
        (201, {"a": 7}, b""),
        (201, {"a b": "c"}, b""),
        (201, {"": "c"}, b""),
        (201, {"a": "日本"}, b""),
        (201, {}, None),
        (201, {}, {"id": 7}),
        (204, {}, b"body"),
        (304, {}, b"body"),
    ],
)
def test_what_is_no_answer_is_refused(wrong: object) -> None:
    with pytest.raises(UsageError):
        to_response(wrong)


@pytest.mark.parametrize("value", ["a\r\nSet-Cookie: s3cret", "a\nb", "a\rb", "a\0b"])
def test_a_value_cannot_add_a_header_of_its_own_and_is_not_repeated(value: str) -> None:
    with pytest.raises(UsageError) as raised:
        to_response((201, {"X-A": value}, b""))

    assert "x-a" in str(raised.value).lower()
    assert "s3cret" not in str(raised.value)


def test_an_answer_of_starlette_with_a_broken_header_is_refused_too() -> None:
    made = Response(b"", 201)
    made.raw_headers.append((b"x-a", b"a\r\nb: c"))

    with pytest.raises(UsageError):
        to_response(made)
