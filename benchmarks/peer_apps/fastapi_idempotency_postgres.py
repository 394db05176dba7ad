"""fastapi-idempotency's middleware, its Tortoise store on Postgres."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.handlers import routes
from fastapi_idempotency import IdempotencyMiddleware
from fastapi_idempotency.stores.tortoise import TortoiseStore
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from tortoise import Tortoise

URL = os.environ["PEER_POSTGRES"].replace("postgresql://", "asyncpg://")
MODELS = {"models": ["fastapi_idempotency.stores.tortoise"]}


@asynccontextmanager
async def lifespan(_app: Starlette) -> AsyncIterator[None]:
    """Connect, and make the table."""
    # Requests are served by other tasks than the one that starts the application.
    await Tortoise.init(db_url=URL, modules=MODELS, _enable_global_fallback=True)
    await Tortoise.generate_schemas()
    yield
    await Tortoise.close_connections()


def scope(_request: Request) -> str:
    """All keys have one owner."""
    return ""


# It waits for the first answer by default; here the refusal is what is measured.
protection = Middleware(IdempotencyMiddleware, store=TortoiseStore(), scope=scope, wait_seconds=0)
app = routes(middleware=[protection], lifespan=lifespan)
