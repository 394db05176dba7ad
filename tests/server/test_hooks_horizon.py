"""How long an event is remembered: for as long as its sender may deliver it again, and after that.

The sequence is that of a payment company which had a retention of 24 h: the event was applied, the
worker died before it answered, and the deploy that followed went wrong. The first retry that got
through came at hour 30; people had it delivered again on day 12 and on day 29.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from replayfloor.core.errors import ConfigurationError
from replayfloor.retention import HorizonUnknown, InboundPolicy, RetentionTooShort, Sender
from replayfloor.server import EventKind, IdempotencyMiddleware, Route, ServerEvent
from replayfloor.server.options import OnEvent
from replayfloor.server.webhooks.key import PastHorizon
from replayfloor.server.webhooks.presets import preset
from replayfloor.server.webhooks.route import webhook
from replayfloor.server.webhooks.verify import StandardWebhooksSignature
from server.backends import Backend
from server.hooks import SHOP, Applying, delivery, receiving
from server.moments import HOUR_S, Moments, moments_of
from server.wire import send

pytestmark = pytest.mark.anyio

DAY_S = 24 * HOUR_S
STRIPE = preset("stripe")
assert STRIPE.sender is not None
POLICY = InboundPolicy("hooks", senders=(STRIPE.sender,), planned_outage="5d")
FRESH, REPLAY = (200, None, False), (200, None, True)


@pytest.fixture
async def moments(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Moments]:
    """All sides and stores."""
    async with moments_of(backend, monkeypatch) as made:
        yield made


def receiver(
    moments: Moments,
    handler: Applying,
    past_horizon: PastHorizon = "acknowledge",
    on_event: OnEvent | None = None,
) -> ASGIApp:
    """Return a worker that goes by the test's time."""
    return receiving(
        handler,
        STRIPE,
        past_horizon=past_horizon,
        receipts=moments.receipts(),
        retention=POLICY,
        on_event=on_event,
    )


async def nobody(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """Serve nothing."""


def test_the_policy_of_stripes_webhooks_is_thirty_days_and_the_outage() -> None:
    assert POLICY.retention_s == 35 * DAY_S


async def test_an_event_is_applied_once_from_hour_0_to_day_29(moments: Moments) -> None:
    backend = moments.backend
    created = moments.start_ms // 1000
    handler = Applying(backend)
    event = delivery("evt_1", created=created)

    first = await send(receiver(moments, handler), event)
    answers = []
    for after_s in (30 * HOUR_S, 12 * DAY_S, 29 * DAY_S):
        moments.at(after_s)
        moments.flush()
        worker = receiver(moments, handler)
        answers.append(await send(worker, event))

    assert first.brief == FRESH
    assert [each.brief for each in answers] == [REPLAY] * 3
    assert backend.ledger.rows() == ["evt_1"]


async def test_without_the_policy_the_same_sequence_applies_it_again(moments: Moments) -> None:
    """What these tests would not notice otherwise: 24 h, chosen against the catalogue, and a source
    that does not tell the time of its events."""
    source = replace(STRIPE, event_time=None)
    chosen = InboundPolicy("hooks", senders=(Sender("stripe", automatic_retry="24h"),))
    handler = Applying(moments.backend)
    for after_s in (0, 30 * HOUR_S):
        moments.at(after_s)
        moments.flush()
        if after_s:
            moments.drop_receipts()
        worker = receiving(handler, source, receipts=moments.receipts(), retention=chosen)
        await send(worker, delivery("evt_1"))

    assert moments.backend.ledger.rows() == ["evt_1"] * 2


async def test_an_event_that_tells_its_time_is_not_applied_again_even_then(
    moments: Moments,
) -> None:
    chosen = InboundPolicy("hooks", senders=(Sender("stripe", automatic_retry="24h"),))
    handler, created = Applying(moments.backend), moments.start_ms // 1000
    statuses: list[int] = []
    for after_s in (0, 30 * HOUR_S):
        moments.at(after_s)
        moments.flush()
        if after_s:
            moments.drop_receipts()
        worker = receiving(handler, STRIPE, receipts=moments.receipts(), retention=chosen)
        statuses.append((await send(worker, delivery("evt_1", created=created))).status)

    assert statuses == [200, 200]
    assert moments.backend.ledger.rows() == ["evt_1"]


def test_a_retention_of_24_hours_is_refused_at_start_up() -> None:
    with pytest.raises(RetentionTooShort, match=r"is 1 d, below the floor of 30 d"):
        made("stripe", retention=DAY_S)
    with pytest.raises(RetentionTooShort, match=r"is 1 d, below the floor of 35 d"):
        made("stripe", retention=DAY_S, policy=POLICY)


async def test_an_event_past_its_horizon_is_acknowledged_recorded_and_not_applied(
    moments: Moments,
) -> None:
    backend, events = moments.backend, list[ServerEvent]()
    handler = Applying(backend)
    late = delivery("evt_late", created=moments.start_ms // 1000)
    moments.at(35 * DAY_S)

    worker = receiver(moments, handler, on_event=events.append)
    answers = [await send(worker, late) for _ in range(2)]

    assert [each.status for each in answers] == [200, 200]
    assert [each.replayed for each in answers] == [False, True]
    assert handler.bodies == []
    assert backend.ledger.rows() == []
    assert EventKind.PAST_HORIZON in [each.kind for each in events]


async def test_an_event_whose_receipt_has_expired_is_not_applied_again(moments: Moments) -> None:
    """Its sender tells no time, so that only the store can know; the row still stands."""
    backend = moments.backend
    source = replace(SHOP, event_time=None)
    handler = Applying(backend)
    first = receiving(handler, source, receipts=moments.receipts(), retention=84 * HOUR_S)
    await send(first, delivery())

    moments.at(84 * HOUR_S + 1)
    moments.flush()
    other = receiving(handler, source, receipts=moments.receipts(), retention=84 * HOUR_S)
    late = await send(other, delivery())

    assert late.status == 200
    assert backend.ledger.rows() == ["evt_1"]


async def test_a_route_may_ask_for_events_past_their_horizon_and_is_told(moments: Moments) -> None:
    handler = Applying(moments.backend)
    late = delivery("evt_late", created=moments.start_ms // 1000)
    moments.at(35 * DAY_S)

    worker = receiver(moments, handler, "handler")
    answer = await send(worker, late)
    moments.at(0)
    young = await send(
        receiver(moments, handler, "handler"),
        delivery("evt_new", created=moments.start_ms // 1000),
    )

    assert (answer.brief, young.brief) == (FRESH, FRESH)
    assert handler.past == [True, False]


async def test_the_time_of_an_attempt_is_not_the_time_of_its_event(moments: Moments) -> None:
    """Standard Webhooks: the header's time is new with each attempt, and says nothing of age."""
    handler = Applying(moments.backend)
    moments.at(30 * DAY_S)
    source = preset("standard-webhooks")
    now = str(moments.now_ms // 1000).encode()
    request = delivery("x", (b"webhook-id", b"msg_1"), (b"webhook-timestamp", now))

    policy = InboundPolicy("hooks", senders=(Sender("standard-webhooks", automatic_retry="76h"),))
    worker = receiving(handler, source, receipts=moments.receipts(), retention=policy)
    answers = [await send(worker, request) for _ in range(2)]

    assert [each.brief for each in answers] == [FRESH, REPLAY]


# -- at start-up -----------------------------------------------------------------------------------


def made(source: object, **options: object) -> None:
    """Make a middleware with a route that receives from a source."""
    route = Route("POST", "/hooks", key=webhook(source, verify=None))  # type: ignore[arg-type]
    IdempotencyMiddleware(
        nobody,
        receipts="sqlite:////nowhere/receipts.db",
        principal=None,
        routes=[route],
        **options,  # type: ignore[arg-type]
    )


def test_a_sender_of_which_no_horizon_is_known_has_to_be_named_by_the_policy() -> None:
    unknown = replace(SHOP, sender=None)
    chosen = InboundPolicy("hooks", senders=(Sender("shop", automatic_retry="3d"),))

    with pytest.raises(HorizonUnknown, match="shop"):
        made(unknown, retention=100 * DAY_S)
    with pytest.raises(HorizonUnknown):
        made("gocardless", retention=100 * DAY_S)
    made(unknown, retention=chosen)
    made(unknown)


def test_the_longest_of_several_senders_counts() -> None:
    policy = InboundPolicy("hooks", senders=(Sender("shop", automatic_retry="72h"),))

    made(SHOP, retention=policy)
    with pytest.raises(RetentionTooShort, match="stripe"):
        made("stripe", retention=policy)


@pytest.mark.parametrize(
    "option", ["required", "ambiguous", "store", "free", "after_expiry", "exclude", "fingerprint"]
)
def test_an_option_that_webhooks_do_not_have_is_refused(option: str) -> None:
    values: dict[str, Any] = {
        "required": True,
        "ambiguous": "store",
        "store": [500],
        "free": [400],
        "after_expiry": "execute",
        "exclude": ["/a"],
        "fingerprint": "off",
    }
    with pytest.raises(ConfigurationError, match=option):
        Route("POST", "/", key=webhook("stripe"), **{option: values[option]})


def test_a_route_that_verifies_nothing_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    IdempotencyMiddleware(
        nobody,
        receipts="sqlite:////nowhere/receipts.db",
        principal=None,
        routes=[Route("POST", "/hooks", key=webhook("stripe"))],
    )
    assert "verifies nothing" in caplog.text


def test_an_id_in_a_header_that_the_signature_does_not_cover_is_refused() -> None:
    secret = "whsec_" + "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

    with pytest.raises(ConfigurationError, match="header_prefix"):
        webhook("svix", verify=StandardWebhooksSignature(secret))
    webhook("svix", verify=StandardWebhooksSignature(secret, header_prefix="svix"))
    webhook("standard-webhooks", verify=StandardWebhooksSignature(secret))
