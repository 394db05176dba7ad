"""idemkit's WSGI middleware on Postgres, around Flask."""

import asyncio
import os

from benchmarks.peer_apps.flask_app import make_app
from idemkit import HttpConfig, PostgresBackend, WSGIIdempotencyMiddleware
from idemkit.backends.postgres import init_pg

URL = os.environ["PEER_POSTGRES"]
asyncio.run(init_pg(URL))

# It waits for the first answer by default; here the refusal is what is measured.
config = HttpConfig(scope_mode="single_tenant", wait_timeout_seconds=0)
app = WSGIIdempotencyMiddleware(
    make_app().wsgi_app, backend=PostgresBackend.from_url(URL), config=config
)
