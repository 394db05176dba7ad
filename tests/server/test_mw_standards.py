"""What the draft and its RFCs say of the field and its refusals, through the whole middleware.

The parser alone is tested in core/test_key.py, with the same table; here it is what a request gets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from redis import Redis
from starlette.types import Scope

from core.test_key import VECTORS
from replayfloor.core.key import write_key
from replayfloor.core.problem import ProblemKind
from server.apps import LedgerApp
from server.backends import Backend
from server.doubles import watched_lock, watched_receipts
from server.wire import Request, send

pytestmark = pytest.mark.anyio

FRESH, REPLAY = (201, None, False), (201, None, True)
INVALID = (400, ProblemKind.INVALID_KEY, False)
STRING = {*range(0x20, 0x22), *range(0x23, 0x5C), *range(0x5D, 0x7F)}
"""The bytes of a String that need no escape (RFC 9651, 3.3.3)."""

HOSTILE: Sequence[bytes] = (
    b"*",
    b"?[a-z]",
    b"{slot}",
    b"replayfloor:00000000000000000000000000000000",
    b":::",
    b"../../etc",
    b"%00%0d%0aFLUSHALL",
    rb"\"\\",
    b"'; drop table ledger; --",
    b"%s %(id)s $1",
    b"~" * 255,
    bytes(sorted(STRING - {0x20})) + b" .",
)


@pytest.mark.parametrize(("raw", "strict", "lenient"), VECTORS)
@pytest.mark.parametrize("unquoted", [False, True])
async def test_a_field_is_the_key_that_it_says_or_is_refused(
    sqlite: Backend, raw: bytes, strict: str | None, lenient: str | None, unquoted: bool
) -> None:
    key = lenient if unquoted else strict
    app = sqlite.protect(LedgerApp(sqlite), accept_unquoted=unquoted)

    answer = await send(app, Request(key=raw))

    assert answer.brief == (INVALID if key is None else FRESH)
    assert len(sqlite.ledger.rows()) == (0 if key is None else 1)
    if key is not None:
        assert (await send(app, Request(key=write_key(key)))).brief == REPLAY


async def test_no_refused_field_reaches_a_store(backend: Backend) -> None:
    """Neither an operation nor a connection: the format is checked before anything else."""
    receipts, lock = watched_receipts(backend.receipts()), watched_lock(backend.lock())
    app = backend.protect(LedgerApp(backend), receipts=receipts, lock=lock)
    refused = [raw for raw, key, _lenient in VECTORS if key is None]

    answers = [await send(app, Request(key=raw)) for raw in refused]

    assert {each.brief for each in answers} == {INVALID}
    assert (receipts.calls, lock.calls, backend.ledger.rows()) == ([], [], [])


async def test_of_all_bytes_a_key_has_those_of_a_string(sqlite: Backend) -> None:
    app = sqlite.protect(LedgerApp(sqlite))

    taken = {
        byte
        for byte in range(256)
        if (await send(app, Request(key=b'"x' + bytes([byte]) + b'"'))).brief == FRESH
    }

    assert taken == STRING
    assert len(sqlite.ledger.rows()) == len(STRING)


@pytest.mark.parametrize(
    "key", [b"8e03978e-40d5-43e8-bc93-6894a57f9324", b"clkyoesmbgybucifusbbtdsbohtyuuwz"]
)
async def test_the_examples_of_the_draft_are_taken_as_they_stand(
    backend: Backend, key: bytes
) -> None:
    app = backend.protect(LedgerApp(backend), required=True)

    answers = [await send(app, Request(key=b'"%s"' % key)) for _ in range(2)]

    assert [each.brief for each in answers] == [FRESH, REPLAY]
    assert len(backend.ledger.rows()) == 1


@pytest.mark.parametrize(
    "uuid", [b"8e03978e-40d5-43e8-bc93-6894a57f9324", b"017f22e2-79b0-7cc3-98c4-dc0c0c07398f"]
)
async def test_a_uuid_in_capitals_is_another_key(backend: Backend, uuid: bytes) -> None:
    """The same UUID (RFC 9562, 4), but keys are compared byte for byte."""
    app = backend.protect(LedgerApp(backend))

    answers = [await send(app, Request(key=b'"%s"' % each)) for each in (uuid, uuid.upper())]

    assert [each.brief for each in answers] == [FRESH, FRESH]
    assert len(backend.ledger.rows()) == 2


async def test_hostile_keys_and_owners_are_operations_like_any_other(backend: Backend) -> None:
    def owner(scope: Scope) -> str:
        (user,) = (value for name, value in scope["headers"] if name == b"x-user")
        return bytes(user).decode("latin-1")

    app = backend.protect(LedgerApp(backend), principal=owner)
    requests = [
        Request(key=b'"%s"' % key, headers=[(b"x-user", user)])
        for key in HOSTILE
        for user in (b"one", b"*{}:'\x00")
    ]

    first = [(await send(app, each)).brief for each in requests]
    again = [(await send(app, each)).brief for each in requests]

    assert first == [FRESH] * len(requests)
    assert again == [REPLAY] * len(requests)
    assert len(backend.ledger.rows()) == len(requests)


async def test_whatever_the_key_its_name_in_redis_is_a_digest(postgres: Backend) -> None:
    app = postgres.protect(LedgerApp(postgres))

    for key in HOSTILE:
        await send(app, Request(key=b'"%s"' % key))

    with Redis.from_url(postgres.lock_url) as client:
        names = [bytes(name) for name in client.scan_iter("*")]
    assert len(names) == len(HOSTILE)
    assert all(re.fullmatch(rb"replayfloor:[0-9a-f]{32}", name) for name in names)


async def test_the_address_of_the_client_is_no_owner(backend: Backend) -> None:
    """Clients behind one address are told apart by `principal`; without it nobody is."""
    app = backend.protect(LedgerApp(backend))
    forwarded = [(b"x-forwarded-for", b"203.0.113.7"), (b"forwarded", b"for=203.0.113.7")]

    answers = [
        await send(app, Request(headers=[line])) for line in (*forwarded, (b"via", b"1.1 a"))
    ]

    assert [each.brief for each in answers] == [FRESH, REPLAY, REPLAY]
    assert len(backend.ledger.rows()) == 1
