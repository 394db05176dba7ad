"""`claim.finish_in`: the receipt in the handler's own transaction, and what becomes of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import anyio
import pytest
from cryptography.fernet import Fernet
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from replayfloor.core.errors import ClaimLost, StoreUnavailable, UsageError
from replayfloor.core.problem import ProblemKind
from replayfloor.server import AsyncActiveClaim, EventKind, Route, ServerEvent
from server.apps import Gate, Hook, Killed, LedgerApp, nothing, raising, read_body
from server.at_rest import at_rest
from server.backends import Backend, EffectsOption, claim_of
from server.doubles import watched_receipts
from server.own_transaction import Own, own_transaction
from server.wire import Answer, send

pytestmark = pytest.mark.anyio

FRESH, REPLAY = (201, None, False), (201, None, True)
FAILED = (500, ProblemKind.HANDLER_FAILED, True)
IN_FLIGHT = (409, ProblemKind.IN_FLIGHT, False)
PAID: tuple[int, Sequence[tuple[str, str]], bytes] = (
    201,
    [("content-type", "text/plain"), ("location", "/payments/1")],
    b"paid",
)
K = EventKind
Ending = Callable[[Own], Awaitable[None]]
both_effects = pytest.mark.parametrize("effects", ["external", "repeatable"])


@dataclass
class OwnApp:
    """Writes a row and its receipt on a connection of its own, ends that, and answers.

    `before` runs ahead of all that, `end` in place of the commit, and `after` behind it.
    """

    backend: Backend
    before: Hook = nothing
    end: Ending = Own.commit
    after: Hook = nothing
    answer: tuple[int, Sequence[tuple[str, str]], bytes] = PAID
    errors: list[Exception] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await read_body(receive)
        await self.before()
        async with own_transaction(self.backend) as own:
            await own.write()
            await self.finish(claim_of(scope), own)
            await self.end(own)
        await self.after()
        status, headers, body = self.answer
        await Response(body, status, headers=dict(headers))(scope, receive, send)

    async def finish(self, claim: AsyncActiveClaim, own: Own) -> None:
        """Finish, and remember what that raises."""
        try:
            await claim.finish_in(own.connection, PAID)
        except Exception as error:
            self.errors.append(error)
            raise


@both_effects
async def test_one_commit_holds_the_handlers_writes_and_the_receipt(
    backend: Backend, effects: EffectsOption
) -> None:
    events: list[ServerEvent] = []
    app = backend.protect(OwnApp(backend), effects=effects, on_event=events.append)

    first, again = [await send(app) for _ in range(2)]

    assert (first.brief, first.body) == (FRESH, b"paid")
    assert (again.brief, again.body, again.first(b"location")) == (REPLAY, b"paid", b"/payments/1")
    assert [event.kind for event in events][:2] == [K.CLAIMED, K.FINISHED]
    assert backend.ledger.rows() == ["own"]


@both_effects
async def test_a_worker_that_dies_after_that_commit_leaves_an_answer_and_no_orphan(
    backend: Backend, effects: EffectsOption
) -> None:
    """What an external handler cannot have by other means."""
    app = backend.protect(OwnApp(backend, after=raising(Killed())), effects=effects)

    with pytest.raises(Killed):
        await send(app)
    again = await send(backend.protect(OwnApp(backend), effects=effects))

    assert (again.brief, again.body) == (REPLAY, b"paid")
    assert backend.ledger.rows() == ["own"]


async def test_an_exception_after_the_commit_does_not_replace_the_receipt(
    backend: Backend,
) -> None:
    events: list[ServerEvent] = []
    inner = OwnApp(backend, after=raising(LookupError("afterwards")))
    app = backend.protect(inner, on_event=events.append)

    first, again = [await send(app) for _ in range(2)]

    assert str(first.raised) == "afterwards"
    assert [event.kind for event in events] == [K.CLAIMED, K.FINISHED, K.REPLAYED]
    assert (again.brief, again.body) == (REPLAY, b"paid")
    assert backend.ledger.rows() == ["own"]


async def test_the_answer_that_was_recorded_is_sent_whatever_the_handler_returns(
    backend: Backend,
) -> None:
    """Two clients must not be told different things of one payment."""
    other = (200, [("content-type", "text/plain")], b"something else")
    app = backend.protect(OwnApp(backend, answer=other))

    first, again = [await send(app) for _ in range(2)]

    assert (first.brief, first.body) == (FRESH, b"paid")
    assert (again.brief, again.body) == (REPLAY, b"paid")


@pytest.mark.parametrize("end", [Own.rollback, Own.close], ids=["rolled back", "not committed"])
async def test_a_transaction_that_was_not_committed_leaves_the_handlers_own_answer(
    backend: Backend, end: Ending
) -> None:
    declined = (402, [("content-type", "text/plain")], b"declined")
    inner = OwnApp(backend, end=end, answer=declined)
    app = backend.protect(inner)

    first, again = [await send(app) for _ in range(2)]

    assert (first.brief, first.body) == ((402, None, False), b"declined")
    assert (again.brief, again.body) == ((402, None, True), b"declined")
    assert backend.ledger.rows() == []


async def test_a_transaction_that_was_rolled_back_before_a_429_frees_the_key(
    backend: Backend,
) -> None:
    inner = OwnApp(backend, end=Own.rollback, answer=(429, [], b""))
    app = backend.protect(inner)

    first = await send(app)
    inner.end, inner.answer = Own.commit, PAID
    cured, again = [await send(app) for _ in range(2)]

    assert [each.brief for each in (first, cured, again)] == [(429, None, False), FRESH, REPLAY]
    assert backend.ledger.rows() == ["own"]


@pytest.mark.parametrize(("effects", "again"), [("external", FAILED), ("repeatable", FAILED)])
async def test_a_handler_that_raises_before_its_commit_has_failed(
    backend: Backend, effects: EffectsOption, again: object
) -> None:
    async def fail(_own: Own) -> None:
        raise LookupError("before the commit")

    app = backend.protect(OwnApp(backend, end=fail), effects=effects)

    first = await send(app)

    assert str(first.raised) == "before the commit"
    assert (await send(app)).brief == again
    assert backend.ledger.rows() == []


async def test_a_handler_whose_claim_was_taken_over_meanwhile_is_told_and_commits_nothing(
    backend: Backend,
) -> None:
    lease_s, gate, going_on = 0.2, Gate(), anyio.Event()
    receipts = watched_receipts(backend.receipts())
    receipts.before["renew"] = going_on.wait
    slow = OwnApp(backend, before=gate)
    old = backend.protect(slow, effects="repeatable", receipts=receipts, lease_s=lease_s)
    new = backend.protect(OwnApp(backend), effects="repeatable")
    answers, taken = list[Answer](), list[Answer]()

    async def first() -> None:
        answers.append(await send(old))

    async with anyio.create_task_group() as group:
        group.start_soon(first)
        await gate.entered.wait()
        await anyio.sleep(lease_s + 0.1)
        taken.append(await send(new))
        gate.opened.set()
    going_on.set()
    again = await send(new)

    assert [each.brief for each in (*taken, again)] == [FRESH, REPLAY]
    assert [type(error) for error in slow.errors] == [ClaimLost]
    assert [type(each.raised) for each in answers] == [ClaimLost]
    assert backend.ledger.rows() == ["own"]


async def test_a_receipt_whose_fate_cannot_be_looked_up_is_answered_and_is_not_lost(
    backend: Backend,
) -> None:
    """The handler has returned, so its commit succeeded; only the store cannot be asked."""
    receipts = watched_receipts(backend.receipts())
    claims = 0

    async def away_later() -> None:
        nonlocal claims
        claims += 1
        if claims == 2:
            raise StoreUnavailable("away")

    receipts.before["claim"] = away_later
    app = backend.protect(OwnApp(backend), receipts=receipts)

    first, again = [await send(app) for _ in range(2)]

    assert (first.brief, again.brief) == (FRESH, REPLAY)
    assert backend.ledger.rows() == ["own"]


async def test_a_key_has_one_receipt(backend: Backend) -> None:
    class Twice(OwnApp):
        async def finish(self, claim: AsyncActiveClaim, own: Own) -> None:
            await super().finish(claim, own)
            with pytest.raises(UsageError, match="before"):
                await super().finish(claim, own)

    app = backend.protect(Twice(backend))

    assert [(await send(app)).brief for _ in range(2)] == [FRESH, REPLAY]


async def test_in_an_atomic_route_the_middleware_finishes_the_receipt(backend: Backend) -> None:
    inner = OwnApp(backend)

    first = await send(backend.protect(inner, effects="atomic"))
    cured = await send(backend.protect(LedgerApp(backend, "atomic"), effects="atomic"))

    assert [type(error) for error in inner.errors] == [UsageError]
    assert isinstance(first.raised, UsageError)
    assert cured.brief == FRESH


async def test_a_connection_that_cannot_be_written_through_is_refused(backend: Backend) -> None:
    class Wrong(OwnApp):
        async def finish(self, claim: AsyncActiveClaim, own: Own) -> None:
            with pytest.raises(UsageError, match="cannot finish in"):
                await claim.finish_in(object(), PAID)
            await super().finish(claim, own)

    app = backend.protect(Wrong(backend))

    assert [(await send(app)).brief for _ in range(2)] == [FRESH, REPLAY]


async def test_a_sensitive_route_records_no_body_in_the_handlers_transaction_either(
    backend: Backend,
) -> None:
    app = backend.protect(OwnApp(backend), routes=[Route("POST", "/pay", sensitive=True)])

    first, again = [await send(app) for _ in range(2)]

    assert (first.brief, first.body) == (FRESH, b"paid")
    assert again.problem is ProblemKind.ANSWER_NOT_KEPT
    assert b"/payments/1" in at_rest(backend)
    assert b"paid" not in at_rest(backend)


async def test_a_receipt_in_the_handlers_transaction_is_enciphered_too(backend: Backend) -> None:
    cipher = Fernet(Fernet.generate_key())
    app = backend.protect(OwnApp(backend), response_cipher=cipher)

    answers = [await send(app) for _ in range(2)]

    assert [each.brief for each in answers] == [FRESH, REPLAY]
    assert [each.body for each in answers] == [b"paid"] * 2
    assert b"/payments/1" not in at_rest(backend)
