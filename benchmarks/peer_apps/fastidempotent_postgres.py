"""fastidempotent's middleware on Postgres."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.handlers import routes
from fastidempotent import IdempotencyMiddleware, PostgresBackend
from starlette.applications import Starlette
from starlette.middleware import Middleware

URL = os.environ["PEER_POSTGRES"].replace("postgresql://", "postgresql+asyncpg://")
backend = PostgresBackend(URL)


@asynccontextmanager
async def lifespan(_app: Starlette) -> AsyncIterator[None]:
    """Make the table."""
    await backend.init()
    yield


app = routes(middleware=[Middleware(IdempotencyMiddleware, backend=backend)], lifespan=lifespan)
