"""Stripe's webhooks, each applied once, for as long as Stripe may deliver it again.

    STRIPE_WEBHOOK_SECRET=whsec_... RECEIPTS=sqlite:///shop.db \\
        uvicorn --app-dir examples stripe_webhooks_fastapi:app

Stripe delivers an event again for three days if it gets no success, and people can have it sent
again for thirty: by then it is the receipts that know it was applied. The row in the ledger and the
receipt are one commit, so a process that dies before it answers has done both or neither.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from urllib.parse import unquote

import psycopg
from fastapi import FastAPI, Request

from replayfloor.retention import InboundPolicy
from replayfloor.server import IdempotencyMiddleware, Route
from replayfloor.server.webhooks import StripeSignature, webhook

SECRETS = os.environ["STRIPE_WEBHOOK_SECRET"].split()  # two while one replaces the other
# In the application's own database. Postgres is prepared with `replayfloor migrate URL`.
RECEIPTS = os.environ.get("RECEIPTS", "sqlite:///shop.db")
# "local" for one process, redis://… for several.
LOCK = os.environ.get("LOCK", "local")
LEASE_S = float(os.environ.get("LEASE_S", "30"))

STRIPE = webhook("stripe", verify=StripeSignature(*SECRETS))
# Thirty days, which is how long an event can be sent again by hand, and the longest time for which
# we plan to be away: 35 days. Anything shorter is refused when the server starts.
POLICY = InboundPolicy("stripe", senders=(STRIPE.sender,), planned_outage="5d")

# No unique constraint, on purpose: nothing but the middleware prevents a second row here.
CREATE = "create table if not exists ledger (payment text not null, amount_minor bigint not null)"
CREDIT = "insert into ledger values (:payment, :amount_minor)"
READ = "select amount_minor from ledger where payment = :payment"

POSTGRES = RECEIPTS.startswith("postgres")
if POSTGRES:  # the same statements, in psycopg's spelling of a parameter
    CREDIT, READ = (re.sub(r":(\w+)", r"%(\1)s", text) for text in (CREDIT, READ))


async def run(statement: str, **values: object) -> list[tuple[object, ...]]:
    """Run one statement outside of any event."""
    if POSTGRES:
        async with await psycopg.AsyncConnection.connect(RECEIPTS) as connection:
            cursor = await connection.execute(statement.encode(), values)
            return await cursor.fetchall() if cursor.description else []
    with closing(sqlite3.connect(unquote(RECEIPTS.removeprefix("sqlite:///")))) as database:
        return database.execute(statement, values).fetchall()


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Make the ledger when the server starts."""
    await run(CREATE)
    yield


app = FastAPI(title="Stripe's webhooks", lifespan=lifespan)
app.add_middleware(
    IdempotencyMiddleware,
    receipts=RECEIPTS,
    lock=LOCK,
    lease_s=LEASE_S,
    retention=POLICY,
    principal=None,
    routes=[Route("POST", "/hooks/stripe", effects="atomic", key=STRIPE)],
)


@app.post("/hooks/stripe")
async def receive(request: Request) -> dict[str, str]:
    """Apply one event. Its signature was verified before, and it was not applied yet."""
    event = await request.json()
    if event["type"] == "payment_intent.succeeded":
        payment = event["data"]["object"]
        values = {"payment": payment["id"], "amount_minor": payment["amount_received"]}
        await request.state.idempotency.connection.execute(CREDIT, values)
    return {"received": event["id"]}


@app.get("/payments/{payment}")
async def credited(payment: str) -> dict[str, object]:
    """Say what was credited for a payment, and how often."""
    rows = await run(READ, payment=payment)
    return {"payment": payment, "credits": [row[0] for row in rows]}
