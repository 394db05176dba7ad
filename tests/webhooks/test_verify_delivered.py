"""Verification in its place: before the claim, on real stores, counted in a ledger."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from replayfloor.retention import Sender
from replayfloor.server.webhooks.source import WebhookSource
from replayfloor.server.webhooks.verify import StandardWebhooksSignature
from server.backends import Backend, Ledger, Side, sqlite_url
from server.hooks import PATH, Applying, receiving
from server.moments import Moments, moments_of
from server.wire import Request, send
from webhooks.signing import STANDARD_SECRET, STANDARD_SECRET_2, standard

pytestmark = pytest.mark.anyio

WEEK_S = 7 * 24 * 3600.0
SOURCE = WebhookSource(
    "shop", "header webhook-id", sender=Sender("shop", automatic_retry="72h", manual_resend="72h")
)
BODY = json.dumps({"id": "evt_1"}).encode()


@pytest.fixture(params=["asgi", "wsgi"])
async def moments(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Moments]:
    """Both middlewares, on a file of their own, by the test's time."""
    side: Side = request.param
    url = sqlite_url(tmp_path / "receipts.db")
    backend = Backend("sqlite", side, url, "local", Ledger(url))
    backend.ledger.create()
    async with moments_of(backend, monkeypatch) as made:
        yield made
    await backend.close()


def attempt(moments: Moments, secret: str, after_s: int = 0) -> Request:
    """Return an attempt to deliver the event, signed so many seconds after the beginning."""
    at_s = moments.start_ms // 1000 + after_s
    headers = standard(BODY, secret, event_id="msg_1", at_s=at_s)
    return Request(path=PATH, key=None, chunks=(BODY,), headers=headers)


async def test_a_redelivery_after_12_h_is_accepted_and_applied_once(moments: Moments) -> None:
    handler = Applying(moments.backend)
    worker = receiving(
        handler,
        SOURCE,
        verify=StandardWebhooksSignature(STANDARD_SECRET),
        receipts=moments.receipts(),
        retention=WEEK_S,
    )
    first = await send(worker, attempt(moments, STANDARD_SECRET))
    moments.at(12 * 3600)
    second = await send(worker, attempt(moments, STANDARD_SECRET, 12 * 3600))
    copied = await send(worker, attempt(moments, STANDARD_SECRET))

    assert (first.status, second.status, second.replayed) == (200, 200, True)
    assert copied.status == 401
    assert moments.backend.ledger.rows() == ["evt_1"]


async def test_a_forged_delivery_runs_nothing_and_takes_no_key(moments: Moments) -> None:
    """Else whoever guesses ids could have the real events taken for repetitions."""
    handler = Applying(moments.backend)
    worker = receiving(
        handler,
        SOURCE,
        verify=StandardWebhooksSignature(STANDARD_SECRET),
        receipts=moments.receipts(),
        retention=WEEK_S,
    )
    forged = await send(worker, attempt(moments, STANDARD_SECRET_2))
    assert (forged.status, handler.bodies) == (401, [])
    assert b"of another secret" in forged.body

    genuine = await send(worker, attempt(moments, STANDARD_SECRET))

    assert (genuine.status, genuine.replayed) == (200, False)
    assert moments.backend.ledger.rows() == ["evt_1"]
