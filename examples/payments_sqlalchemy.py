"""A FastAPI payments API on SQLAlchemy's ORM in which no retry charges twice.

    DATABASE=postgresql+psycopg://user@host/shop uvicorn --app-dir examples payments_sqlalchemy:app

What the handler writes through its session and the receipt of the key are one commit, so a crash
leaves both or neither. The database is prepared with `replayfloor migrate postgresql://…`. The
second route keeps a transaction of its own, and puts the receipt into that.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from replayfloor.server import AsyncActiveClaim, IdempotencyMiddleware, Route
from replayfloor.server.adapters.sqlalchemy_async import AsyncSQLAlchemyReceipts, async_session

engine = create_async_engine(os.environ["DATABASE"])
new_session = async_sessionmaker(engine)


class Base(DeclarativeBase):
    """The tables of this application."""


class Charge(Base):
    """One charge. No unique constraint, on purpose: only the middleware prevents a second one."""

    __tablename__ = "charges"

    row: Mapped[int] = mapped_column(primary_key=True)
    payment_id: Mapped[str]
    amount_minor: Mapped[int]


class Payment(BaseModel):
    """The body of both routes."""

    id: str = Field(min_length=1, max_length=100)
    amount_minor: int = Field(gt=0)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Make the ledger when the server starts; a real project has migrations for that."""
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    yield
    await engine.dispose()


app = FastAPI(title="Payments", lifespan=lifespan)
app.add_middleware(
    IdempotencyMiddleware,
    receipts=AsyncSQLAlchemyReceipts(engine),
    lock=os.environ.get("LOCK", "local"),
    lease_s=float(os.environ.get("LEASE_S", "30")),
    principal=None,  # one tenant; with several, a function that says whose key this is
    routes=[
        Route("POST", "/payments", required=True, effects="atomic"),
        Route("POST", "/batches", required=True, effects="repeatable"),
    ],
)


@app.post("/payments", status_code=201)
async def pay(payment: Payment, request: Request, response: Response) -> dict[str, object]:
    """Charge a payment, in the transaction that also stores this answer."""
    claim: AsyncActiveClaim = request.state.idempotency
    async with async_session(claim) as session:
        session.add(Charge(payment_id=payment.id, amount_minor=payment.amount_minor))
        await session.commit()  # ends a savepoint; the middleware commits
    response.headers["Location"] = f"/payments/{quote(payment.id, safe='')}"
    return {"status": "charged", **payment.model_dump()}


@app.post("/batches", status_code=201)
async def pay_batch(payments: list[Payment], request: Request) -> Response:
    """Charge several payments in a transaction of this handler's own, the receipt with them."""
    claim: AsyncActiveClaim = request.state.idempotency
    answer = JSONResponse({"status": "charged", "payments": len(payments)}, status_code=201)
    async with new_session.begin() as session:
        session.add_all(
            Charge(payment_id=each.id, amount_minor=each.amount_minor) for each in payments
        )
        await session.flush()
        # Raises ClaimLost if another worker has the key by now, and everything is rolled back.
        await claim.finish_in(session, answer)
    return answer


@app.get("/payments/{payment_id}")
async def charges(payment_id: str) -> dict[str, object]:
    """Say how often a payment was charged."""
    async with new_session() as session:
        query = select(func.count()).select_from(Charge).where(Charge.payment_id == payment_id)
        return {"id": payment_id, "charges": await session.scalar(query)}
