"""Pages of another origin: may send the key, and may read every answer, refusals and replays too.

`CORSMiddleware` stands outside of ours: only so does it see the answers that ours gives by itself.
What it has to allow and to expose is taken from the page that the documentation is made of.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import anyio
import pytest
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from replayfloor.core.problem import ProblemKind
from replayfloor.server.docs import markdown
from server.apps import Gate, LedgerApp
from server.backends import Backend, ProtectOptions
from server.docs_settings import settings_of
from server.doubles import unavailable, watched_lock, watched_receipts
from server.test_mw_age import RETENTION_S, minted
from server.wire import Answer, Request, send

pytestmark = pytest.mark.anyio

K = ProblemKind
SHOP, OTHER_SHOP, STRANGER = b"https://shop.test", b"https://other.test", b"https://stranger.test"
CONTENT_TYPE = "Content-Type"


def documented(field: str) -> list[str]:
    """Return the names that the generated page says to put into a field."""
    page = markdown(settings_of(required=True, retention=RETENTION_S))
    (line,) = re.findall(rf"^{field}: (.*)$", page, re.MULTILINE)
    return str(line).split(", ")


ALLOW = documented("Access-Control-Allow-Headers")
EXPOSE = documented("Access-Control-Expose-Headers")


def with_cors(app: ASGIApp, allow: Sequence[str] = ALLOW) -> ASGIApp:
    """Return the application for the pages of two shops."""
    return CORSMiddleware(
        app,
        allow_origins=[SHOP.decode(), OTHER_SHOP.decode()],
        allow_methods=["POST"],
        allow_headers=[*allow, CONTENT_TYPE],
        expose_headers=EXPOSE,
    )


def from_page(origin: bytes = SHOP) -> Request:
    """Return a request of a page of that origin."""
    return Request(headers=[(b"origin", origin)])


PREFLIGHT = Request(
    method="OPTIONS",
    key=None,
    chunks=(),
    headers=[
        (b"origin", SHOP),
        (b"access-control-request-method", b"POST"),
        (b"access-control-request-headers", b"content-type, idempotency-key"),
    ],
)


async def test_a_preflight_allows_the_key_and_executes_nothing(backend: Backend) -> None:
    receipts, lock = watched_receipts(backend.receipts()), watched_lock(backend.lock())
    inner = LedgerApp(backend)
    app = with_cors(backend.protect(inner, receipts=receipts, lock=lock, required=True))

    answer = await send(app, PREFLIGHT)

    allowed = (answer.first(b"access-control-allow-headers") or b"").lower()
    assert (answer.status, answer.all(b"access-control-allow-origin")) == (200, [SHOP])
    assert b"idempotency-key" in re.split(rb",\s*", allowed)
    assert (receipts.calls, lock.calls, inner.bodies_read) == ([], [], [])


async def test_without_what_the_documentation_says_a_page_could_not_send_the_key(
    sqlite: Backend,
) -> None:
    """That the preflight would notice."""
    answer = await send(with_cors(sqlite.protect(LedgerApp(sqlite)), allow=()), PREFLIGHT)

    assert answer.status == 400


def may_be_read(answer: Answer, origin: bytes = SHOP) -> bool:
    """Say whether a page of that origin sees the answer, and each header it needs."""
    exposed = b", ".join(answer.all(b"access-control-expose-headers")).decode()
    return (
        answer.all(b"access-control-allow-origin") == [origin]
        and re.split(r",\s*", exposed) == EXPOSE
    )


SECOND = b'{"amount": 2}'
REFUSED: Sequence[tuple[ProblemKind, ProtectOptions, dict[str, object]]] = [
    (K.MISSING_KEY, {"required": True}, {"key": None}),
    (K.INVALID_KEY, {}, {"key": b"bare"}),
    (K.INVALID_KEY, {}, {"key": [b'"a"', b'"b"']}),
    (K.KEY_EXPIRED, {}, {"key": minted(RETENTION_S + 1)}),
    (K.KEY_REUSED, {}, {"chunks": (SECOND,)}),
    (K.BODY_TOO_LARGE, {"body_bytes_max": 20}, {"chunks": (b"x" * 21,)}),
    (K.ANSWER_NOT_KEPT, {"response_bytes_max": 0}, {}),
]


@pytest.mark.parametrize(("kind", "options", "changes"), REFUSED)
async def test_a_page_can_read_every_refusal(
    backend: Backend, kind: ProblemKind, options: ProtectOptions, changes: dict[str, object]
) -> None:
    options = {"retention": RETENTION_S, **options}
    app = with_cors(backend.protect(LedgerApp(backend), **options))
    await send(app, from_page())

    refused = await send(app, from_page().but(**changes))

    assert refused.problem is kind
    assert may_be_read(refused)


async def test_a_page_can_read_that_its_request_is_in_flight_and_when_to_come_back(
    backend: Backend,
) -> None:
    gate = Gate()
    app = with_cors(backend.protect(LedgerApp(backend, after=gate)))
    refused: list[Answer] = []

    async with anyio.create_task_group() as group:
        group.start_soon(send, app, from_page())
        await gate.entered.wait()
        refused.append(await send(app, from_page()))
        gate.opened.set()

    assert refused[0].problem is K.IN_FLIGHT
    assert may_be_read(refused[0])
    assert refused[0].all(b"retry-after")
    assert "Retry-After" in EXPOSE


async def test_a_page_can_read_that_the_store_is_away(backend: Backend) -> None:
    receipts = watched_receipts(backend.receipts())
    receipts.before["claim"] = unavailable(times=2)
    app = with_cors(backend.protect(LedgerApp(backend), receipts=receipts))

    refused = await send(app, from_page())

    assert refused.problem is K.STORE_UNAVAILABLE
    assert may_be_read(refused)


async def test_a_page_can_read_the_first_answer_and_the_replay_and_tell_them_apart(
    backend: Backend,
) -> None:
    app = with_cors(backend.protect(LedgerApp(backend), retention=RETENTION_S))

    first, replay = [await send(app, from_page()) for _ in range(2)]

    assert [each.replayed for each in (first, replay)] == [False, True]
    assert may_be_read(first)
    assert may_be_read(replay)
    sent = {name.decode().lower() for name, _ in replay.headers}
    assert {"idempotent-replayed", "idempotency-key-lifetime"} <= sent
    assert {"Idempotent-Replayed", "Idempotency-Key-Lifetime"} <= {*EXPOSE}


async def test_a_replay_to_a_page_of_another_origin_is_for_that_origin(backend: Backend) -> None:
    """The answer that was stored names no origin: the one it is sent to is put in each time."""
    app = with_cors(backend.protect(LedgerApp(backend)))

    first = await send(app, from_page(SHOP))
    other = await send(app, from_page(OTHER_SHOP))
    stranger = await send(app, from_page(STRANGER))

    assert may_be_read(first)
    assert other.replayed
    assert may_be_read(other, OTHER_SHOP)
    assert stranger.all(b"access-control-allow-origin") == []
    assert len(backend.ledger.rows()) == 1
