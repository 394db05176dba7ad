"""What becomes of the key: an answer is stored and replayed, or it is free again."""

from __future__ import annotations

import json

import pytest

from replayfloor.core.problem import ProblemKind
from replayfloor.server import Route
from server.apps import LedgerApp, raising
from server.backends import Backend, EffectsOption
from server.doubles import watched_receipts
from server.wire import Answer, Request, send

pytestmark = pytest.mark.anyio

both_effects = pytest.mark.parametrize("effects", ["atomic", "external"])
RELEASE = [Route("POST", "/pay", ambiguous="release")]


class Declined(Exception):
    """What a handler raises."""


@both_effects
@pytest.mark.parametrize("status", [303, 400, 402, 404, 409, 410, 422])
async def test_a_final_answer_is_stored_and_replayed(
    backend: Backend, effects: EffectsOption, status: int
) -> None:
    app = backend.protect(LedgerApp(backend, effects, status), effects=effects)

    first, again = [await send(app) for _ in range(2)]

    assert (first.brief, again.brief) == ((status, None, False), (status, None, True))
    assert again.first(b"location") == b"/payments/1"
    assert len(backend.ledger.rows()) == 1


@pytest.mark.parametrize("status", [401, 403, 408, 425, 429, 503])
async def test_an_answer_given_before_the_operation_frees_the_key(
    backend: Backend, status: int
) -> None:
    inner = LedgerApp(backend, "external", status)
    app = backend.protect(inner)

    first = await send(app)
    inner.status = 201
    cured, again = [await send(app) for _ in range(2)]

    assert [each.brief for each in (first, cured, again)] == [
        (status, None, False),
        (201, None, False),
        (201, None, True),
    ]
    assert len(backend.ledger.rows()) == 2  # this application did write before it answered


@pytest.mark.parametrize("status", [401, 429, 500, 502, 503, 504, 599])
async def test_atomic_writes_behind_an_answer_that_is_not_stored_are_rolled_back(
    backend: Backend, status: int
) -> None:
    inner = LedgerApp(backend, "atomic", status)
    app = backend.protect(inner, effects="atomic")

    first = await send(app)
    assert (first.status, backend.ledger.rows()) == (status, [])
    inner.status = 201
    cured, again = [await send(app) for _ in range(2)]

    assert [each.brief for each in (cured, again)] == [(201, None, False), (201, None, True)]
    assert backend.ledger.rows() == ["atomic"]


async def test_atomic_writes_of_a_handler_that_raises_are_rolled_back(backend: Backend) -> None:
    inner = LedgerApp(backend, "atomic", after=raising(Declined()))
    app = backend.protect(inner, effects="atomic")

    first = await send(app)
    assert isinstance(first.raised, Declined)
    assert backend.ledger.rows() == []
    inner.after = LedgerApp(backend).after
    cured, again = [await send(app) for _ in range(2)]

    assert [each.brief for each in (cured, again)] == [(201, None, False), (201, None, True)]
    assert backend.ledger.rows() == ["atomic"]


@pytest.mark.parametrize("status", [500, 502, 504])
async def test_an_ambiguous_answer_of_an_external_handler_is_stored(
    backend: Backend, status: int
) -> None:
    app = backend.protect(LedgerApp(backend, "external", status))

    first, again = [await send(app) for _ in range(2)]

    assert (first.brief, again.brief) == ((status, None, False), (status, None, True))
    assert len(backend.ledger.rows()) == 1


async def test_an_exception_of_an_external_handler_is_replayed_as_a_problem(
    backend: Backend,
) -> None:
    app = backend.protect(LedgerApp(backend, after=raising(Declined())))

    first, again, third = [await send(app) for _ in range(3)]

    assert isinstance(first.raised, Declined)
    assert again.brief == third.brief == (500, ProblemKind.HANDLER_FAILED, True)
    assert len(backend.ledger.rows()) == 1


async def test_the_problem_of_a_failed_handler_links_to_the_page_of_the_user(
    sqlite: Backend,
) -> None:
    inner = LedgerApp(sqlite, after=raising(Declined()))
    app = sqlite.protect(inner, documentation="https://example.org/k")

    _first, again = [await send(app) for _ in range(2)]

    assert json.loads(again.body)["documentation"] == "https://example.org/k"


@pytest.mark.parametrize("failure", ["status", "exception"])
async def test_an_ambiguous_failure_runs_again_where_the_route_says_so(
    backend: Backend, failure: str
) -> None:
    inner = LedgerApp(backend, "external", 500 if failure == "status" else 201)
    if failure == "exception":
        inner.after = raising(Declined())
    app = backend.protect(inner, routes=RELEASE)

    first = await send(app)
    inner.status, inner.after = 201, LedgerApp(backend).after
    cured, again = [await send(app) for _ in range(2)]

    assert first.status == 500
    assert [each.brief for each in (cured, again)] == [(201, None, False), (201, None, True)]
    assert len(backend.ledger.rows()) == 2


@pytest.mark.parametrize("status", [600, 999])
async def test_a_status_outside_of_http_is_ambiguous_and_loses_neither_answer_nor_key(
    backend: Backend, status: int
) -> None:
    app = backend.protect(LedgerApp(backend, "external", status))

    first, again = [await send(app) for _ in range(2)]

    assert first.brief == (status, None, False)
    assert again.problem is not ProblemKind.IN_FLIGHT
    assert len(backend.ledger.rows()) == 1


async def _incomplete(backend: Backend, effects: EffectsOption) -> tuple[Answer, Answer]:
    inner = LedgerApp(backend, effects)
    receipts = watched_receipts(backend.receipts())

    class Silent(LedgerApp):
        def messages(self) -> list[dict[str, object]]:  # type: ignore[override]
            return []

    silent = backend.protect(Silent(backend, effects), effects=effects, receipts=receipts)
    first = await send(silent)
    return first, await send(backend.protect(inner, effects=effects, receipts=receipts))


async def test_an_application_that_returns_without_an_answer_has_failed(backend: Backend) -> None:
    first, again = await _incomplete(backend, "external")

    assert first.status == 500
    assert again.brief == (500, ProblemKind.HANDLER_FAILED, True)
    assert len(backend.ledger.rows()) == 1


async def test_without_an_answer_an_atomic_write_is_rolled_back(backend: Backend) -> None:
    first, again = await _incomplete(backend, "atomic")

    assert (first.status, again.brief) == (500, (201, None, False))
    assert backend.ledger.rows() == ["atomic"]


@both_effects
@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_both_methods_of_the_draft_are_protected(
    backend: Backend, effects: EffectsOption, method: str
) -> None:
    app = backend.protect(LedgerApp(backend, effects), effects=effects)

    answers = [await send(app, Request(method=method)) for _ in range(2)]

    assert [answer.replayed for answer in answers] == [False, True]
    assert len(backend.ledger.rows()) == 1
