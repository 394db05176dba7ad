"""A payments API in which no retry charges twice.

    RECEIPTS=sqlite:///payments.db uvicorn --app-dir examples payments_fastapi:app

A POST /payments runs once per Idempotency-Key, whatever happens to the answer or to this process.
The charge and the receipt of the key are one commit, so a crash leaves both or neither.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from urllib.parse import quote, unquote

import psycopg
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, Field

from replayfloor.server import IdempotencyMiddleware, Route

# In the application's own database. Postgres is prepared with `replayfloor migrate URL`.
RECEIPTS = os.environ.get("RECEIPTS", "sqlite:///payments.db")
# "local" for one process, redis://… for several.
LOCK = os.environ.get("LOCK", "local")
# How long a key stays taken when its worker dies. Longer than the slowest payment.
LEASE_S = float(os.environ.get("LEASE_S", "30"))

# No unique constraint, on purpose: nothing but the middleware prevents a second charge here.
CREATE = """create table if not exists ledger (
    payment_id text not null, amount_minor bigint not null, currency text not null)"""
CHARGE = "insert into ledger values (:id, :amount_minor, :currency)"
COUNT = "select count(*) from ledger where payment_id = :id"

POSTGRES = RECEIPTS.startswith("postgres")
if POSTGRES:  # the same statements, in psycopg's spelling of a parameter
    CHARGE, COUNT = (re.sub(r":(\w+)", r"%(\1)s", text) for text in (CHARGE, COUNT))


class Payment(BaseModel):
    """The body of POST /payments; further members of the JSON object are ignored."""

    id: str = Field(min_length=1, max_length=100)
    amount_minor: int = Field(gt=0, le=10**12)  # and less than a bigint holds
    currency: str = Field(pattern="^[A-Z]{3}$")


async def run(statement: str, **values: object) -> list[tuple[object, ...]]:
    """Run one statement outside of any payment."""
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


app = FastAPI(title="Payments", lifespan=lifespan)
app.add_middleware(
    IdempotencyMiddleware,
    receipts=RECEIPTS,
    lock=LOCK,
    lease_s=LEASE_S,
    principal=None,  # one tenant; with several, a function that says whose key this is
    routes=[Route("POST", "/payments", required=True, effects="atomic")],
)


@app.post("/payments", status_code=201)
async def pay(payment: Payment, request: Request, response: Response) -> dict[str, object]:
    """Charge a payment, in the transaction that also stores this answer."""
    await request.state.idempotency.connection.execute(CHARGE, payment.model_dump())
    response.headers["Location"] = f"/payments/{quote(payment.id, safe='')}"
    return {"status": "charged", **payment.model_dump()}


@app.get("/payments/{payment_id}")
async def charges(payment_id: str) -> dict[str, object]:
    """Say how often a payment was charged."""
    rows = await run(COUNT, id=payment_id)
    return {"id": payment_id, "charges": rows[0][0]}
