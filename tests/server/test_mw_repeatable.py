"""effects="repeatable": an orphan is executed again, under derived keys that stay the same."""

from __future__ import annotations

import re

import pytest
from starlette.types import Scope

from replayfloor.core.errors import UsageError
from replayfloor.core.problem import ProblemKind
from replayfloor.server import EventKind, Route, ServerEvent
from server.apps import Killed, LedgerApp, nothing, raising
from server.backends import Backend, claim_of
from server.stalling import stalled
from server.wire import Request, send

pytestmark = pytest.mark.anyio

FRESH, REPLAY = (201, None, False), (201, None, True)
IN_FLIGHT = (409, ProblemKind.IN_FLIGHT, False)
HEADERS = [(b"content-type", b"text/plain")]


class Charging(LedgerApp):
    """Writes the key that it would send with a charge, so that the charges can be told apart."""

    async def write(self, scope: Scope) -> None:
        self.backend.ledger.write(claim_of(scope).derived_key("charge"))


async def test_an_orphan_is_executed_again_under_the_same_derived_key(backend: Backend) -> None:
    events: list[ServerEvent] = []
    other = backend.protect(
        Charging(backend, "repeatable"), effects="repeatable", on_event=events.append
    )

    async with stalled(Charging(backend, "repeatable"), "after", []):
        taken = await send(other)
    again = await send(other)

    charges = backend.ledger.rows()
    assert [taken.brief, again.brief] == [FRESH, REPLAY]
    assert EventKind.TAKEN_OVER in [event.kind for event in events]
    assert len(charges) == 2
    assert len(set(charges)) == 1
    assert re.fullmatch("[0-9a-f]{32}", charges[0])


async def test_an_old_owner_that_finishes_late_is_refused_and_the_new_answer_is_replayed(
    backend: Backend,
) -> None:
    events: list[ServerEvent] = []
    old = LedgerApp(backend, "repeatable", headers=HEADERS, bodies=[b"the old answer"])
    new = LedgerApp(backend, "repeatable", headers=HEADERS, bodies=[b"the new answer"])
    other = backend.protect(new, effects="repeatable")

    async with stalled(old, "after", events) as (_gate, late):
        taken = await send(other)
    again = await send(other)

    assert (taken.brief, taken.body) == (FRESH, b"the new answer")
    assert [each.brief for each in late] == [IN_FLIGHT]
    assert EventKind.LEASE_LOST in [event.kind for event in events]
    assert (again.brief, again.body) == (REPLAY, b"the new answer")


async def test_an_owner_that_outlives_its_lease_unnoticed_is_recorded(backend: Backend) -> None:
    async with stalled(LedgerApp(backend, "repeatable"), "after", []) as (_gate, answers):
        pass

    again = await send(backend.protect(LedgerApp(backend, "repeatable"), effects="repeatable"))

    assert [each.brief for each in answers] == [FRESH]
    assert again.brief == REPLAY
    assert len(backend.ledger.rows()) == 1


async def test_another_request_does_not_take_an_orphan_over(backend: Backend) -> None:
    other = backend.protect(LedgerApp(backend, "repeatable"), effects="repeatable")

    async with stalled(LedgerApp(backend, "repeatable"), "after", []):
        wrong = await send(other, Request(chunks=(b'{"amount": 2}',)))

    assert wrong.brief == (422, ProblemKind.KEY_REUSED, False)
    assert len(backend.ledger.rows()) == 1


async def test_a_handler_that_is_stopped_frees_the_key_at_once(backend: Backend) -> None:
    """It would be executed again in any case; nobody has to wait for its lease to run out."""
    inner = LedgerApp(backend, "repeatable", after=raising(Killed()))
    app = backend.protect(inner, effects="repeatable", lease_s=60.0)

    with pytest.raises(Killed):
        await send(app)
    inner.after = nothing

    assert [(await send(app)).brief for _ in range(2)] == [FRESH, REPLAY]
    assert len(backend.ledger.rows()) == 2


@pytest.mark.parametrize("failure", ["500", "exception"])
async def test_a_failure_is_an_answer_and_is_stored(backend: Backend, failure: str) -> None:
    status = 500 if failure == "500" else 201
    after = nothing if failure == "500" else raising(LookupError())
    app = backend.protect(
        LedgerApp(backend, "repeatable", status, after=after), effects="repeatable"
    )

    first, again = [await send(app) for _ in range(2)]

    assert (first.status, again.status, again.replayed) == (500, 500, True)
    assert len(backend.ledger.rows()) == 1


@pytest.mark.parametrize("failure", ["500", "exception"])
async def test_a_failure_runs_again_where_the_route_says_so(backend: Backend, failure: str) -> None:
    inner = LedgerApp(backend, "repeatable", 500 if failure == "500" else 201)
    inner.after = nothing if failure == "500" else raising(LookupError())
    routes = [Route("POST", "/pay", effects="repeatable", ambiguous="release")]
    app = backend.protect(inner, routes=routes)

    first = await send(app)
    inner.status, inner.after = 201, nothing
    cured, again = [await send(app) for _ in range(2)]

    assert first.status == 500
    assert [cured.brief, again.brief] == [FRESH, REPLAY]


async def test_derived_keys_differ_by_name_and_by_operation_and_not_by_execution(
    backend: Backend,
) -> None:
    keys: list[str] = []

    class Deriving(LedgerApp):
        async def write(self, scope: Scope) -> None:
            claim = claim_of(scope)
            keys.extend(claim.derived_key(name) for name in ("charge", "mail", "charge"))
            with pytest.raises(UsageError, match="name"):
                claim.derived_key("")

    inner = Deriving(backend, status=429)
    app = backend.protect(inner)

    for key in (b'"a"', b'"a"', b'"b"'):
        await send(app, Request(key=key))

    first, again, other = keys[0:3], keys[3:6], keys[6:9]
    assert first[0] == first[2] != first[1]
    assert again == first
    assert not set(other) & set(first)
    assert not any(key == "a" or '"a"' in key for key in keys)
