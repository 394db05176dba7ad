"""On the wire, over HTTP/1.1 and one connection: lengths, codings, dates, header lines."""

from __future__ import annotations

import gzip
import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime

import pytest
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp

from replayfloor.core.problem import ProblemKind
from server.apps import LedgerApp
from server.backends import Backend
from server.served_http import Connection, Lines, connected
from server.wire import Answer

pytestmark = pytest.mark.anyio

FRESH, REPLAY = (201, None, False), (201, None, True)
EVERY_BYTE = bytes(range(256))
COMPRESSIBLE = b"x" * 5000
STALE = b"Sun, 01 Nov 2020 00:00:00 GMT"
GZIP: Lines = [("Accept-Encoding", "gzip")]
PRECISE: Sequence[tuple[bytes, bytes]] = (
    (b"content-type", b"application/octet-stream"),
    (b"location", b"/payments/1?a=1,2"),
    (b"link", b'<a>; rel="next", <c>; rel="last"'),
    (b"link", b'<b>; rel="prev"'),
    (b"vary", b"accept, origin"),
    (b"content-disposition", b'attachment; filename="a,b.txt"'),
    (b"etag", b'W/"1,2"'),
    (b"expires", b"Mon, 30 Nov 2026 00:00:00 GMT"),
    (b"x-latin", b"caf\xe9"),
)


def of_the_application(answer: Answer) -> list[tuple[bytes, bytes]]:
    """Return the header lines that neither the server nor the middleware has added."""
    added = {b"date", b"server", b"content-length", b"transfer-encoding", b"idempotent-replayed"}
    return [line for line in answer.headers if line[0] not in added]


async def in_step(connection: Connection) -> list[Answer]:
    """Send two more requests over the connection, which fails unless it is at its right place."""
    return [await connection.post(key=f'"in-step-{number}"') for number in range(2)]


@pytest.mark.parametrize("where", ["outside", "inside"])
@pytest.mark.parametrize("takes_gzip", [True, False])
async def test_a_compressed_replay_leaves_the_connection_in_step(
    backend: Backend, where: str, takes_gzip: bool
) -> None:
    lines: Lines = GZIP if takes_gzip else []
    inner = LedgerApp(backend, headers=[(b"location", b"/p/1")], bodies=(COMPRESSIBLE,))
    if where == "outside":
        app: ASGIApp = GZipMiddleware(backend.protect(inner))
    else:
        app = backend.protect(GZipMiddleware(inner))

    async with connected(app) as connection:
        answers = [await connection.post(lines=lines) for _ in range(3)]
        others = await in_step(connection)

    assert [each.brief for each in answers] == [FRESH, REPLAY, REPLAY]
    for each in answers:
        coding = each.all(b"content-encoding")
        assert coding == ([b"gzip"] if takes_gzip else [])
        assert (gzip.decompress(each.body) if coding else each.body) == COMPRESSIBLE
        assert each.all(b"vary") == [b"Accept-Encoding"]
        # One of the two says where the body ends.
        assert len(each.all(b"content-length") + each.all(b"transfer-encoding")) == 1
    assert [each.brief for each in others] == [FRESH] * 2
    assert len(backend.ledger.rows()) == 3


async def test_outside_compression_is_agreed_on_anew_with_every_client(backend: Backend) -> None:
    """Inside, it is part of the answer that was stored, whoever asks for it later."""
    app = GZipMiddleware(backend.protect(LedgerApp(backend, bodies=(COMPRESSIBLE,), headers=())))

    async with connected(app) as connection:
        answers = [await connection.post(lines=lines) for lines in (GZIP, [], GZIP)]

    assert [each.brief for each in answers] == [FRESH, REPLAY, REPLAY]
    assert [each.all(b"content-encoding") for each in answers] == [[b"gzip"], [], [b"gzip"]]
    assert answers[1].body == COMPRESSIBLE
    assert len(backend.ledger.rows()) == 1


@pytest.mark.parametrize("bodies", [(EVERY_BYTE,), (EVERY_BYTE[:100], b"", EVERY_BYTE[100:])])
async def test_a_replay_has_the_bytes_and_the_header_lines_of_the_first_answer(
    backend: Backend, bodies: tuple[bytes, ...]
) -> None:
    """Also where the first was sent in chunks, and where commas and lines mean something."""
    app = backend.protect(LedgerApp(backend, headers=PRECISE, bodies=bodies))

    async with connected(app) as connection:
        first, replay = [await connection.post() for _ in range(2)]
        await in_step(connection)

    assert (first.brief, replay.brief) == (FRESH, REPLAY)
    assert first.body == replay.body == EVERY_BYTE
    assert of_the_application(first) == of_the_application(replay) == list(PRECISE)
    assert replay.all(b"content-length") == [b"256"]
    assert replay.all(b"transfer-encoding") == []


@pytest.mark.parametrize("status", [200, 201, 204, 205, 303, 304])
async def test_an_answer_without_a_body_leaves_the_connection_in_step(
    backend: Backend, status: int
) -> None:
    location = [(b"location", b"/payments/1")]
    app = backend.protect(LedgerApp(backend, status=status, headers=location, bodies=(b"",)))

    async with connected(app) as connection:
        answers = [await connection.post() for _ in range(3)]
        others = [(await connection.post(key='"other"')).status for _ in range(2)]

    assert [each.status for each in answers] == [status] * 3
    assert [each.replayed for each in answers] == [False, True, True]
    assert {each.body for each in answers} == {b""}
    assert {each.first(b"location") for each in answers} == {b"/payments/1"}
    assert others == [status] * 2
    assert len(backend.ledger.rows()) == 2


async def test_refusals_leave_the_connection_in_step(backend: Backend) -> None:
    app = backend.protect(LedgerApp(backend), required=True, body_bytes_max=100)

    async with connected(app) as connection:
        refused = [
            await connection.send([]),
            await connection.post(key="bare"),
            await connection.post(b"x" * 101),
            await connection.post(),
            await connection.post(b"{ }x"),
        ]
        others = await in_step(connection)

    assert [each.problem for each in refused] == [
        ProblemKind.MISSING_KEY,
        ProblemKind.INVALID_KEY,
        ProblemKind.BODY_TOO_LARGE,
        None,
        ProblemKind.KEY_REUSED,
    ]
    assert [each.brief for each in others] == [FRESH] * 2


async def test_the_name_of_the_header_has_no_letter_case(backend: Backend) -> None:
    app = backend.protect(LedgerApp(backend))

    async with connected(app) as connection:
        answers = [
            await connection.send([(name, '"k"')])
            for name in ("Idempotency-Key", "iDeMpOtEnCy-kEy", "IDEMPOTENCY-KEY")
        ]

    assert [each.brief for each in answers] == [FRESH, REPLAY, REPLAY]
    assert len(backend.ledger.rows()) == 1


async def test_two_lines_with_a_key_are_refused_whatever_they_say(backend: Backend) -> None:
    app = backend.protect(LedgerApp(backend))
    twice = [[("Idempotency-Key", '"k"'), ("idempotency-key", other)] for other in ('"k"', '"l"')]

    async with connected(app) as connection:
        answers = [await connection.send(lines) for lines in twice]

    assert {each.brief for each in answers} == {(400, ProblemKind.INVALID_KEY, False)}
    assert backend.ledger.rows() == []


async def test_a_replay_has_one_date_and_it_is_the_day_it_was_sent(backend: Backend) -> None:
    """RFC 9110, 6.6.1. What the application said of its first answer is stale by then."""
    inner = LedgerApp(backend, headers=[(b"date", STALE), (b"content-type", b"text/plain")])
    app = backend.protect(inner)

    async with connected(app) as connection:
        first, replay = [await connection.post() for _ in range(2)]

    assert STALE in first.all(b"date")
    (date,) = replay.all(b"date")
    assert abs(parsedate_to_datetime(date.decode()).timestamp() - time.time()) < 60
