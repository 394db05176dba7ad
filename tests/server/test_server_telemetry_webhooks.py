"""A retention that is far too short is noticed by what the sender says of its own deliveries.

End to end: the real middlewares on a file, with a clock that is moved on. The source understates
for how long its sender delivers again, which no check at the start can see.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator

import pytest
from starlette.types import ASGIApp

from replayfloor.retention import Sender
from replayfloor.server import EventKind, Route, ServerEvent
from replayfloor.server.telemetry import OpenTelemetryEvents
from replayfloor.server.webhooks.counts import UNRECOGNISED_MIN
from replayfloor.server.webhooks.key import PastHorizon
from replayfloor.server.webhooks.route import webhook
from replayfloor.server.webhooks.source import WebhookSource
from server.apps import LedgerApp
from server.backends import Backend
from server.moments import HOUR_S, Moments, moments_of
from server.test_server_telemetry import Observed, having
from server.wire import Request, send

pytestmark = pytest.mark.anyio

SHOP = WebhookSource(
    "shop",
    event_id="body /id",
    attempt="header X-Attempt",
    first_attempt=1,
    sender=Sender("shop", automatic_retry="30m"),
)
LATE_S = 2 * HOUR_S
"""When the second attempt comes: the answer to the first was lost on its way."""


@pytest.fixture
async def moments(asgi_sqlite: Backend, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Moments]:
    """A clock for the middleware and its store."""
    async with moments_of(asgi_sqlite, monkeypatch) as made:
        yield made


@pytest.fixture
async def moments_of_both(
    sqlite: Backend, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Moments]:
    """The same, for the blocking middleware too."""
    async with moments_of(sqlite, monkeypatch) as made:
        yield made


def receiver(
    moments: Moments, retention_s: float, listener: OpenTelemetryEvents | None, mode: PastHorizon
) -> tuple[ASGIApp, LedgerApp]:
    """Return a receiver, and its application."""
    inner = LedgerApp(moments.backend, effects="atomic", status=200)
    key = webhook(SHOP, verify=None, past_horizon=mode)
    route = Route("POST", "/hooks/shop", effects="atomic", key=key)
    return moments.worker(inner, routes=[route], retention=retention_s, on_event=listener), inner


def attempt(event: int, number: int) -> Request:
    """Return a delivery of an event."""
    body = json.dumps({"id": f"evt_{event}"}).encode()
    headers = [(b"x-attempt", str(number).encode())]
    return Request(path="/hooks/shop", key=None, headers=headers, chunks=[body])


async def deliver_twice(app: ASGIApp, moments: Moments, *, dropped: bool) -> None:
    """Deliver as many events as are needed, and each again; receipts may be gone meanwhile."""
    for event in range(UNRECOGNISED_MIN):
        assert (await send(app, attempt(event, 1))).status == 200
    moments.at(LATE_S)
    if dropped:
        moments.drop_receipts()
    for event in range(UNRECOGNISED_MIN):
        assert (await send(app, attempt(event, 2))).status == 200


@pytest.mark.parametrize("mode", ["handler", "acknowledge"])
async def test_redeliveries_after_their_receipts_have_gone_are_told(
    moments_of_both: Moments, mode: PastHorizon
) -> None:
    """Handed on as past its horizon if it is still seen that there was one, and as new if not."""
    moments, observed, told = moments_of_both, Observed(), list[ServerEvent]()
    listener = OpenTelemetryEvents(observed.provider, next=told.append)
    app, _ = receiver(moments, HOUR_S, listener, mode)

    await deliver_twice(app, moments, dropped=mode == "acknowledge")

    assert len(moments.backend.ledger.rows()) == 2 * UNRECOGNISED_MIN
    (warning,) = (each for each in told if each.kind is EventKind.RETRIES_UNRECOGNISED)
    assert told.index(warning) < len(told) - 1
    assert "replayfloor policy check" in warning.detail
    assert observed.counts("retries.unrecognised") == {having(source="shop"): 1}
    assert observed.counts("deliveries") == {
        having(source="shop", delivery__outcome="first", retried=False): UNRECOGNISED_MIN,
        having(source="shop", delivery__outcome="first", retried=True): UNRECOGNISED_MIN,
    }


async def test_it_is_logged_where_nobody_listens(
    moments: Moments, caplog: pytest.LogCaptureFixture
) -> None:
    app, _ = receiver(moments, HOUR_S, None, "handler")

    with caplog.at_level(logging.WARNING, "replayfloor.server"):
        await deliver_twice(app, moments, dropped=False)

    (line,) = (each for each in caplog.messages if "retries-unrecognised" in each)
    assert "shop: 20 or more deliveries" in line


async def test_redeliveries_that_are_recognised_are_counted_as_duplicates(
    moments: Moments,
) -> None:
    observed, told = Observed(), list[ServerEvent]()
    listener = OpenTelemetryEvents(observed.provider, next=told.append)
    app, _ = receiver(moments, 24 * HOUR_S, listener, "handler")

    await deliver_twice(app, moments, dropped=False)

    assert len(moments.backend.ledger.rows()) == UNRECOGNISED_MIN
    assert all(each.kind is not EventKind.RETRIES_UNRECOGNISED for each in told)
    duplicates = having(source="shop", delivery__outcome="duplicate", retried=True)
    assert observed.counts("deliveries")[duplicates] == UNRECOGNISED_MIN


async def test_retries_of_what_failed_here_are_no_sign_of_anything(moments: Moments) -> None:
    told = list[ServerEvent]()
    listener = OpenTelemetryEvents(Observed().provider, next=told.append)
    app, inner = receiver(moments, 24 * HOUR_S, listener, "handler")
    inner.status = 503
    for event in range(UNRECOGNISED_MIN):
        assert (await send(app, attempt(event, 1))).status == 503
    inner.status = 200
    for event in range(UNRECOGNISED_MIN):
        assert (await send(app, attempt(event, 2))).status == 200

    assert len(moments.backend.ledger.rows()) == UNRECOGNISED_MIN
    assert all(each.kind is not EventKind.RETRIES_UNRECOGNISED for each in told)
