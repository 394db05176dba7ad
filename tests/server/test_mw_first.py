"""The first request with a key: to the application and the client it is as without us."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from server.apps import LedgerApp
from server.backends import Backend, EffectsOption
from server.wire import Request, send

pytestmark = pytest.mark.anyio

EVERY_BYTE = bytes(range(256))
MANY: Sequence[tuple[bytes, bytes]] = (
    (b"content-type", b"application/octet-stream"),
    (b"set-cookie", b"a=1"),
    (b"set-cookie", b"b=2"),
    (b"link", b'<a>; rel="next"'),
    (b"link", b'<b>; rel="prev"'),
    (b"date", b"Mon, 30 Nov 2026 00:00:00 GMT"),
    (b"X-Case", b"caf\xe9"),
    (b"connection", b"x-case"),
)


@pytest.mark.parametrize("effects", ["atomic", "external", "repeatable"])
@pytest.mark.parametrize("status", [200, 204, 303, 402, 429, 500, 503])
async def test_the_first_answer_is_sent_as_the_application_made_it(
    backend: Backend, effects: EffectsOption, status: int
) -> None:
    bodies = [b""] if status == 204 else [EVERY_BYTE, b"", b"end"]
    app = LedgerApp(backend, effects, status, headers=MANY, bodies=bodies)

    bare = await send(backend.bare(app))
    protected = await send(backend.protect(app, effects=effects))

    assert bare.headers == MANY
    assert protected == bare


async def test_only_the_lifetime_is_added_where_a_retention_is_set(backend: Backend) -> None:
    app = LedgerApp(backend)

    first = await send(backend.protect(app, retention=86_400))

    assert first.headers == (*app.headers, (b"idempotency-key-lifetime", b"86400"))


async def test_the_application_reads_the_body_that_was_sent_in_several_pieces(
    backend: Backend,
) -> None:
    app = LedgerApp(backend)

    answer = await send(backend.protect(app), Request(chunks=(b"a", b"", EVERY_BYTE, b"")))

    assert answer.status == 201
    assert app.bodies_read == [b"a" + EVERY_BYTE]


async def test_a_request_without_a_body_is_protected_too(backend: Backend) -> None:
    app = backend.protect(LedgerApp(backend))

    answers = [await send(app, Request(chunks=())) for _ in range(2)]

    assert [answer.replayed for answer in answers] == [False, True]
    assert len(backend.ledger.rows()) == 1
