"""What `on_event` is told: kinds and ids, no key, principal or payload; and it decides nothing."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from replayfloor.server import EventKind, ServerEvent
from server.apps import LedgerApp
from server.backends import Backend, EffectsOption
from server.doubles import unavailable, watched_lock, watched_receipts
from server.wire import Request, send

pytestmark = pytest.mark.anyio

K = EventKind
SECRET = Request(key=b'"secret-key"', chunks=(b"secret-body",))


async def _kinds(backend: Backend, requests: list[Request], inner: LedgerApp) -> list[str]:
    events: list[ServerEvent] = []
    app = backend.protect(inner, effects=inner.effects, on_event=events.append)
    for request in requests:
        await send(app, request)
    assert not any("secret" in str(part) for event in events for part in astuple(event))
    assert all(len(event.receipt_id) == 32 for event in events)
    return [f"{event.kind.value} {event.detail}".strip() for event in events]


@pytest.mark.parametrize("effects", ["atomic", "external"])
async def test_a_first_request_a_replay_and_a_reuse_are_told(
    backend: Backend, effects: EffectsOption
) -> None:
    requests = [SECRET, SECRET, SECRET.but(chunks=(b"secret-other",))]

    told = await _kinds(backend, requests, LedgerApp(backend, effects))

    assert told == ["claimed", "finished 201", "replayed", "refused key-reused"]


@pytest.mark.parametrize("effects", ["atomic", "external"])
async def test_a_freed_key_is_told_with_the_status(
    backend: Backend, effects: EffectsOption
) -> None:
    told = await _kinds(backend, [SECRET], LedgerApp(backend, effects, status=429))

    assert told == ["claimed", "freed 429"]


async def test_every_refusal_of_a_keyed_request_is_told(sqlite: Backend) -> None:
    events: list[ServerEvent] = []
    app = sqlite.protect(
        LedgerApp(sqlite), required=True, body_bytes_max=10, on_event=events.append
    )

    for request in (Request(key=b"bare"), Request(chunks=(b"x" * 11,))):
        await send(app, request)

    told = [(each.kind, each.detail) for each in events]
    assert told == [(K.REFUSED, "invalid-key"), (K.REFUSED, "body-too-large")]


async def test_a_lock_and_a_store_that_are_gone_are_told(backend: Backend) -> None:
    events: list[ServerEvent] = []
    receipts = watched_receipts(backend.receipts())
    receipts.before["finish"] = unavailable(times=2)
    app = backend.protect(
        LedgerApp(backend), receipts=receipts, lock="redis://127.0.0.1:1/0", on_event=events.append
    )

    answer = await send(app)

    kinds = [each.kind for each in events]
    assert answer.brief == (201, None, False)
    assert kinds == [K.LOCK_UNAVAILABLE, K.CLAIMED, K.RECEIPT_LOST]
    assert len(backend.ledger.rows()) == 1


async def test_a_commit_whose_answer_was_lost_is_not_told_as_freed(backend: Backend) -> None:
    events: list[ServerEvent] = []
    receipts = watched_receipts(backend.receipts())
    receipts.after["commit"] = unavailable(times=1)
    app = backend.protect(
        LedgerApp(backend, "atomic"), effects="atomic", receipts=receipts, on_event=events.append
    )

    await send(app)

    assert backend.ledger.rows() == ["atomic"]
    assert K.FREED not in [each.kind for each in events]


@pytest.mark.parametrize("effects", ["atomic", "external"])
async def test_a_listener_that_raises_changes_nothing(
    backend: Backend, effects: EffectsOption
) -> None:
    def listener(event: ServerEvent) -> None:
        raise RuntimeError(event.kind.value)

    lock = watched_lock(backend.lock())
    app = backend.protect(
        LedgerApp(backend, effects), effects=effects, on_event=listener, lock=lock
    )

    answers = [await send(app) for _ in range(2)]

    assert [each.brief for each in answers] == [(201, None, False), (201, None, True)]
    assert len(backend.ledger.rows()) == 1
