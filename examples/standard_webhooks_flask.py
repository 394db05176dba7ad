"""Webhooks in the format of Standard Webhooks: acknowledged at once, applied once.

    WEBHOOK_SECRET=whsec_... RECEIPTS=postgresql://... \\
        gunicorn --threads 8 --pythonpath examples standard_webhooks_flask:app

On Postgres the event is stored in an inbox and acknowledged before it is applied, which may take
longer than its sender waits; workers apply it, and repeat that until it succeeds. On SQLite
(RECEIPTS=sqlite:///shop.db) it is applied first, and acknowledged then. In both cases the row in
the ledger is one commit with the record that it was applied.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from urllib.parse import unquote

import psycopg
from flask import Flask, request
from flask.typing import ResponseReturnValue

from replayfloor.retention import InboundPolicy
from replayfloor.server import ActiveClaim, Route, WSGIIdempotencyMiddleware
from replayfloor.server.webhooks import StandardWebhooksSignature, webhook

SECRETS = os.environ["WEBHOOK_SECRET"].split()  # two while one replaces the other
RECEIPTS = os.environ.get("RECEIPTS", "sqlite:///shop.db")
LOCK = os.environ.get("LOCK", "local")
LEASE_S = float(os.environ.get("LEASE_S", "30"))
POSTGRES = RECEIPTS.startswith("postgres")

HOOK = webhook(
    "standard-webhooks",
    verify=StandardWebhooksSignature(*SECRETS),
    endpoint="shop",  # the path may change without an event being applied again
    ack="first" if POSTGRES else "after",
)
# The format has an example schedule, of 75 h 35 min. For how long people can have an event sent
# again is for each sender to say: this one says 14 days.
SENDER = HOOK.sender.with_terms(manual_resend="14d")
POLICY = InboundPolicy("shop", senders=(SENDER,), planned_outage="2d")

# No unique constraint, on purpose: nothing but the middleware prevents a second row here.
CREATE = "create table if not exists ledger (payment text not null, amount_minor bigint not null)"
CREDIT = "insert into ledger values (%s, %s)"
READ = "select amount_minor from ledger where payment = %s"

app = Flask(__name__)


def run(statement: str, *values: str) -> list[tuple[object, ...]]:
    """Run one statement outside of any event."""
    if POSTGRES:
        with psycopg.connect(RECEIPTS) as connection:
            cursor = connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []
    with closing(sqlite3.connect(unquote(RECEIPTS.removeprefix("sqlite:///")))) as database:
        return database.execute(statement.replace("%s", "?"), values).fetchall()


@app.post("/hooks/shop")
def receive() -> ResponseReturnValue:
    """Apply one event. Its signature was verified before, and it was not applied yet."""
    claim: ActiveClaim = request.environ["replayfloor.claim"]
    event = request.get_json()
    if event["type"] == "payment.succeeded":
        credit = CREDIT if POSTGRES else CREDIT.replace("%s", "?")
        values = (event["data"]["payment"], event["data"]["amount_minor"])
        claim.connection.execute(credit, values)
    return "", 204


@app.get("/payments/<payment>")
def credited(payment: str) -> ResponseReturnValue:
    """Say what was credited for a payment, and how often."""
    return {"payment": payment, "credits": [row[0] for row in run(READ, payment)]}


run(CREATE)
app.wsgi_app = WSGIIdempotencyMiddleware(  # type: ignore[method-assign]
    app.wsgi_app,
    receipts=RECEIPTS,
    lock=LOCK,
    lease_s=LEASE_S,
    retention=POLICY,
    principal=None,
    routes=[Route("POST", "/hooks/shop", effects="atomic", key=HOOK)],
)
