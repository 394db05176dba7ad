"""The lease is kept while the handler runs: it tells a dead worker, not a slow one."""

from __future__ import annotations

import anyio
import pytest
from anyio import to_thread
from starlette.types import ASGIApp, Receive, Scope, Send

from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.problem import ProblemKind
from replayfloor.server import EventKind, ServerEvent
from server.apps import Gate, Hook, LedgerApp
from server.backends import Backend, EffectsOption, claim_of
from server.doubles import watched_receipts
from server.wire import Answer, Request, send

pytestmark = pytest.mark.anyio

LEASE_S = 0.3
TEN_LEASES_S = 10 * LEASE_S
FRESH, REPLAY = (201, None, False), (201, None, True)
IN_FLIGHT = (409, ProblemKind.IN_FLIGHT, False)

EFFECTS: tuple[EffectsOption, ...] = ("atomic", "external", "repeatable")


def sleeping(pause_s: float) -> Hook:
    async def hook() -> None:
        await anyio.sleep(pause_s)

    return hook


class Slow(LedgerApp):
    """Takes ten leases, and says then whether it was told that its claim is lost."""

    told: list[bool]

    async def write(self, scope: Scope) -> None:
        await anyio.sleep(TEN_LEASES_S)
        self.told.append(claim_of(scope).lost)
        await super().write(scope)


async def test_handlers_that_take_ten_leases_stay_alone_and_are_not_told_otherwise(
    backend: Backend,
) -> None:
    """One of each kind at once, to wait for them once."""
    answers: list[Answer] = []
    duplicates: list[Answer] = []
    told: list[bool] = []

    async def first(app: ASGIApp, request: Request) -> None:
        answers.append(await send(app, request))

    sent: list[tuple[ASGIApp, Request]] = []
    async with anyio.create_task_group() as group:
        for effects in EFFECTS:
            inner = Slow(backend, effects)
            inner.told = told
            app = backend.protect(inner, effects=effects, lease_s=LEASE_S)
            sent.append((app, Request(key=b'"%s"' % effects.encode())))
            group.start_soon(first, *sent[-1])
        await anyio.sleep(LEASE_S / 2)
        for _ in range(8):
            duplicates += [await send(*each) for each in sent]
            await anyio.sleep(LEASE_S)

    assert {each.brief for each in duplicates} == {IN_FLIGHT}
    assert [each.brief for each in answers] == [FRESH] * len(EFFECTS)
    assert [(await send(*each)).brief for each in sent] == [REPLAY] * len(EFFECTS)
    assert len(backend.ledger.rows()) == len(EFFECTS)
    assert told == [False] * len(EFFECTS)


async def test_a_quick_handler_costs_no_renewal(backend: Backend) -> None:
    receipts = watched_receipts(backend.receipts())

    await send(backend.protect(LedgerApp(backend), receipts=receipts, lease_s=LEASE_S))
    await anyio.sleep(LEASE_S)

    assert receipts.calls == ["claim", "finish"]


async def test_renewals_end_with_the_answer_and_not_with_the_background(backend: Backend) -> None:
    receipts = watched_receipts(backend.receipts())
    inner = LedgerApp(backend, before=sleeping(LEASE_S), last=sleeping(LEASE_S))

    await send(backend.protect(inner, receipts=receipts, lease_s=LEASE_S))

    assert "renew" in receipts.calls
    assert receipts.calls[-1] == "finish"


async def test_a_renewal_that_fails_twice_is_made_up_for(backend: Backend) -> None:
    receipts = watched_receipts(backend.receipts())
    failures = [StoreUnavailable("away"), StoreUnavailable("away")]

    async def fail_twice() -> None:
        if failures:
            raise failures.pop()

    receipts.before["renew"] = fail_twice
    events: list[ServerEvent] = []
    app = backend.protect(
        LedgerApp(backend, before=sleeping(2 * LEASE_S)),
        receipts=receipts,
        lease_s=LEASE_S,
        on_event=events.append,
    )

    assert (await send(app)).brief == FRESH
    assert EventKind.LEASE_LOST not in [each.kind for each in events]


async def test_a_handler_is_told_that_its_claim_is_lost_before_it_commits(
    backend: Backend,
) -> None:
    """The store cannot be reached for a whole lease; meanwhile another worker takes over."""
    receipts = watched_receipts(backend.receipts())

    async def away() -> None:
        raise StoreUnavailable("away")

    receipts.before["renew"] = away
    gate = Gate()
    told: list[bool] = []
    events: list[ServerEvent] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        told.append(claim_of(scope).lost)
        await gate()
        told.append(claim_of(scope).lost)
        await LedgerApp(backend, "atomic")(scope, receive, send)

    slow = backend.protect(
        app, effects="atomic", receipts=receipts, lease_s=LEASE_S, on_event=events.append
    )
    other = backend.protect(LedgerApp(backend, "atomic"), effects="atomic", lease_s=LEASE_S)
    late: list[Answer] = []
    taken_over: list[Answer] = []

    async with anyio.create_task_group() as group:

        async def first() -> None:
            late.append(await send(slow))

        group.start_soon(first)
        await gate.entered.wait()
        await anyio.sleep(2 * LEASE_S)
        taken_over.append(await send(other))
        gate.opened.set()

    assert told == [False, True]
    assert taken_over[0].brief == FRESH
    assert late[0].brief == IN_FLIGHT
    assert EventKind.LEASE_LOST in [each.kind for each in events]
    assert backend.ledger.rows() == ["atomic"]


async def test_a_handler_is_told_with_the_next_renewal_that_its_claim_is_another_s(
    backend: Backend,
) -> None:
    """It could go on until its lease has run out, and have effects that nobody wants any more."""
    lease_s = 4 * LEASE_S
    told_after_s: list[float] = []

    class Asking(LedgerApp):
        async def write(self, scope: Scope) -> None:
            begun = anyio.current_time()
            table = "replayfloor.claims" if backend.is_postgres else "replayfloor_claims"
            await to_thread.run_sync(backend.ledger.run, f"delete from {table}")
            for _ in range(round(lease_s / 0.01)):
                if claim_of(scope).lost:
                    break
                await anyio.sleep(0.01)
            told_after_s.append(anyio.current_time() - begun)

    await send(backend.protect(Asking(backend), lease_s=lease_s))

    assert told_after_s[0] < 0.9 * lease_s
