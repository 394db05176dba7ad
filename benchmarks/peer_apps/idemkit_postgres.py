"""idemkit's ASGI middleware on Postgres."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.handlers import routes
from idemkit import HttpConfig, IdempotencyMiddleware, PostgresBackend
from idemkit.backends.postgres import init_pg
from starlette.applications import Starlette
from starlette.middleware import Middleware

URL = os.environ["PEER_POSTGRES"]


@asynccontextmanager
async def lifespan(_app: Starlette) -> AsyncIterator[None]:
    """Make the table."""
    await init_pg(URL)
    yield


# It waits for the first answer by default; here the refusal is what is measured.
config = HttpConfig(scope_mode="single_tenant", wait_timeout_seconds=0)
protection = Middleware(IdempotencyMiddleware, backend=PostgresBackend.from_url(URL), config=config)
app = routes(middleware=[protection], lifespan=lifespan)
