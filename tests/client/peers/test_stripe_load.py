"""Retry loops around retry loops: how many requests an outage of Stripe costs, by both loops.

The SDK calls its HTTP client up to 1 + max_network_retries times for one payment, and each of these
calls is one of ours, with up to `attempts_max` attempts. So an outage costs

    (1 + max_network_retries) * attempts_max        requests for one payment: 3 * 4 = 12 here,
    (1 + max_network_retries)                       once the retry budget is used up: 3.

The budget is 500 tokens for an origin, and a retry of ours takes 14: 35 retries in all, whatever
the number of payments. The SDK's own retries are first attempts to us, and are never refused: to
bound these too, give the SDK max_network_retries=0 and leave repeating to the transport.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import stripe

from client.clients import FakeTime
from client.peers.colours import Colour, in_every_colour
from client.peers.stripe_sdk import SDK_CALLS, Shop
from client.peers.stripe_server import Fault, StripeDouble
from client.servers import running
from replayfloor.client import OutcomePending, RetryPolicy
from replayfloor.client.budget_rules import CAPACITY, COST

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

ATTEMPTS = 4
RETRIES_PAID = CAPACITY // COST
PAYMENTS = 10


@pytest.fixture
def shop(colour: Colour, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop whose Stripe loses every reply."""
    monkeypatch.setattr(stripe.HTTPClient, "INITIAL_DELAY", 0)
    time = FakeTime()
    with running(StripeDouble(clock=time.clock)) as double:
        double.plan(then=Fault.LOST_REQUEST)
        retry = RetryPolicy(attempts_max=ATTEMPTS, wait_base_s=1, budget_s=60)
        yield Shop(colour=colour, double=double, time=time, retry=retry)


def _fail(shop: Shop, payments: int, sdk_retries: int) -> int:
    """Try to pay; return how many requests were on the wire."""
    with shop.open(sdk_retries) as till:
        for number in range(payments):
            with pytest.raises(stripe.APIConnectionError) as caught:
                till.pay(within=f"order-{number}")
            assert isinstance(caught.value.__cause__, OutcomePending)
    return len(shop.double.received)


@in_every_colour
def test_one_payment_costs_what_both_loops_allow_and_has_one_key(shop: Shop) -> None:
    assert _fail(shop, 1, SDK_CALLS - 1) == SDK_CALLS * ATTEMPTS == 12
    assert len(set(shop.double.keys())) == 1


@in_every_colour
def test_the_retry_budget_bounds_our_retries_over_all_payments(shop: Shop) -> None:
    sent = _fail(shop, PAYMENTS, SDK_CALLS - 1)

    assert sent == PAYMENTS * SDK_CALLS + RETRIES_PAID == 65
    assert sent < PAYMENTS * SDK_CALLS * ATTEMPTS
    assert len(set(shop.double.keys())) == PAYMENTS


@in_every_colour
def test_with_one_loop_a_payment_costs_one_request_once_the_budget_is_used_up(shop: Shop) -> None:
    payments = PAYMENTS * 2

    assert _fail(shop, payments, 0) == payments + RETRIES_PAID
