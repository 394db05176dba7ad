"""Stripe's own SDK over the transport: an order is charged once, also if the shop dies, or waits.

    python examples/stripe_client.py

`connect` and `pay` are what a shop needs. The rest plays Stripe on the loopback, loses replies,
kills the shop's processes, sets the clocks a day on, and prints what was charged. Nothing leaves
the machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import stripe

from replayfloor.client import (
    OutcomePending,
    OutcomeUnknown,
    RetryPolicy,
    operation,
    profile,
    wrap_client,
)
from replayfloor.client.clock import Clock, system_clock

PROFILES = (profile("stripe-v1", mode="test"), profile("stripe-v2", mode="test"))
DAY_S = PROFILES[0].retention_s
"""For how long Stripe keeps the key of a charge, and the double below too: 24 hours."""

# -- the shop ---------------------------------------------------------------------------------


def connect(address: str, journal: str, clock: Clock = system_clock) -> stripe.StripeClient:
    """Return the SDK's client; what it sends is in the journal before it leaves."""
    http = stripe.HTTPXClient(allow_sync_methods=True)
    # The SDK takes no transport, so ours goes around the one of the client that it has made; with
    # it stay Stripe's certificates, and proxies. Its twin for await is http._client_async.
    assert http._client is not None
    wrap_client(
        http._client,
        profile=PROFILES,
        journal=journal,
        # After a crash, the next process waits for the lease. 30 s suit a shop, and no example.
        retry=RetryPolicy(attempts_max=2, lease_s=1),
        clock=clock,
    )
    # One loop is enough: the SDK's retries would multiply those of the transport.
    return stripe.StripeClient(
        "sk_test_1", http_client=http, base_addresses={"api": address}, max_network_retries=0
    )


def pay(shop: stripe.StripeClient, order: str) -> str:
    """Charge an order; say how it went. It may be called again and again, by any process."""
    try:
        # The SDK makes a new key for every call. The operation keeps the first one.
        with operation(order):
            paid = shop.v1.payment_intents.create({"amount": 4200, "currency": "eur"})
    except stripe.APIConnectionError as error:
        match error.__cause__:
            case OutcomePending():
                return "not known yet: ask again"
            case OutcomeUnknown():
                return "not known, and too late to ask: look into the dashboard"
            case _:
                raise
    return f"paid as {paid.id}"


# -- Stripe -----------------------------------------------------------------------------------


class Stripe(ThreadingHTTPServer):
    """Charges once for a key, for as long as it keeps it.

    The replies to the next `lose` requests are lost; `victim` is killed before its reply;
    `later_s` is how far its clock was set on.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Charge)
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.keys: list[str] = []
        self.charges = 0
        self.lose = 0
        self.later_s = 0.0
        self.victim: subprocess.Popen[str] | None = None
        self._kept: dict[str, tuple[float, str]] = {}

    def charge(self, key: str) -> str | None:
        """Return the payment under a key, made now unless it is known; None if nobody hears."""
        self.keys.append(key)
        now_s = time.time() + self.later_s
        at_s, payment = self._kept.get(key, (0.0, ""))
        if now_s - at_s >= DAY_S:
            self.charges += 1
            payment = f"pi_{self.charges}"
            self._kept[key] = (now_s, payment)
        if self.victim is not None:
            self.victim.kill()
            self.victim = None
            return None
        self.lose -= 1
        return payment if self.lose < 0 else None


class Charge(BaseHTTPRequestHandler):
    """One request."""

    def do_POST(self) -> None:
        """Charge, and answer unless the reply is lost."""
        assert isinstance(self.server, Stripe)
        self.rfile.read(int(self.headers["Content-Length"]))
        payment = self.server.charge(self.headers["Idempotency-Key"])
        if payment is not None:
            body = json.dumps({"id": payment, "object": "payment_intent"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


# -- what happens -----------------------------------------------------------------------------


class Life:
    """What the shop goes through. Every call for money is a process of its own, on one journal."""

    def __init__(self, provider: Stripe, journal: str) -> None:
        self._stripe, self._journal = provider, journal
        self._requests, self._charges = 0, 0

    def shop(self, order: str, *, dies: bool = False, lose: int = 0) -> None:
        """Start a process that asks for the money of an order, and print how that went."""
        later = str(self._stripe.later_s)
        command = [sys.executable, __file__, self._stripe.address, self._journal, order, later]
        self._stripe.lose = lose
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        if dies:
            self._stripe.victim = process
        said, _ = process.communicate()
        print(f"  {said.strip() or 'killed, before it heard'}")

    def total(self) -> None:
        """Print what was sent and charged since the last total."""
        keys = self._stripe.keys[self._requests :]
        charges = self._stripe.charges - self._charges
        self._requests, self._charges = len(self._stripe.keys), self._stripe.charges
        print(f"  requests: {len(keys)}, keys: {len(set(keys))}, charges: {charges}\n")


def main() -> None:
    """Play three orders, and one that goes to Stripe without the transport."""
    with tempfile.TemporaryDirectory() as folder, Stripe() as provider:
        threading.Thread(target=provider.serve_forever, args=(0.05,), daemon=True).start()
        life = Life(provider, f"sqlite:///{folder}/outbound.db")

        print("order-1: the reply to the first request is lost")
        life.shop("order-1", lose=1)
        life.total()

        print("order-2: the shop is killed when Stripe has charged, and another process goes on")
        life.shop("order-2", dies=True)
        life.shop("order-2")
        life.total()

        print("order-3: no reply comes, and the next process is a day late: Stripe has forgotten")
        life.shop("order-3", lose=100)
        provider.later_s += DAY_S
        life.shop("order-3")
        life.total()

        print("order-4: the same without the transport, with a key that the shop has made")
        alone(provider, lose=1)
        provider.later_s += DAY_S
        alone(provider, lose=0)
        life.total()
        provider.shutdown()


def alone(provider: Stripe, lose: int) -> None:
    """Ask for the money of an order with nothing but the SDK."""
    provider.lose = lose
    shop = stripe.StripeClient(
        "sk_test_1", base_addresses={"api": provider.address}, max_network_retries=0
    )
    try:
        paid = shop.v1.payment_intents.create(
            {"amount": 4200, "currency": "eur"}, {"idempotency_key": "order-4"}
        )
        print(f"  paid as {paid.id}")
    except stripe.APIConnectionError:
        print("  not known yet")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        address, journal, order, later = sys.argv[1:]
        later_ns = int(float(later) * 1e9)
        print(pay(connect(address, journal, lambda: time.time_ns() + later_ns), order))
    else:
        main()
