"""What is kept at rest, and what is logged: no key, owner or payload; no answer if it is secret.

Broken by many: whole responses and raw keys in plain text, in the store and in every log line.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

import pytest
from cryptography.fernet import Fernet, MultiFernet

from replayfloor.core.problem import ProblemKind
from replayfloor.server import EventKind, Route, ServerEvent
from server.apps import Killed, LedgerApp, nothing, raising
from server.at_rest import at_rest
from server.backends import Backend, EffectsOption
from server.doubles import unavailable, watched_receipts
from server.wire import Request, send

pytestmark = pytest.mark.anyio

FRESH, REPLAY = (201, None, False), (201, None, True)
NOT_KEPT = (409, ProblemKind.ANSWER_NOT_KEPT, False)
SECRET = b"4111-1111-1111-1111"
HEADERS: Sequence[tuple[bytes, bytes]] = (
    (b"content-type", b"text/plain"),
    (b"location", b"/cards/1"),
    (b"x-secret", b"h-" + SECRET),
)
REQUEST = Request(key=b'"raw-key-in-plain"', chunks=(b'{"payload": "in-plain"}',))
RAW = (b"raw-key-in-plain", b"owner-in-plain", b"payload", SECRET)
every_effect = pytest.mark.parametrize("effects", ["atomic", "external", "repeatable"])


def secretive(backend: Backend, effects: EffectsOption = "external") -> LedgerApp:
    """Return an application whose answers hold a secret, in a header and in the body."""
    return LedgerApp(backend, effects, headers=HEADERS, bodies=(b"card ", SECRET))


def found_in(held: bytes) -> list[bytes]:
    """Return the secrets that are there for all to read."""
    return [each for each in RAW if each in held]


@every_effect
async def test_of_a_sensitive_answer_only_the_address_of_the_result_is_kept(
    backend: Backend, effects: EffectsOption
) -> None:
    routes = [Route("POST", "/pay", effects=effects, sensitive=True)]
    app = backend.protect(secretive(backend, effects), routes=routes)

    first, again = [await send(app) for _ in range(2)]

    assert (first.brief, first.body) == (FRESH, b"card " + SECRET)
    assert again.brief == NOT_KEPT
    told = json.loads(again.body)
    assert (told["original_status"], told["location"]) == (201, "/cards/1")
    held = at_rest(backend)
    assert found_in(held) == []
    assert b"/cards/1" in held
    assert len(backend.ledger.rows()) == 1


async def test_elsewhere_the_same_answer_is_kept_and_replayed(backend: Backend) -> None:
    """That a dump would show what is in it."""
    app = backend.protect(secretive(backend), routes=[Route("POST", "/other", sensitive=True)])

    answers = [await send(app) for _ in range(2)]

    assert [each.brief for each in answers] == [FRESH, REPLAY]
    assert SECRET in at_rest(backend)


@every_effect
async def test_an_enciphered_answer_is_replayed_whole_and_can_be_read_nowhere(
    backend: Backend, effects: EffectsOption
) -> None:
    cipher = Fernet(Fernet.generate_key())
    app = backend.protect(secretive(backend, effects), effects=effects, response_cipher=cipher)

    first, again = [await send(app) for _ in range(2)]
    # Without the lock, whose place may hold it as well.
    elsewhere = await send(
        backend.protect(nobody(backend), effects=effects, response_cipher=cipher, lock="local")
    )

    assert (first.brief, again.brief, elsewhere.brief) == (FRESH, REPLAY, REPLAY)
    assert first.body == again.body == elsewhere.body == b"card " + SECRET
    assert again.first(b"x-secret") == b"h-" + SECRET
    held = at_rest(backend)
    assert found_in(held) == []
    assert b"/cards/1" not in held
    assert len(backend.ledger.rows()) == 1


def nobody(backend: Backend) -> LedgerApp:
    """Return an application that must not be called."""
    return LedgerApp(backend, before=raising(AssertionError("it was executed again")))


async def test_after_a_rotation_old_receipts_are_read_with_the_old_key(backend: Backend) -> None:
    old, new = Fernet(Fernet.generate_key()), Fernet(Fernet.generate_key())
    before = backend.protect(secretive(backend), response_cipher=MultiFernet([old]))
    after = backend.protect(secretive(backend), response_cipher=MultiFernet([new, old]))
    later = backend.protect(secretive(backend), response_cipher=MultiFernet([new]))
    second = Request(key=b'"second"')

    assert (await send(before)).brief == FRESH
    assert (await send(after)).brief == REPLAY
    assert [(await send(after, second)).brief for _ in range(2)] == [FRESH, REPLAY]
    assert (await send(later, second)).brief == REPLAY
    assert len(backend.ledger.rows()) == 2


@pytest.mark.parametrize("cipher", ["another key", "none at all"])
async def test_an_answer_that_cannot_be_deciphered_is_not_executed_again_and_is_logged(
    backend: Backend, cipher: str, caplog: pytest.LogCaptureFixture
) -> None:
    key = Fernet.generate_key()
    await send(backend.protect(secretive(backend), response_cipher=Fernet(key)))
    other = None if cipher == "none at all" else Fernet(Fernet.generate_key())

    app = backend.protect(nobody(backend), response_cipher=other)
    again = await send(app)

    assert again.brief == NOT_KEPT
    assert json.loads(again.body)["original_status"] == 201
    assert "cannot be opened" in caplog.text
    assert key.decode() not in caplog.text
    assert len(backend.ledger.rows()) == 1
    # Once the key is back, so is the answer.
    cured = backend.protect(nobody(backend), response_cipher=Fernet(key))
    assert (await send(cured)).brief == REPLAY


async def test_a_tombstone_and_another_request_are_known_under_a_cipher_too(
    backend: Backend,
) -> None:
    cipher = Fernet(Fernet.generate_key())
    app = backend.protect(
        LedgerApp(backend, headers=HEADERS, bodies=(b"x" * 200,)),
        response_cipher=cipher,
        response_bytes_max=100,
    )

    first, again = [await send(app) for _ in range(2)]
    other = await send(app, Request(chunks=(b"other",)))

    assert (first.brief, again.brief) == (FRESH, NOT_KEPT)
    assert json.loads(again.body)["location"] == "/cards/1"
    assert other.problem is ProblemKind.KEY_REUSED


async def test_what_a_claim_in_flight_leaves_at_rest_is_no_key_and_no_payload(
    backend: Backend,
) -> None:
    inner = LedgerApp(backend, after=raising(Killed()))
    app = backend.protect(inner, principal=lambda _scope: "owner-in-plain")

    with pytest.raises(Killed):
        await send(app, REQUEST)

    assert found_in(at_rest(backend)) == []


@every_effect
async def test_no_key_owner_or_payload_is_at_rest_logged_or_told(
    backend: Backend, effects: EffectsOption, caplog: pytest.LogCaptureFixture
) -> None:
    """On every path that says something: first, replay, reuse, refusals, an outage, a failure."""
    caplog.set_level(logging.DEBUG, "replayfloor")
    events: list[ServerEvent] = []
    receipts = watched_receipts(backend.receipts())
    inner = LedgerApp(backend, effects)
    app = backend.protect(
        inner,
        effects=effects,
        receipts=receipts,
        principal=lambda _scope: "owner-in-plain",
        on_event=events.append,
        body_bytes_max=100,
    )

    await send(app, REQUEST)
    for request in (REQUEST, REQUEST.but(path="/other"), REQUEST.but(chunks=(b"payload" * 20,))):
        await send(app, request)
    receipts.before["claim"] = unavailable(times=2)
    await send(app, REQUEST.but(key=b'"another-raw-key-in-plain"'))
    inner.after = raising(LookupError("a failure"))
    await send(app, REQUEST.but(key=b'"a-third-raw-key-in-plain"'))
    inner.after = nothing

    assert EventKind.STORE_UNAVAILABLE in [event.kind for event in events]
    told = " ".join(map(str, events)) + caplog.text
    assert found_in(at_rest(backend) + told.encode()) == []
