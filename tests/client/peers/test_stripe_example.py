"""The example for Stripe runs as its head says, and its way of wrapping suits both colours."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module

import anyio
import pytest
import stripe

from client.clients import FakeTime
from client.peers.stripe_sdk import PROFILES
from client.peers.stripe_server import Fault, StripeDouble
from client.servers import running
from replayfloor.client import MemoryJournal, RetryPolicy
from support.sources import ROOT

EXAMPLE_S = 120.0
"""It starts five processes; alone they take 6 s, and a busy machine has other things to do."""

SAID = """\
order-1: the reply to the first request is lost
  paid as pi_1
  requests: 2, keys: 1, charges: 1

order-2: the shop is killed when Stripe has charged, and another process goes on
  killed, before it heard
  paid as pi_2
  requests: 2, keys: 1, charges: 1

order-3: no reply comes, and the next process is a day late: Stripe has forgotten
  not known yet: ask again
  not known, and too late to ask: look into the dashboard
  requests: 2, keys: 1, charges: 1

order-4: the same without the transport, with a key that the shop has made
  not known yet
  paid as pi_5
  requests: 2, keys: 1, charges: 2

"""

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


def test_the_example_charges_each_order_once_and_shows_what_happens_without() -> None:
    command = [sys.executable, str(ROOT / "examples" / "stripe_client.py")]

    ran = subprocess.run(command, capture_output=True, text=True, timeout=EXAMPLE_S, check=False)

    assert (ran.stdout, ran.stderr, ran.returncode) == (SAID, "", 0)


@pytest.fixture
def double() -> Iterator[StripeDouble]:
    """Stripe, which loses the first reply."""
    with running(StripeDouble(clock=FakeTime().clock)) as server:
        server.plan(Fault.LOST_REPLY)
        yield server


@pytest.mark.parametrize("home", ["replayfloor.client", "replayfloor.client.httpx2"])
def test_the_clients_that_the_sdk_makes_are_wrapped_for_either_colour(
    home: str, double: StripeDouble
) -> None:
    library = import_module("httpx2" if home.endswith("httpx2") else "httpx")
    http = stripe.HTTPXClient(allow_sync_methods=True, verify_ssl_certs=False, _lib=library)
    wrap_client = import_module(home).wrap_client
    journal = MemoryJournal()
    retry = RetryPolicy(wait_base_s=0)
    for client in (http._client, http._client_async):
        wrap_client(client, profile=PROFILES, journal=journal, retry=retry)
    address = f"http://127.0.0.1:{double.port}"
    sdk = stripe.StripeClient(
        "sk_test_1", http_client=http, base_addresses={"api": address}, max_network_retries=0
    )
    params: stripe.params.PaymentIntentCreateParams = {"amount": 5, "currency": "eur"}

    async def pay() -> stripe.PaymentIntent:
        async with http._client_async:
            return await sdk.v1.payment_intents.create_async(params, {"idempotency_key": "k"})

    assert http._client is not None
    with http._client:
        blocking = sdk.v1.payment_intents.create(params, {"idempotency_key": "k"})
    awaited = anyio.run(pay)

    assert blocking.id == awaited.id == "pi_1"
    assert double.effects == ["k"]
    assert len(double.received) == 3
