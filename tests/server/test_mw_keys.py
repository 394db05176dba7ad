"""Missing, malformed and doubled keys: answered before anything is looked up or executed."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from starlette.types import Scope

from replayfloor.core.problem import ProblemKind
from server.apps import LedgerApp
from server.backends import Backend, ProtectOptions
from server.doubles import watched_lock, watched_receipts
from server.wire import Answer, Request, send

pytestmark = pytest.mark.anyio

MALFORMED: list[bytes | Sequence[bytes]] = [
    b"",
    b"k",
    b'""',
    b'" "',
    b'"k',
    b"'k'",
    b'"a", "b"',
    b'"a\\n"',
    b'"caf\xc3\xa9"',
    b'"' + b"x" * 256 + b'"',
    b'"' + b"x" * 100_000 + b'"',
    b'"nul\x00"',
    [b'"k"', b'"k"'],
    [b'"a"', b'"b"'],
]
UNUSUAL = [
    b'"' + text + b'"' for text in (b":*{}", b"'; drop table ledger; --", b"%00", b"x" * 255)
]


async def _with_watched_stores(
    backend: Backend, request: Request, options: ProtectOptions
) -> tuple[Answer, list[str]]:
    receipts, lock = watched_receipts(backend.receipts()), watched_lock(backend.lock())
    options |= {"receipts": receipts, "lock": lock}
    app = backend.protect(LedgerApp(backend), **options)
    return await send(app, request), receipts.calls + lock.calls


async def test_a_missing_key_is_refused_where_one_is_required(backend: Backend) -> None:
    answer, calls = await _with_watched_stores(backend, Request(key=None), {"required": True})

    assert answer.brief == (400, ProblemKind.MISSING_KEY, False)
    assert (calls, backend.ledger.rows()) == ([], [])


async def test_a_request_without_key_runs_unprotected_where_none_is_required(
    backend: Backend,
) -> None:
    app = backend.protect(LedgerApp(backend))

    answers = [await send(app, Request(key=None)) for _ in range(2)]

    assert [answer.brief for answer in answers] == [(201, None, False)] * 2
    assert len(backend.ledger.rows()) == 2


async def test_a_request_without_key_is_not_asked_for_its_principal(sqlite: Backend) -> None:
    """A login has no principal yet; it sends no key either."""

    def principal(scope: Scope) -> str:
        user: str = scope["user"]
        return user

    answer = await send(
        sqlite.protect(LedgerApp(sqlite), principal=principal), Request(key=None, path="/login")
    )

    assert answer.brief == (201, None, False)


@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize("key", MALFORMED)
async def test_a_malformed_key_is_refused_and_never_ignored(
    sqlite: Backend, key: bytes | Sequence[bytes], required: bool
) -> None:
    answer, calls = await _with_watched_stores(sqlite, Request(key=key), {"required": required})

    assert answer.brief == (400, ProblemKind.INVALID_KEY, False)
    assert (calls, sqlite.ledger.rows()) == ([], [])


async def test_a_malformed_key_is_refused_on_either_store(backend: Backend) -> None:
    answer, calls = await _with_watched_stores(backend, Request(key=[b'"k"', b'"k"']), {})

    assert answer.brief == (400, ProblemKind.INVALID_KEY, False)
    assert (calls, backend.ledger.rows()) == ([], [])


@pytest.mark.parametrize("key", UNUSUAL)
async def test_any_legal_key_is_one_operation(backend: Backend, key: bytes) -> None:
    app = backend.protect(LedgerApp(backend))

    answers = [await send(app, Request(key=key)) for _ in range(2)]

    assert [answer.replayed for answer in answers] == [False, True]
    assert len(backend.ledger.rows()) == 1


async def test_parameters_of_the_key_and_spaces_around_it_do_not_count(backend: Backend) -> None:
    app = backend.protect(LedgerApp(backend))

    keys = (b'"k"', b'"k";v=1', b'  "k"  ')
    answers = [await send(app, Request(key=key)) for key in keys]

    assert [answer.replayed for answer in answers] == [False, True, True]
    assert len(backend.ledger.rows()) == 1


async def test_the_letter_case_of_a_key_counts(backend: Backend) -> None:
    app = backend.protect(LedgerApp(backend))

    for key in (b'"K"', b'"k"'):
        assert (await send(app, Request(key=key))).replayed is False
    assert len(backend.ledger.rows()) == 2


async def test_a_bare_key_is_the_quoted_one_where_bare_keys_are_accepted(backend: Backend) -> None:
    app = backend.protect(LedgerApp(backend), accept_unquoted=True)

    answers = [await send(app, Request(key=key)) for key in (b"k-1", b'"k-1"')]

    assert [answer.replayed for answer in answers] == [False, True]
    assert len(backend.ledger.rows()) == 1


async def test_a_refusal_links_to_the_page_of_the_user(sqlite: Backend) -> None:
    app = sqlite.protect(LedgerApp(sqlite), required=True, documentation="https://example.org/k")

    answer = await send(app, Request(key=None))

    assert json.loads(answer.body)["documentation"] == "https://example.org/k"
    assert answer.first(b"link") == b'<https://example.org/k>; rel="describedby"; type="text/html"'
    assert answer.first(b"content-length") == str(len(answer.body)).encode()
