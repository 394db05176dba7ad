"""The examples of webhooks are started as their heads say, and credit once; signatures are real."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import httpx
import pytest

from replayfloor.server.stores.migrate import migrate
from test_examples import START_S, Server, client, gunicorn, serving, uvicorn
from webhooks import signing

STRIPE_SECRETS = ("whsec_old", "whsec_new")
SHOP_SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()

Sign: TypeAlias = Callable[[bytes, str, int], Mapping[str, str]]


def event(name: str, payment: str) -> bytes:
    """Return an event of Stripe's: a payment that succeeded."""
    told = {
        "id": name,
        "object": "event",
        "type": "payment_intent.succeeded",
        "created": int(time.time()),
        "data": {"object": {"id": payment, "object": "payment_intent", "amount_received": 4200}},
    }
    return json.dumps(told).encode()


def by_stripe(body: bytes, secret: str, at_s: int) -> Mapping[str, str]:
    """Sign as Stripe does."""
    return text(signing.stripe(body, secret, at_s=at_s))


def text(headers: signing.Headers) -> dict[str, str]:
    """Return headers as httpx takes them."""
    return {name.decode(): value.decode() for name, value in headers}


def deliver(server: Server, path: str, body: bytes, headers: Mapping[str, str]) -> httpx.Response:
    """Deliver once."""
    with client() as sender:
        kind = {"Content-Type": "application/json"}
        return sender.post(f"{server.url}{path}", content=body, headers={**kind, **headers})


def credits_of(server: Server, payment: str) -> list[int]:
    """Return what was credited for a payment."""
    with client() as reader:
        found = reader.get(f"{server.url}/payments/{payment}").raise_for_status().json()
        amounts: list[int] = found["credits"]
        return amounts


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_stripe_webhooks_fastapi(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    environment = {"STRIPE_WEBHOOK_SECRET": " ".join(STRIPE_SECRETS)}
    if kind == "postgres":
        url: str = request.getfixturevalue("postgres_url")
        migrate(url)
        environment |= {"RECEIPTS": url, "LOCK": request.getfixturevalue("redis_url")}
    now = int(time.time())
    body, path = event("evt_1", "pi_1"), "/hooks/stripe"
    with serving(uvicorn("stripe_webhooks_fastapi"), environment, tmp_path) as server:
        forged = deliver(server, path, body, by_stripe(body, "whsec_other", now))
        old = deliver(server, path, body, by_stripe(body, "whsec_new", now - 3600))
        none = credits_of(server, "pi_1")
        # The same event, signed anew for each attempt, by the old secret and by the new one.
        answers = [
            deliver(server, path, body, by_stripe(body, secret, now + attempt))
            for attempt, secret in enumerate(STRIPE_SECRETS * 2)
        ]
        credited = credits_of(server, "pi_1")

    assert (forged.status_code, old.status_code, none) == (401, 401, [])
    assert [each.status_code for each in answers] == [200] * 4
    assert {each.text for each in answers} == {'{"received":"evt_1"}'}
    assert credited == [4200]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_standard_webhooks_flask(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    environment = {"WEBHOOK_SECRET": SHOP_SECRET}
    if kind == "postgres":
        url: str = request.getfixturevalue("postgres_url")
        migrate(url)
        environment |= {"RECEIPTS": url, "LOCK": request.getfixturevalue("redis_url")}
    told = {"type": "payment.succeeded", "data": {"payment": "p1", "amount_minor": 4200}}
    body, path, now = json.dumps(told).encode(), "/hooks/shop", int(time.time())
    with serving(gunicorn("standard_webhooks_flask:app"), environment, tmp_path) as server:
        forged = signing.standard(body + b" ", SHOP_SECRET, event_id="msg_1", at_s=now)
        refused = deliver(server, path, body, text(forged))
        answers = [
            deliver(
                server,
                path,
                body,
                text(signing.standard(body, SHOP_SECRET, event_id="msg_1", at_s=now + attempt)),
            )
            for attempt in range(3)
        ]
        until = time.monotonic() + START_S
        while not credits_of(server, "p1") and time.monotonic() < until:
            time.sleep(0.05)
        credited = credits_of(server, "p1")

    assert refused.status_code == 401
    assert [each.status_code for each in answers] == [204 if kind == "sqlite" else 202] * 3
    assert credited == [4200]
