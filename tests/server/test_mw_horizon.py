"""A key's whole life, by a clock that the test moves: replayed, then never executed again.

84 hours are a policy's: a sender that repeats for 72 h, and 12 h of planned outage.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest
import redis

from replayfloor.core.problem import ProblemKind
from replayfloor.retention import InboundPolicy, Sender
from replayfloor.server import EventKind, ServerEvent
from server.backends import Backend
from server.doubles import unavailable, watched_receipts
from server.moments import HOUR_S, Moments, moments_of
from server.wire import Request, send

pytestmark = pytest.mark.anyio

FRESH, REPLAY = (201, None, False), (201, None, True)
EXPIRED = (400, ProblemKind.KEY_EXPIRED, False)
UNAVAILABLE = (503, ProblemKind.STORE_UNAVAILABLE, False)

POLICY = InboundPolicy(
    "hooks", senders=(Sender("shop", automatic_retry="72h"),), planned_outage="12h"
)
RETENTION_S = 84 * HOUR_S
MARGIN_S = 300
OPAQUE = Request(key=b'"opaque"')


@pytest.fixture
async def moments(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Moments]:
    """All sides and stores."""
    async with moments_of(backend, monkeypatch) as made:
        yield made


@pytest.fixture
async def of_sqlite(sqlite: Backend, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Moments]:
    """What does not depend on the store."""
    async with moments_of(sqlite, monkeypatch) as made:
        yield made


@pytest.fixture
async def of_postgres(postgres: Backend, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Moments]:
    """What is about Redis, or about microseconds."""
    async with moments_of(postgres, monkeypatch) as made:
        yield made


@pytest.mark.parametrize(
    ("after_s", "expected"),
    [
        (71 * HOUR_S, REPLAY),
        (RETENTION_S - 1, REPLAY),
        (RETENTION_S + 1, EXPIRED),
        (RETENTION_S + 1000 * HOUR_S, EXPIRED),
    ],
    ids=["71 h", "83 h 59 min 59 s", "84 h 0 min 1 s", "1084 h"],
)
async def test_a_key_is_replayed_for_as_long_as_the_policy_says_and_not_executed_after_it(
    moments: Moments, after_s: int, expected: object
) -> None:
    """Whatever Redis has lost meanwhile, and whatever the key tells of its age."""
    assert POLICY.retention_s == RETENTION_S
    requests = [OPAQUE, moments.minted(), moments.first_sent()]
    first = [await send(moments.worker(retention=POLICY), each) for each in requests]

    moments.at(after_s)
    moments.flush()
    late = [await send(moments.worker(retention=POLICY), each) for each in requests]

    assert [each.brief for each in first] == [FRESH] * 3
    assert [each.brief for each in late] == [expected] * 3
    lifetimes = {each.first(b"idempotency-key-lifetime") for each in (*first, *late)}
    assert lifetimes == {str(RETENTION_S).encode()}
    assert len(moments.backend.ledger.rows()) == 3


async def test_with_its_receipt_gone_a_key_that_tells_its_age_is_never_executed_again(
    moments: Moments,
) -> None:
    """Only the margin stands between the last moment it may be executed and the first it is not."""
    requests = [moments.minted(), moments.first_sent()]
    for each in requests:
        await send(moments.worker(retention=POLICY), each)
    moments.drop_receipts()
    moments.flush()
    for after_s in (RETENTION_S - MARGIN_S + 0.001, RETENTION_S, 10 * RETENTION_S):
        moments.at(after_s)
        late = [await send(moments.worker(retention=POLICY), each) for each in requests]

        assert [each.brief for each in late] == [EXPIRED] * 2

    assert len(moments.backend.ledger.rows()) == 2


async def test_the_oldest_first_request_is_one_margin_younger_than_the_retention(
    of_sqlite: Moments,
) -> None:
    """Held up for so long, by a queue perhaps, and never seen before."""
    of_sqlite.at(RETENTION_S - MARGIN_S)

    assert (await send(of_sqlite.worker(retention=POLICY), of_sqlite.minted())).brief == FRESH
    of_sqlite.at(RETENTION_S - MARGIN_S + 0.001)
    other = of_sqlite.minted(1)
    assert (await send(of_sqlite.worker(retention=POLICY), other)).brief == EXPIRED
    assert len(of_sqlite.backend.ledger.rows()) == 1


async def test_a_receipt_is_live_to_the_last_microsecond(of_postgres: Moments) -> None:
    await send(of_postgres.worker(retention=POLICY), OPAQUE)
    answers = []
    for us in (-1, 0):
        of_postgres.at(RETENTION_S, us=us)
        of_postgres.flush()
        answers.append(await send(of_postgres.worker(retention=POLICY), OPAQUE))

    assert [each.brief for each in answers] == [REPLAY, EXPIRED]
    assert len(of_postgres.backend.ledger.rows()) == 1


async def test_a_receipt_is_live_to_the_last_millisecond(of_sqlite: Moments) -> None:
    await send(of_sqlite.worker(retention=POLICY), OPAQUE)
    answers = []
    for after_s in (RETENTION_S - 0.001, RETENTION_S):
        of_sqlite.at(after_s)
        answers.append(await send(of_sqlite.worker(retention=POLICY), OPAQUE))

    assert [each.brief for each in answers] == [REPLAY, EXPIRED]
    assert len(of_sqlite.backend.ledger.rows()) == 1


async def test_redis_keeps_a_receipt_no_longer_than_it_is_live(of_postgres: Moments) -> None:
    """Found ten minutes before its end, it is there for five, and not for the usual hour; found a
    minute before, not at all."""
    kept: list[int] = []
    for at_s in (0, RETENTION_S - 600, RETENTION_S - 60):
        of_postgres.at(at_s)
        of_postgres.flush()
        answer = await send(of_postgres.worker(retention=POLICY), OPAQUE)
        assert answer.brief == (REPLAY if at_s else FRESH)
        kept.append(_kept_ms(of_postgres))

    assert 3_500_000 < kept[0] <= 3_600_000
    assert 250_000 < kept[1] <= 300_000
    assert kept[2] == 0


def _kept_ms(moments: Moments) -> int:
    """Return how long the receipt is kept, once it is there in the lock's place, or neither is."""
    with redis.Redis.from_url(moments.backend.lock_url) as connection:
        for _ in range(200):
            names = connection.keys()
            assert isinstance(names, list)
            if not names:
                return 0
            if str(connection.get(names[0])).startswith("b'R"):
                left = connection.pttl(names[0])
                assert isinstance(left, int)
                return left
            time.sleep(0.01)
    raise AssertionError("the lock was not given back")


async def test_a_receipt_of_seconds_is_in_redis_for_seconds(of_postgres: Moments) -> None:
    await send(of_postgres.worker(retention=5), OPAQUE)

    assert 0 < _kept_ms(of_postgres) <= 4500


async def test_each_refusal_is_told_once_and_nothing_else_is(moments: Moments) -> None:
    events: list[ServerEvent] = []
    requests = [OPAQUE, moments.minted(), moments.first_sent()]
    for each in requests:
        await send(moments.worker(retention=POLICY), each)
    moments.at(RETENTION_S + 1)
    moments.flush()
    worker = moments.worker(retention=POLICY, on_event=events.append)
    for each in (*requests, *requests):
        await send(worker, each)

    kinds = [each.kind for each in events]
    assert kinds.count(EventKind.EXPIRED_BEFORE_RETRY) == 6
    assert [each.detail for each in events if each.kind is EventKind.REFUSED] == ["key-expired"] * 6
    assert set(kinds) == {EventKind.EXPIRED_BEFORE_RETRY, EventKind.REFUSED}
    assert all(len(each.receipt_id) == 32 for each in events)


async def test_while_the_store_is_away_an_old_key_is_not_executed_openly(
    moments: Moments,
) -> None:
    """A route that prefers to execute without a receipt does so for a key that may be a first."""
    outcomes = {}
    for after_s in (0, RETENTION_S):
        moments.at(after_s)
        receipts = watched_receipts(moments.receipts())
        receipts.before["claim"] = unavailable(10)
        worker = moments.worker(retention=POLICY, receipts=receipts, on_outage="execute")
        outcomes[after_s] = (await send(worker, moments.minted())).brief

    assert outcomes == {0: FRESH, RETENTION_S: UNAVAILABLE}
    assert len(moments.backend.ledger.rows()) == 1


@pytest.mark.parametrize("retention_s", [10, 3000, RETENTION_S])
async def test_a_key_from_the_future_is_refused_beyond_four_fifths_of_the_margin(
    of_sqlite: Moments, retention_s: int
) -> None:
    """It would be young for so much longer than its receipt is live."""
    allowed_s = min(MARGIN_S, retention_s / 10) * 4 / 5
    worker = of_sqlite.worker(retention=retention_s)
    answers = []
    for ahead_s in (allowed_s, allowed_s - 0.001):
        of_sqlite.at(-ahead_s)
        answers.append(await send(worker, of_sqlite.minted()))
    of_sqlite.at(-(allowed_s // 1 + 1))
    answers.append(await send(worker, of_sqlite.first_sent()))

    invalid = (400, ProblemKind.INVALID_KEY, False)
    assert [each.brief for each in answers] == [invalid, FRESH, invalid]
    assert len(of_sqlite.backend.ledger.rows()) == 1


async def test_a_key_that_was_as_far_ahead_as_it_may_be_is_not_executed_twice(
    of_sqlite: Moments,
) -> None:
    """Retried every second from its first request on, its receipt gone as soon as it may be."""
    retention_s, ahead_s = 20, 1.599
    worker = of_sqlite.worker(retention=retention_s)
    of_sqlite.at(-ahead_s)
    answers = [await send(worker, of_sqlite.minted())]
    for tenth in range(-15, 10 * retention_s + 50, 3):
        of_sqlite.at(tenth / 10)
        if tenth / 10 >= retention_s - ahead_s:
            of_sqlite.drop_receipts()
        answers.append(await send(worker, of_sqlite.minted()))

    assert [each.brief for each in answers[:2]] == [FRESH, REPLAY]
    assert {each.brief for each in answers[1:]} == {REPLAY, EXPIRED}
    assert len(of_sqlite.backend.ledger.rows()) == 1
