"""Keys that tell to be older than receipts are kept: replayed if they can be, else refused."""

from __future__ import annotations

import json
import time
from email.utils import formatdate

import anyio
import pytest

from replayfloor.core.problem import ProblemKind
from replayfloor.core.uuid7 import uuid7
from server.apps import LedgerApp
from server.backends import Backend
from server.doubles import watched_lock, watched_receipts
from server.wire import Request, send

pytestmark = pytest.mark.anyio

RETENTION_S = 3600
FRESH, REPLAY = (201, None, False), (201, None, True)
EXPIRED = (400, ProblemKind.KEY_EXPIRED, False)
INVALID = (400, ProblemKind.INVALID_KEY, False)
UUID4 = b'"7d444840-9dc0-41d1-9f20-f7a1b2c3d4e5"'
MARGIN_S = 300
YOUNG_S = RETENTION_S - MARGIN_S - 60


def minted(age_s: float) -> bytes:
    """Return a key that was made so long ago (or, below zero, that says it will be)."""
    return b'"%s"' % str(uuid7(round((time.time() - age_s) * 1000), bytes(10))).encode()


def first_sent(age_s: float) -> Request:
    """Return a request that says when its first attempt was."""
    date = formatdate(time.time() - age_s, usegmt=True).encode()
    return Request(headers=[(b"repeatability-first-sent", date)])


async def test_a_key_older_than_the_retention_is_looked_for_and_is_not_executed(
    backend: Backend,
) -> None:
    """Its receipt may have gone; to the store it would be a first request, and execute again."""
    receipts, lock = watched_receipts(backend.receipts()), watched_lock(backend.lock())
    inner = LedgerApp(backend)
    app = backend.protect(inner, receipts=receipts, lock=lock, retention=RETENTION_S)

    answer = await send(app, Request(key=minted(RETENTION_S + 1)))

    assert answer.brief == EXPIRED
    assert json.loads(answer.body)["retention"] == RETENTION_S
    assert answer.first(b"idempotency-key-lifetime") == str(RETENTION_S).encode()
    assert (receipts.calls, lock.calls) == (["declare", "claim"], ["acquire", "release"])
    assert inner.bodies_read == []


async def test_a_key_older_than_the_retention_is_replayed_while_its_receipt_is_live(
    backend: Backend,
) -> None:
    """Its operation ended long after the key was made: so long, its receipt is live still."""
    key = Request(key=minted(RETENTION_S - MARGIN_S - 1))
    app = backend.protect(LedgerApp(backend), retention=RETENTION_S)
    first = await send(app, key)
    await anyio.sleep(1.1)

    answers = [
        await send(backend.protect(LedgerApp(backend), retention=RETENTION_S, lock=lock), key)
        for lock in ("local", None)
    ]

    assert first.brief == FRESH
    assert [each.brief for each in answers] == [REPLAY] * 2
    assert len(backend.ledger.rows()) == 1


async def test_a_first_attempt_longer_ago_than_the_retention_is_refused(backend: Backend) -> None:
    app = backend.protect(LedgerApp(backend), retention=RETENTION_S)

    assert (await send(app, first_sent(RETENTION_S + 2))).brief == EXPIRED
    assert backend.ledger.rows() == []
    assert (await send(app, first_sent(YOUNG_S))).brief == FRESH
    assert (await send(app, first_sent(0))).brief == REPLAY


@pytest.mark.parametrize(("key_s", "sent_s"), [(0, RETENTION_S + 2), (RETENTION_S + 2, 0)])
async def test_of_two_times_the_older_counts(sqlite: Backend, key_s: int, sent_s: int) -> None:
    """A key may be minted long before it is sent, or anew by a sender that has the operation."""
    app = sqlite.protect(LedgerApp(sqlite), retention=RETENTION_S)

    answer = await send(app, first_sent(sent_s).but(key=minted(key_s)))

    assert (answer.brief, sqlite.ledger.rows()) == (EXPIRED, [])


@pytest.mark.parametrize("key", [0, YOUNG_S, -MARGIN_S / 2, UUID4, b'"any"'])
async def test_a_key_that_is_not_known_to_be_too_old_is_executed_and_replayed(
    sqlite: Backend, key: bytes | float
) -> None:
    key = key if isinstance(key, bytes) else minted(key)
    app = sqlite.protect(LedgerApp(sqlite), retention=RETENTION_S)

    assert [(await send(app, Request(key=key))).brief for _ in range(2)] == [FRESH, REPLAY]


@pytest.mark.parametrize("age_s", [RETENTION_S + 1, 10 * 365 * 86_400])
async def test_without_a_retention_no_key_is_too_old(sqlite: Backend, age_s: int) -> None:
    app = sqlite.protect(LedgerApp(sqlite))

    assert (await send(app, Request(key=minted(age_s)))).brief == FRESH
    assert (await send(app, first_sent(age_s))).brief == FRESH


@pytest.mark.parametrize(
    "request_", [Request(key=minted(-100 * MARGIN_S)), first_sent(-100 * MARGIN_S)]
)
async def test_a_request_from_the_future_is_refused_wherever_a_retention_is_set(
    backend: Backend, request_: Request
) -> None:
    inner = LedgerApp(backend)

    assert (await send(backend.protect(inner, retention=RETENTION_S), request_)).brief == INVALID
    assert (inner.bodies_read, backend.ledger.rows()) == ([], [])
    assert (await send(backend.protect(inner), request_)).brief == FRESH


@pytest.mark.parametrize("value", [b"", b"yesterday", b"2026-11-30", b"\xff", b"Mon, 99 Foo 2026"])
async def test_a_time_that_cannot_be_read_refuses_nothing(sqlite: Backend, value: bytes) -> None:
    app = sqlite.protect(LedgerApp(sqlite), retention=RETENTION_S)

    answer = await send(app, Request(headers=[(b"repeatability-first-sent", value)]))

    assert answer.brief == FRESH


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (0, FRESH),
        (YOUNG_S, FRESH),
        (RETENTION_S + 1, EXPIRED),
        (-MARGIN_S / 2, FRESH),
        (-MARGIN_S - 60, INVALID),
        (UUID4, INVALID),
        (b'"any"', INVALID),
    ],
)
async def test_where_a_uuid7_is_required_no_other_key_and_none_from_the_future_is_taken(
    backend: Backend, key: bytes | float, expected: object
) -> None:
    key = key if isinstance(key, bytes) else minted(key)
    app = backend.protect(LedgerApp(backend), retention=RETENTION_S, require_uuid7=True)

    answer = await send(app, Request(key=key))

    assert answer.brief == expected
    assert len(backend.ledger.rows()) == (1 if expected is FRESH else 0)
