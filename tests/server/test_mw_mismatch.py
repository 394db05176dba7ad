"""A key that comes back with another request: refused always, and the first one is untouched."""

from __future__ import annotations

import json

import anyio
import pytest
from starlette.types import ASGIApp, Scope

from replayfloor.core.problem import ProblemKind
from server.apps import Gate, Killed, LedgerApp, raising
from server.backends import Backend
from server.wire import Answer, Request, send

pytestmark = pytest.mark.anyio

FIRST = Request(query=b"a=1")
OTHERS = [
    FIRST.but(chunks=(b'{"amount": 2}',)),
    FIRST.but(chunks=(b"",)),
    FIRST.but(path="/refund"),
    FIRST.but(query=b"a=2"),
    FIRST.but(query=b""),
    FIRST.but(method="PATCH"),
    FIRST.but(content_type=b"text/plain"),
]
every_other = pytest.mark.parametrize("other", OTHERS)
REUSED = (422, ProblemKind.KEY_REUSED, False)


@every_other
async def test_another_request_with_the_key_is_refused_and_the_first_still_replays(
    backend: Backend, other: Request
) -> None:
    app = backend.protect(LedgerApp(backend))

    first, wrong, wrong_again, again = [
        await send(app, request) for request in (FIRST, other, other, FIRST)
    ]

    assert first.brief == (201, None, False)
    assert wrong.brief == wrong_again.brief == REUSED
    assert again.brief == (201, None, True)
    assert len(backend.ledger.rows()) == 1


@pytest.mark.parametrize("one_worker", [True, False])
async def test_while_the_first_is_in_flight_another_request_gets_422_and_not_409(
    backend: Backend, one_worker: bool
) -> None:
    gate = Gate()
    app = backend.protect(LedgerApp(backend, after=gate))
    other_app = app if one_worker else backend.protect(LedgerApp(backend))
    answers, others = list[Answer](), list[Answer]()

    async with anyio.create_task_group() as group:
        group.start_soon(_collect, answers, app, FIRST)
        await gate.entered.wait()
        for request in (*OTHERS, FIRST):
            await _collect(others, other_app, request)
        gate.opened.set()

    *wrong, same = others
    assert [each.brief for each in wrong] == [REUSED] * len(OTHERS)
    assert same.brief == (409, ProblemKind.IN_FLIGHT, False)
    assert [each.brief for each in answers] == [(201, None, False)]
    assert len(backend.ledger.rows()) == 1


async def _collect(answers: list[Answer], app: ASGIApp, request: Request) -> None:
    answers.append(await send(app, request))


async def test_another_request_with_an_orphaned_key_is_refused_as_reused(backend: Backend) -> None:
    app = backend.protect(LedgerApp(backend, after=raising(Killed())), lease_s=0.05)
    with pytest.raises(Killed):
        await send(app, FIRST)
    await anyio.sleep(0.1)

    assert (await send(app, FIRST.but(query=b"a=2"))).brief == REUSED
    assert (await send(app, FIRST)).problem is ProblemKind.OUTCOME_UNKNOWN
    assert len(backend.ledger.rows()) == 1


async def test_a_parameter_of_the_content_type_may_change(backend: Backend) -> None:
    app = backend.protect(LedgerApp(backend))

    await send(app, FIRST.but(content_type=b"multipart/form-data; boundary=a"))
    again = await send(app, FIRST.but(content_type=b"Multipart/Form-Data; boundary=b"))

    assert again.replayed


async def test_a_json_body_that_was_serialised_anew_is_the_same_request(backend: Backend) -> None:
    app = backend.protect(LedgerApp(backend))
    first = FIRST.but(content_type=b"application/json", chunks=(b'{"amount": 1, "to": "a"}',))

    await send(app, first)
    again = await send(app, first.but(chunks=(b'{"to":"a","amount":1}',)))
    other = await send(app, first.but(chunks=(b'{"to":"a","amount":1.0}',)))

    assert again.replayed
    assert other.brief == REUSED
    assert len(backend.ledger.rows()) == 1


async def test_a_refusal_tells_nothing_about_the_first_request(backend: Backend) -> None:
    app = backend.protect(LedgerApp(backend))

    await send(app, FIRST.but(chunks=(b"first-secret",)))
    wrong = await send(app, FIRST.but(chunks=(b"second-secret",)))

    assert b"secret" not in wrong.body
    told = json.loads(wrong.body)
    assert set(told) == {"type", "title", "status", "detail", "documentation", "differs"}
    assert told["differs"] == "body"


def _by_user(scope: Scope) -> str:
    names: list[bytes] = [value for name, value in scope["headers"] if name == b"x-user"]
    return names[0].decode()


def _as_user(name: bytes) -> Request:
    return FIRST.but(headers=[(b"x-user", name)])


async def test_two_owners_of_one_key_do_not_meet(backend: Backend) -> None:
    gate = Gate()
    app = backend.protect(LedgerApp(backend, after=gate), principal=_by_user)
    answers: list[Answer] = []

    async with anyio.create_task_group() as group:
        group.start_soon(_collect, answers, app, _as_user(b"one"))
        await gate.entered.wait()
        await _collect(answers, app, _as_user(b"two").but(chunks=(b"other",)))
        gate.opened.set()

    assert [each.brief for each in answers] == [(201, None, False)] * 2
    assert (await send(app, _as_user(b"one"))).replayed
    assert len(backend.ledger.rows()) == 2


async def test_two_namespaces_in_one_store_do_not_meet(backend: Backend) -> None:
    apps = [backend.protect(LedgerApp(backend), namespace=name) for name in ("a", "b")]

    answers = [await send(app) for app in (*apps, *apps)]

    assert [each.replayed for each in answers] == [False, False, True, True]
    assert len(backend.ledger.rows()) == 2


async def test_two_keys_with_equal_requests_are_two_operations(backend: Backend) -> None:
    app = backend.protect(LedgerApp(backend))

    answers = [await send(app, FIRST.but(key=key)) for key in (b'"a"', b'"b"')]

    assert [each.replayed for each in answers] == [False, False]
    assert len(backend.ledger.rows()) == 2


async def test_a_principal_that_turns_out_to_be_missing_is_no_owner_shared_by_all(
    sqlite: Backend,
) -> None:
    """Only `principal=None` says "one tenant"; a lookup that finds nobody is a mistake."""

    def nobody(scope: Scope) -> str:
        user: str = scope.get("user")  # type: ignore[assignment]
        return user

    app = sqlite.protect(LedgerApp(sqlite), principal=nobody)

    answers = [await send(app) for _ in range(2)]

    assert not any(answer.replayed for answer in answers)
    assert [answer.status for answer in answers] == [500, 500]
    assert sqlite.ledger.rows() == []
