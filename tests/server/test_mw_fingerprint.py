"""What of a request has to be the same: the options for the body, through the whole middleware."""

from __future__ import annotations

import json

import pytest

from replayfloor.core.problem import ProblemKind
from replayfloor.server import Route
from replayfloor.server.body_rules import FingerprintRequest
from server.apps import LedgerApp
from server.backends import Backend
from server.wire import Answer, Request, send

pytestmark = pytest.mark.anyio

FRESH, REPLAY = (201, None, False), (201, None, True)
REUSED = (422, ProblemKind.KEY_REUSED, False)


def posted(**members: object) -> Request:
    """Return a request with a JSON body."""
    return Request(chunks=(json.dumps(members).encode(),))


def form(boundary: bytes, *parts: tuple[bytes, bytes]) -> Request:
    """Return an upload: names and contents of files."""
    body = b"".join(
        b'--%s\r\nContent-Disposition: form-data; name="%s"; filename="f"\r\n\r\n%s\r\n'
        % (boundary, name, content)
        for name, content in parts
    )
    return Request(
        content_type=b"multipart/form-data; boundary=" + boundary,
        chunks=(body + b"--%s--\r\n" % boundary,),
    )


def briefs(answers: list[Answer]) -> list[object]:
    return [each.brief for each in answers]


async def test_a_member_that_changes_with_every_attempt_can_be_left_out(backend: Backend) -> None:
    app = backend.protect(LedgerApp(backend), exclude=["/sent_at"])
    requests = [posted(amount=1, sent_at="10:00"), posted(amount=1, sent_at="10:05")]

    answers = [await send(app, each) for each in (*requests, posted(amount=2, sent_at="10:00"))]

    assert briefs(answers) == [FRESH, REPLAY, REUSED]
    assert len(backend.ledger.rows()) == 1


async def test_otherwise_it_counts_and_the_refusal_says_where_the_difference_is(
    backend: Backend,
) -> None:
    app = backend.protect(LedgerApp(backend))

    answers = [await send(app, posted(amount=1, sent_at=at)) for at in ("10:00", "10:05")]

    assert briefs(answers) == [FRESH, REUSED]
    assert json.loads(answers[1].body)["differs"] == "body"


async def test_the_body_can_be_left_out_on_one_route(backend: Backend) -> None:
    routes = [Route("POST", "/pay", fingerprint="off")]
    app = backend.protect(LedgerApp(backend), routes=routes)
    one, two = posted(amount=1), posted(amount=2)

    here = [await send(app, each) for each in (one, two, one.but(query=b"a=1"))]
    elsewhere = [
        await send(app, each.but(path="/other", key=b'"other"')) for each in (one, two, one)
    ]

    assert briefs(here) == [FRESH, REPLAY, REUSED]
    assert briefs(elsewhere) == [FRESH, REUSED, REPLAY]
    assert len(backend.ledger.rows()) == 2


async def test_a_function_says_what_of_the_body_counts(backend: Backend) -> None:
    def order(request: FingerprintRequest) -> bytes:
        return str(json.loads(request.body)["order"]).encode()

    app = backend.protect(LedgerApp(backend), fingerprint=order)

    answers = [
        await send(app, posted(order=number, note=note))
        for number, note in ((1, "a"), (1, "b"), (2, "a"))
    ]

    assert briefs(answers) == [FRESH, REPLAY, REUSED]


async def test_what_a_client_says_of_its_body_is_not_believed(backend: Backend) -> None:
    """The fingerprint is made from the bytes that came, never from a header."""
    app = backend.protect(LedgerApp(backend))
    said = [
        (b"content-digest", b"sha-256=:RBNvo1WzZ4oRRq0W9+hknpT7T8If536DEMBg9hyq/4o=:"),
        (b"content-md5", b"mZFLkyvTelC5g8XnyQrpOw=="),
        (b"x-fingerprint", b"1"),
    ]

    answers = [await send(app, posted(amount=n).but(headers=said)) for n in (1, 2)]

    assert briefs(answers) == [FRESH, REUSED]


async def test_an_upload_is_known_by_its_parts_and_not_by_its_boundary(backend: Backend) -> None:
    app = backend.protect(LedgerApp(backend))
    one, two = (b"invoice", b"\x00\x01file"), (b"photo", b"\xff\xd8")

    answers = [
        await send(app, each)
        for each in (
            form(b"first", one, two),
            form(b"second", one, two),
            form(b"third", two, one),
            form(b"first", one, (b"photo", b"\xff\xd9")),
        )
    ]

    assert briefs(answers) == [FRESH, REPLAY, REPLAY, REUSED]
    assert len(backend.ledger.rows()) == 1


async def test_operations_that_differ_in_the_query_alone_are_two(backend: Backend) -> None:
    app = backend.protect(LedgerApp(backend))

    answers = [
        await send(app, Request(query=query, chunks=()))
        for query in (b"amount=1", b"amount=2", b"amount=1")
    ]

    assert briefs(answers) == [FRESH, REUSED, REPLAY]
