"""What a route that receives webhooks is made of, and what is checked when it is made."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from replayfloor.core.errors import ConfigurationError
from replayfloor.retention import HorizonUnknown, InboundPolicy, RetentionTooShort, Sender
from replayfloor.server import Route
from replayfloor.server.policy import AfterExpiry, Effects, Options, Outage
from replayfloor.server.webhooks.answers import weight
from replayfloor.server.webhooks.delivery import Delivery
from replayfloor.server.webhooks.horizons import check_webhooks, require_horizon
from replayfloor.server.webhooks.presets import preset
from replayfloor.server.webhooks.route import webhook
from replayfloor.server.webhooks.source import WebhookSource

DAY_S = 86_400.0
SHOP = WebhookSource(
    "shop",
    "body /id",
    attempt="header x-attempt",
    busy_status=503,
    sender=Sender("shop-inc", automatic_retry="3d"),
)


def accept(_delivery: Delivery) -> None:
    """Take any delivery for its sender's."""


# -- the route ------------------------------------------------------------------------------------


def test_a_route_that_receives_has_the_options_of_what_is_delivered_until_it_succeeds() -> None:
    defaults = Options(
        required=True,
        store=frozenset({500}),
        free=frozenset({404}),
        on_outage=Outage.EXECUTE,
        quiet=True,
        retention_ms=1,
    )
    after = Route("POST", "/", effects="repeatable", lease_s=5, wait_for_s=2, key=webhook(SHOP))
    first = Route("POST", "/", effects="repeatable", key=webhook(SHOP, ack="first"))

    options = after.apply(defaults)

    assert options.webhook == after.key
    assert (options.required, options.store, options.free) == (False, frozenset(), frozenset())
    assert (options.on_outage, options.quiet) == (Outage.REFUSE, False)
    assert (options.until_success, options.busy_status) == (True, 503)
    assert (options.effects, options.worker_effects) == (Effects.REPEATABLE, None)
    assert (options.lease_ms, options.wait_ms) == (5000, 2000)
    assert options.after_expiry is AfterExpiry.ACKNOWLEDGE
    assert first.apply(defaults).effects is Effects.ATOMIC
    assert first.apply(defaults).worker_effects is Effects.REPEATABLE


def test_what_becomes_of_events_past_their_horizon_is_the_routes_choice() -> None:
    route = Route("POST", "/", key=webhook(SHOP, past_horizon="handler"))

    assert route.apply(Options()).after_expiry is AfterExpiry.HANDLER


def test_an_event_cannot_be_kept_secret_from_its_own_sender() -> None:
    with pytest.raises(ConfigurationError, match="sensitive"):
        Route("POST", "/", sensitive=True, key=webhook(SHOP))


@pytest.mark.parametrize(
    "wrong",
    [
        {"source": "nobody-known"},
        {"source": 7},
        {"verify": "whsec_1"},
        {"ack": "never"},
        {"past_horizon": "execute"},
        {"endpoint": ""},
        {"ordered": True},
        {"ordered": True, "ack": "first"},
        {"ordered": True, "source": replace(SHOP, subject="body /of")},
    ],
    ids=str,
)
def test_what_contradicts_itself_is_refused(wrong: dict[str, Any]) -> None:
    given: dict[str, Any] = {"source": SHOP, "verify": accept, **wrong}
    with pytest.raises(ConfigurationError):
        webhook(**given)


def test_a_route_takes_what_webhook_returns_and_nothing_else() -> None:
    name: Any = "stripe"
    with pytest.raises(ConfigurationError, match="webhook"):
        Route("POST", "/", key=name)


def test_an_endpoint_with_a_name_may_move_and_one_without_is_its_path() -> None:
    assert webhook(SHOP, endpoint="pay").scope("/a") == webhook(SHOP, endpoint="pay").scope("/b")
    assert webhook(SHOP).scope("/a") != webhook(SHOP).scope("/b")


@pytest.mark.parametrize("spelled", ["/hooks%2Fshop", "/hooks/sho%70", "/hooks/shop%0A"])
def test_an_endpoint_is_a_path_however_it_is_spelled(spelled: str) -> None:
    assert webhook(SHOP).scope(spelled) == webhook(SHOP).scope("/hooks/shop")
    assert webhook(SHOP).scope("/a%252Fb") != webhook(SHOP).scope("/a%2Fb")


def test_a_source_without_a_horizon_has_no_sender_for_a_policy() -> None:
    assert webhook(SHOP).sender == SHOP.sender
    with pytest.raises(HorizonUnknown, match="shop"):
        _ = webhook(replace(SHOP, sender=None)).sender


# -- at start-up ----------------------------------------------------------------------------------


def policy(*names: str) -> InboundPolicy:
    """Return a policy that says 1 day of each sender."""
    senders = tuple(Sender(name, automatic_retry="1d") for name in names)
    return InboundPolicy("hooks", senders=senders)


def test_a_policy_has_the_last_word_on_the_senders_that_it_names_and_on_no_other() -> None:
    for name in ("shop", "shop-inc"):
        require_horizon(SHOP, DAY_S, policy("other", name))
    for other in (policy("other"), None):
        with pytest.raises(RetentionTooShort):
            require_horizon(SHOP, DAY_S, other)
    require_horizon(SHOP, 3 * DAY_S, None)
    require_horizon(SHOP, None, None)


def test_a_horizon_that_nobody_knows_is_refused_unless_receipts_are_kept_for_good() -> None:
    unknown = replace(SHOP, sender=None)

    with pytest.raises(HorizonUnknown):
        require_horizon(unknown, 1000 * DAY_S, policy("other"))
    require_horizon(unknown, 1000 * DAY_S, policy("shop"))
    require_horizon(unknown, None, None)


def test_only_of_a_route_of_which_nobody_spoke_it_is_said_that_it_verifies_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    routes = [
        Route("POST", "/pay"),
        Route("POST", "/said", key=webhook(SHOP, verify=None)),
        Route("POST", "/verified", key=webhook(preset("stripe"), verify=accept)),
        Route("POST", "/unset", key=webhook(SHOP)),
    ]
    with caplog.at_level(logging.WARNING):
        check_webhooks(routes, None, None)

    (record,) = caplog.records
    assert "/unset" in record.getMessage()


@pytest.mark.parametrize(
    ("lighter", "heavier"), [(200, 302), (204, 410), (404, 409), (422, 429), (400, 500), (410, 503)]
)
def test_a_success_counts_less_than_a_failure_and_that_less_than_one_that_passes(
    lighter: int, heavier: int
) -> None:
    assert weight(lighter) < weight(heavier)
