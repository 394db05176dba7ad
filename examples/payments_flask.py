"""A Flask shop that charges at a payment provider, and never twice.

    PROVIDER=http://127.0.0.1:8000 RECEIPTS=sqlite:///shop.db \\
        gunicorn --threads 8 --pythonpath examples payments_flask:app

The charge happens elsewhere, so it cannot be rolled back. It can be repeated, though: the key that
is sent to the provider is derived from the key of the order, and is the same however often this
handler runs. So its route is "repeatable": when a worker dies, the next retry runs it again, and
the provider answers what it has charged already. So it does after an exception, since the key is
then released. Any provider with an Idempotency-Key will do, such as the API in payments_fastapi.py.
"""

from __future__ import annotations

import os
from urllib.parse import quote

import httpx
from flask import Flask, request
from flask.typing import ResponseReturnValue

from replayfloor.client import IdempotentTransport, Profile, RetryPolicy
from replayfloor.server import ActiveClaim, WSGIIdempotencyMiddleware, idempotent

PROVIDER = os.environ.get("PROVIDER", "http://127.0.0.1:8000")
RECEIPTS = os.environ.get("RECEIPTS", "sqlite:///shop.db")
LOCK = os.environ.get("LOCK", "local")
LEASE_S = float(os.environ.get("LEASE_S", "30"))
# What the provider publishes: how long it recognises a key.
PROVIDER_RETENTION_S = float(os.environ.get("PROVIDER_RETENTION_S", "86400"))
# How long one request tries before it lets its sender try again.
RETRY_BUDGET_S = float(os.environ.get("RETRY_BUDGET_S", "10"))
NOT_NOW = (408, 425, 429)

provider = httpx.Client(
    base_url=PROVIDER,
    transport=IdempotentTransport(
        profile=Profile(name="provider", retention_s=PROVIDER_RETENTION_S),
        journal=os.environ.get("JOURNAL", "sqlite:///shop-outbound.db"),
        # A worker that died keeps the charge to itself for no longer than the order.
        retry=RetryPolicy(budget_s=RETRY_BUDGET_S, lease_s=LEASE_S),
    ),
)
app = Flask(__name__)


@app.post("/orders")
@idempotent(required=True, effects="repeatable", ambiguous="release")
def order() -> ResponseReturnValue:
    """Charge an order at the provider, once, however often this runs."""
    claim: ActiveClaim = request.environ["replayfloor.claim"]
    wanted = request.get_json()
    payment = {"id": wanted["id"], "amount_minor": wanted["amount_minor"], "currency": "EUR"}
    options = {"operation_id": f"charge-{claim.id}", "key": claim.derived_key("charge")}
    try:
        charged = provider.post("/payments", json=payment, extensions={"idempotency": options})
    except httpx.HTTPError as error:  # the client's own exceptions are among them
        return later(str(error))
    if charged.is_server_error or charged.status_code in NOT_NOW:
        return later(f"the provider answered {charged.status_code}")
    if charged.is_error:
        return {"error": "the provider refused the charge"}, 402
    place = f"/orders/{quote(wanted['id'], safe='')}"
    return {"order": wanted["id"], "status": "paid"}, 201, {"Location": place}


def later(why: str) -> ResponseReturnValue:
    """Ask for a retry: 503 frees the key, and the retry goes on with the provider's same key."""
    return {"error": why}, 503, {"Retry-After": "5"}


app.wsgi_app = WSGIIdempotencyMiddleware(  # type: ignore[method-assign]
    app.wsgi_app,
    receipts=RECEIPTS,
    lock=LOCK,
    lease_s=LEASE_S,
    principal=None,  # one tenant; with several, a function that says whose key this is
)
