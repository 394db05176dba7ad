"""Ours on Flask, on Postgres and Redis."""

import os

from benchmarks.peer_apps.flask_app import make_app

from replayfloor.server import WSGIIdempotencyMiddleware

app = WSGIIdempotencyMiddleware(
    make_app().wsgi_app,
    receipts=os.environ["PEER_POSTGRES"],
    lock=os.environ["PEER_REDIS"],
    principal=None,
)
