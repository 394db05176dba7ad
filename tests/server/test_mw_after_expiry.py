"""What becomes of a key whose receipt has expired: as the route says, and as far as it is known."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from replayfloor.core.problem import ProblemKind
from replayfloor.server import Route
from server.apps import LedgerApp, raising
from server.backends import Backend, EffectsOption, ProtectOptions, claim_of
from server.moments import HOUR_S, Moments, moments_of
from server.wire import Request, send

pytestmark = pytest.mark.anyio

FRESH, REPLAY = (201, None, False), (201, None, True)
EXPIRED = (400, ProblemKind.KEY_EXPIRED, False)
RETENTION_S = 84 * HOUR_S
LATE_S = 85 * HOUR_S
AUDIT = timedelta(days=180)
OPAQUE = Request(key=b'"opaque"')


@pytest.fixture
async def moments(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Moments]:
    """All sides and stores."""
    async with moments_of(backend, monkeypatch) as made:
        yield made


@dataclass
class Looking(LedgerApp):
    """Notes what each execution is told of its claim: (age, past_horizon, taken_over)."""

    seen: list[tuple[timedelta | None, bool, bool]] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        claim = claim_of(scope)
        self.seen.append((claim.age, claim.past_horizon, claim.taken_over))
        await super().__call__(scope, receive, send)


def told(moments: Moments, inner: ASGIApp, effects: EffectsOption = "external") -> ASGIApp:
    """Return a worker whose handler is told of what has expired."""
    return moments.worker(inner, retention=RETENTION_S, after_expiry="handler", effects=effects)


async def test_execute_takes_an_old_key_for_a_new_one_unless_it_tells_its_age(
    moments: Moments,
) -> None:
    requests = [OPAQUE, moments.minted(), moments.first_sent()]
    for each in requests:
        await send(moments.worker(retention=RETENTION_S, after_expiry="execute"), each)
    moments.at(LATE_S)
    moments.flush()
    worker = moments.worker(retention=RETENTION_S, after_expiry="execute")
    late = [await send(worker, each) for each in requests]

    assert [each.brief for each in late] == [FRESH, EXPIRED, EXPIRED]
    assert (await send(worker, OPAQUE)).brief == REPLAY
    assert len(moments.backend.ledger.rows()) == 4


async def test_a_route_may_say_otherwise_than_the_middleware(moments: Moments) -> None:
    routes = [Route("POST", "/other", after_expiry="execute")]
    both = [OPAQUE, Request(path="/other", key=b'"other"')]
    for each in both:
        await send(moments.worker(retention=RETENTION_S, routes=routes), each)
    moments.at(LATE_S)
    moments.flush()
    worker = moments.worker(retention=RETENTION_S, routes=routes)

    assert [(await send(worker, each)).brief for each in both] == [EXPIRED, FRESH]


async def test_the_handler_is_told_how_old_a_key_is_and_that_it_was_used(
    moments: Moments,
) -> None:
    inner = Looking(moments.backend)
    requests = [OPAQUE, moments.minted(), moments.first_sent()]
    for each in requests:
        await send(told(moments, inner), each)
    moments.at(LATE_S)
    moments.flush()
    unseen = moments.minted(1)
    for each in (*requests, unseen):
        assert (await send(told(moments, inner), each)).brief == FRESH

    none, old = timedelta(0), timedelta(hours=85)
    assert inner.seen[:3] == [(None, False, False), (none, False, False), (none, False, False)]
    # The last was never used; but nobody can tell that of a key that is so old.
    assert inner.seen[3:] == [(None, True, False), *[(old, True, False)] * 3]


async def test_a_handler_that_is_rolled_back_leaves_its_key_known_as_used(
    moments: Moments,
) -> None:
    inner = Looking(moments.backend, "atomic")
    await send(told(moments, inner, "atomic"), OPAQUE)
    moments.at(LATE_S)
    moments.flush()
    inner.after = raising(RuntimeError("after the write"))
    for _ in range(2):
        failed = await send(told(moments, inner, "atomic"), OPAQUE)
        assert isinstance(failed.raised, RuntimeError) or failed.status == 500
    refusing = moments.worker(inner, retention=RETENTION_S, effects="atomic", audit_retention=AUDIT)

    assert [past for _, past, _ in inner.seen] == [False, True, True]
    assert (await send(refusing, OPAQUE)).brief == EXPIRED
    assert len(moments.backend.ledger.rows()) == 1


@pytest.mark.parametrize("effects", ["atomic", "repeatable"])
async def test_whoever_takes_an_expired_key_over_is_told_too(
    moments: Moments, effects: EffectsOption
) -> None:
    inner = Looking(moments.backend, effects)
    await send(told(moments, inner, effects), OPAQUE)
    moments.at(LATE_S)
    moments.flush()
    await send(told(moments, inner, effects), OPAQUE)
    _leave_an_orphan(moments)
    moments.at(LATE_S + 60)
    moments.flush()
    taken = await send(told(moments, inner, effects), OPAQUE)

    assert taken.brief == FRESH
    assert inner.seen == [(None, False, False), (None, True, False), (None, True, True)]


def _leave_an_orphan(moments: Moments) -> None:
    """Put the claim back as it was before the receipt, its lease over: the worker died there."""
    run = moments.backend.ledger.run
    if moments.backend.is_postgres:
        run(
            "with gone as (delete from replayfloor.receipts returning id, fingerprint)"
            " insert into replayfloor.claims (id, fingerprint, fence, claimed_at, lease_until)"
            " select id, fingerprint, gen_random_uuid(), now() - interval '9 s',"
            " now() - interval '1 s' from gone"
        )
    else:
        run(
            "insert into replayfloor_claims (id, fingerprint, fence, claimed_ms, lease_ms)"
            " select id, fingerprint, randomblob(16), finished_ms, finished_ms + 1"
            " from replayfloor_receipts"
        )
        run("delete from replayfloor_receipts")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"audit_retention": AUDIT}, EXPIRED),
        ({"audit_retention": AUDIT, "after_expiry": "handler"}, FRESH),
        ({"audit_retention": AUDIT, "after_expiry": "execute"}, FRESH),
        ({}, FRESH),
    ],
)
async def test_with_an_audit_retention_a_key_is_known_as_used_after_its_receipt_has_gone(
    moments: Moments, options: ProtectOptions, expected: object
) -> None:
    inner = Looking(moments.backend)
    first = moments.worker(inner, retention=RETENTION_S, audit_retention=AUDIT)
    await send(first, OPAQUE)
    moments.at(LATE_S)
    moments.flush()
    moments.drop_receipts(to_proofs=True)
    chosen: ProtectOptions = {**options, "retention": RETENTION_S}
    worker = moments.worker(inner, **chosen)
    late = await send(worker, OPAQUE)
    never_used = await send(worker, Request(key=b'"never"'))

    assert (late.brief, never_used.brief) == (expected, FRESH)
    past = [past for _, past, _ in inner.seen]
    told = expected == FRESH and "audit_retention" in options
    assert past == [False, *([told] if expected == FRESH else []), False]


async def test_an_expired_key_is_refused_with_400_and_never_with_410(moments: Moments) -> None:
    """410 ends a webhook's endpoint for good, in the eyes of many senders."""
    requests = [OPAQUE, moments.minted(), moments.first_sent()]
    statuses = set[int]()
    for after_s in (0, RETENTION_S - 1, RETENTION_S, LATE_S, 100 * LATE_S):
        moments.at(min(after_s, 30 * 24 * HOUR_S))
        moments.flush()
        for effects in ("external", "atomic"):
            worker = moments.worker(
                LedgerApp(moments.backend, effects), retention=RETENTION_S, effects=effects
            )
            statuses |= {(await send(worker, each)).status for each in requests}

    assert statuses == {201, 400}


async def test_a_lease_is_none_of_the_retention_s_business(moments: Moments) -> None:
    """An orphan of a key that is long past is still told as one: it was started, and not ended."""
    request = moments.minted()
    await send(moments.worker(retention=RETENTION_S), request)
    _leave_an_orphan(moments)
    moments.at(LATE_S)
    moments.flush()
    late = await send(moments.worker(retention=RETENTION_S), request)

    assert late.brief == (409, ProblemKind.OUTCOME_UNKNOWN, False)
    assert len(moments.backend.ledger.rows()) == 1
