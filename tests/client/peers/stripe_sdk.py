"""Stripe's own SDK over our transports: both libraries, both colours, one way to pay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from importlib import import_module

import httpx
import stripe
from anyio.from_thread import BlockingPortal, start_blocking_portal
from stripe.params.v2.core import EventDestinationCreateParams

from client.clients import NO_TLS, POLICY, FakeTime
from client.peers.colours import Colour
from client.peers.stripe_server import StripeDouble
from client.stacks import Stack
from replayfloor.client import MemoryJournal, Profile, RetryPolicy, operation, profile
from replayfloor.client.budget import RetryBudget
from replayfloor.client.events import Event
from replayfloor.client.journal import Journal

PROFILES = (
    profile("stripe-v1", account="acct_1", mode="test"),
    profile("stripe-v2", account="acct_1", mode="test"),
)
SDK_RETRIES = 2
"""Stripe's default: three calls of the HTTP client for one of the SDK."""

SDK_CALLS = SDK_RETRIES + 1


@dataclass(frozen=True, slots=True)
class Till:
    """A process that is paid through the SDK."""

    client: stripe.StripeClient
    portal: BlockingPortal | None

    def pay(self, amount: int = 5, *, key: str = "", within: str = "") -> str:
        """Ask for a payment; return its id. `within`: the block's operation id."""
        params: stripe.params.PaymentIntentCreateParams = {"amount": amount, "currency": "eur"}
        options: stripe.RequestOptions = {"idempotency_key": key} if key else {}
        intents = self.client.v1.payment_intents

        async def create() -> str:
            with block(within):
                return (await intents.create_async(params, options)).id

        if self.portal is not None:
            return self.portal.call(create)
        with block(within):
            return intents.create(params, options).id

    def subscribe(self, *, within: str = "") -> str:
        """Make an object of v2; return its id."""
        params: EventDestinationCreateParams = {
            "name": "books",
            "type": "webhook_endpoint",
            "enabled_events": [],
            "event_payload": "thin",
        }
        destinations = self.client.v2.core.event_destinations

        async def create() -> str:
            with block(within):
                return (await destinations.create_async(params)).id

        if self.portal is not None:
            return self.portal.call(create)
        with block(within):
            return destinations.create(params).id

    def look(self) -> str:
        """Read something."""
        return self.client.v1.payment_intents.retrieve("pi_0").id


def block(operation_id: str) -> AbstractContextManager[None]:
    """Return the block of an operation; of none if it is blank."""
    return operation(operation_id) if operation_id else nullcontext()


@dataclass(kw_only=True)
class Shop:
    """What its processes have in common: the journal above all."""

    colour: Colour
    double: StripeDouble
    time: FakeTime
    profiles: Sequence[Profile] = PROFILES
    retry: RetryPolicy = POLICY
    journal: Journal = field(default_factory=MemoryJournal)
    budget: RetryBudget | None = None
    on_event: Callable[[Event], None] | None = None

    @contextmanager
    def open(self, sdk_retries: int = SDK_RETRIES) -> Iterator[Till]:
        """Start a process: new transports, the same journal."""
        stack = self.colour.stack
        http = stripe.HTTPXClient(
            allow_sync_methods=True, verify_ssl_certs=False, _lib=import_module(stack.name)
        )
        client = stripe.StripeClient(
            "sk_test_1",
            http_client=http,
            base_addresses={"api": f"http://127.0.0.1:{self.double.port}"},
            max_network_retries=sdk_retries,
        )
        if self.colour.blocking:
            with stack.client(transport=self._blocking(stack)) as http._client:
                yield Till(client, None)
        else:
            with start_blocking_portal() as portal:
                http._client_async = stack.async_client(transport=self._awaiting(stack))
                with portal.wrap_async_context_manager(http._client_async):
                    yield Till(client, portal)

    def _blocking(self, stack: Stack) -> httpx.BaseTransport:
        return stack.transport(
            stack.http_transport(verify=NO_TLS),
            profile=self.profiles,
            journal=self.journal,
            sleep=self.time.sleep,
            retry=self.retry,
            budget=self.budget,
            on_event=self.on_event,
            clock=self.time.clock,
            random=lambda: 0.5,
        )

    def _awaiting(self, stack: Stack) -> httpx.AsyncBaseTransport:
        return stack.async_transport(
            stack.async_http_transport(verify=NO_TLS),
            profile=self.profiles,
            journal=self.journal,
            sleep=self.time.sleep_async,
            retry=self.retry,
            budget=self.budget,
            on_event=self.on_event,
            clock=self.time.clock,
            random=lambda: 0.5,
        )
