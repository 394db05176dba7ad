"""Presets: what is read from a delivery of each sender, over redeliveries, and who is refused."""

from __future__ import annotations

import pytest

from replayfloor.core.errors import ConfigurationError
from replayfloor.retention.providers import providers
from replayfloor.server.webhooks.delivery import Delivery, NoEventId, UnidentifiedEvent
from replayfloor.server.webhooks.presets import preset, preset_names
from replayfloor.server.webhooks.source import HANDSHAKE_MARK, Attempt
from webhooks.payloads_cases import Case, case, cases, delivery, told

EVERY = [pytest.param(each, id=each.name) for each in cases()]


def ids(name: str, given: Delivery) -> list[str]:
    return [event.id for event in preset(name).events(given)]


def test_each_preset_has_a_recorded_payload() -> None:
    assert [each.name for each in cases()] == list(preset_names())


@pytest.mark.parametrize("each", EVERY)
def test_the_id_and_the_time_of_each_event_are_found(each: Case) -> None:
    found = preset(each.name).events(each.first)
    assert [(event.id, event.occurred_ms) for event in found] == each.events


@pytest.mark.parametrize("each", EVERY)
def test_a_redelivery_is_the_same_event_whatever_changed_around_it(each: Case) -> None:
    assert each.redelivery != each.first
    first, again = (preset(each.name).events(one) for one in (each.first, each.redelivery))
    assert [(event.id, event.compared) for event in again] == [
        (event.id, event.compared) for event in first
    ]


@pytest.mark.parametrize("each", EVERY)
def test_another_event_of_equal_content_is_another_event(each: Case) -> None:
    first, other = (preset(each.name).events(one) for one in (each.first, each.other))
    assert other[0].id != first[0].id
    assert [event.id for event in other[1:]] == [event.id for event in first[1:]]


@pytest.mark.parametrize("each", EVERY)
def test_how_long_it_is_delivered_again_and_when_an_answer_is_due_are_known(each: Case) -> None:
    source = preset(each.name)
    assert source.sender is not None
    seconds = {term.name.value: term.seconds for term in source.sender.terms}
    assert seconds == {
        "automatic_retry": each.content["automatic_retry_s"],
        "manual_resend": each.content["manual_resend_s"],
    }
    assert source.ack_deadline_s == each.content["ack_deadline_s"]
    assert source.busy_status == each.content.get("busy_status", 409)


@pytest.mark.parametrize("each", EVERY)
def test_whether_it_is_a_retry_is_told_where_the_sender_tells_it(each: Case) -> None:
    seen = each.content.get("retry_seen", {"first": None, "redelivery": None})
    source = preset(each.name)
    assert source.is_retry(each.first) is seen["first"]
    assert source.is_retry(each.redelivery) is seen["redelivery"]


@pytest.mark.parametrize("each", EVERY)
def test_a_delivery_without_its_id_is_refused_and_nothing_of_it_is_told(each: Case) -> None:
    source = preset(each.name)
    secret = "4242424242424242"
    bare = told({"events": [{"x": secret}], "notificationItems": [{"x": secret}], "x": secret})
    with pytest.raises(UnidentifiedEvent) as refused:
        source.events(bare)
    assert each.name in str(refused.value)
    assert secret not in str(refused.value)


def test_adyen_tells_a_failure_from_a_success_of_the_same_payment() -> None:
    item = case("adyen").content["body"]["notificationItems"][0]["NotificationRequestItem"]
    failed = {"NotificationRequestItem": {**item, "success": "false"}}
    both = told({"notificationItems": [{"NotificationRequestItem": item}, failed]})
    assert len(set(ids("adyen", both))) == 2


def test_shopify_tells_two_topics_of_one_event_apart() -> None:
    first, other = case("shopify").first, case("shopify").other
    name = "X-Shopify-Event-Id"
    assert first.header(name) == other.header(name)
    assert ids("shopify", first) != ids("shopify", other)


def test_a_stripe_event_of_the_second_api_tells_its_time_as_text() -> None:
    thin = told({"id": "evt_1", "created": "2026-11-30T10:00:00.000Z", "type": "v1.x"})
    assert preset("stripe").events(thin)[0].occurred_ms == 1_796_032_800_000


def test_the_time_of_an_attempt_is_never_that_of_the_event() -> None:
    for name in ("svix", "openai", "github", "razorpay"):
        assert preset(name).event_time is None
    event = told({"type": "x"}, {"webhook-id": "msg_1", "webhook-timestamp": "1796032801"})
    assert preset("standard-webhooks").events(event)[0].occurred_ms is None
    assert preset("standard-webhooks").attempt_of(event) == Attempt(None, 1_796_032_801_000)


def test_a_time_that_only_third_parties_tell_of_is_not_gone_by() -> None:
    assert preset("sendgrid").event_time is None


def test_a_standard_webhooks_id_is_taken_as_it_is_and_not_as_a_structured_field() -> None:
    quoted = delivery(headers={"webhook-id": '"msg_1"'})
    bare = delivery(headers={"webhook-id": "msg_1"})
    assert ids("standard-webhooks", quoted) != ids("standard-webhooks", bare) == ["msg_1"]


def test_an_id_in_a_header_is_found_though_the_body_is_no_json() -> None:
    event = delivery(b"payload=%7B%7D", {"X-GitHub-Delivery": "72d3162e"})
    assert ids("github", event) == ["72d3162e"]


def test_an_id_in_a_header_is_found_though_the_time_is_in_a_body_that_cannot_be_read() -> None:
    event = delivery(b"<xml/>", {"webhook-id": "msg_1"})
    (found,) = preset("standard-webhooks").events(event)
    assert (found.id, found.occurred_ms) == ("msg_1", None)


def test_the_handshake_of_slack_reaches_the_application_and_is_no_event() -> None:
    asked = told({"token": "t", "challenge": "3eZbrw1a", "type": "url_verification"})
    assert ids("slack", asked) == [HANDSHAKE_MARK + "3eZbrw1a"]
    event = told({"event_id": "Ev1", "challenge": "3eZbrw1a"})
    assert ids("slack", event) == ["Ev1"]


def test_a_slack_event_whose_id_is_unusable_is_no_handshake() -> None:
    with pytest.raises(UnidentifiedEvent):
        ids("slack", told({"event_id": None, "challenge": "3eZbrw1a"}))


def test_a_notification_of_xero_without_events_tells_of_none() -> None:
    intent = told({"events": [], "firstEventSequence": 0, "lastEventSequence": 0})
    assert ids("xero", intent) == []


# -- who is refused -------------------------------------------------------------------------------

WITHOUT_ID = {
    "braintree": "none was found",
    "checkout": "no source tells",
    "coinbase-commerce": "none was found",
    "flutterwave": "no source tells",
    "modern-treasury": "its name was not found",
    "mollie": "next-generation",
    "paystack": "none was found",
    "plaid": "webhook_code",
    "twilio-events": "not found",
    "wise": "retries keep it",
    "xendit": "payment_id",
}
NOT_SOLID = ["anthropic", "increase", "lithic", "mercado-pago", "mollie-next", "twilio"]


@pytest.mark.parametrize(("name", "reason"), WITHOUT_ID.items())
def test_a_sender_without_an_id_is_refused_with_the_reason_and_the_ways_out(
    name: str, reason: str
) -> None:
    with pytest.raises(NoEventId) as refused:
        preset(name)
    text = str(refused.value)
    assert reason in text
    assert "state" in text
    assert f'WebhookSource("{name}"' in text


@pytest.mark.parametrize("name", NOT_SOLID)
def test_a_row_that_is_not_solid_is_refused_with_the_source_to_write(name: str) -> None:
    with pytest.raises(
        ConfigurationError, match=f'WebhookSource\\("{name}", event_id="'
    ) as refused:
        preset(name)
    assert not isinstance(refused.value, NoEventId)


def test_every_inbound_row_is_a_preset_or_refused() -> None:
    rows = {row.name for row in providers("inbound")}
    assert rows == {*preset_names(), *WITHOUT_ID, *NOT_SOLID}


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'stripe'"):
        preset("stirpe")


@pytest.mark.parametrize("name", ["sqs", "my-shop"])
def test_a_name_far_from_all_is_refused_with_all_of_them(name: str) -> None:
    with pytest.raises(ConfigurationError, match="known are adyen"):
        preset(name)
