"""A Flask and a Django application on Postgres and Redis, for a real WSGI server to serve.

Environment: SERVED_RECEIPTS, SERVED_LOCK, and SERVED_FOLDER, where a handler leaves a file with the
name of its payment and the id of its process before it pauses.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from replayfloor.server import ActiveClaim, Route
from replayfloor.server.wsgi import WSGIIdempotencyMiddleware
from server.backends import Ledger
from server.wsgi_server import Environ, WSGIApp

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

LEASE_S = 1.0
BODY_BYTES_MAX = 1000


def pay(environ: Environ, body: bytes) -> bytes:
    """Execute one payment: write a row, pause, and answer with an id of this execution."""
    payment = json.loads(body)["payment"]
    if environ["PATH_INFO"] == "/atomic":
        claim = cast("ActiveClaim", environ["replayfloor.claim"])
        claim.connection.execute(_ledger().insert, (payment,))
    else:
        _ledger().write(payment)
    pause_s = float(str(environ.get("HTTP_X_PAUSE_S", "0")))
    if pause_s:
        Path(os.environ["SERVED_FOLDER"], payment).write_text(str(os.getpid()))
        time.sleep(pause_s)
    return json.dumps({"payment": payment, "run": os.urandom(8).hex()}).encode()


def _ledger() -> Ledger:
    return Ledger(os.environ["SERVED_RECEIPTS"])


def protect(app: Callable[..., object]) -> WSGIIdempotencyMiddleware:
    """Return the middleware around an application."""
    return WSGIIdempotencyMiddleware(
        cast("WSGIApp", app),
        receipts=os.environ["SERVED_RECEIPTS"],
        lock=os.environ["SERVED_LOCK"],
        principal=lambda environ: str(environ.get("HTTP_X_USER", "")),
        routes=[Route("POST", "/atomic", effects="atomic")],
        lease_s=LEASE_S,
        body_bytes_max=BODY_BYTES_MAX,
    )


def flask_app() -> WSGIIdempotencyMiddleware:
    """Return the Flask application, protected."""
    import flask

    app = flask.Flask(__name__)

    @app.post("/atomic")
    @app.post("/external")
    def endpoint() -> flask.Response:
        request = flask.request
        body = pay(cast("Environ", request.environ), request.get_data())
        return flask.Response(body, 201, mimetype="application/json")

    return protect(app)


def django_app() -> WSGIIdempotencyMiddleware:
    """Return the Django application, protected."""
    import django
    from django.conf import settings
    from django.core.handlers.wsgi import WSGIHandler

    settings.configure(
        SECRET_KEY="for tests", ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, MIDDLEWARE=[]
    )
    django.setup()
    return protect(WSGIHandler())


def _view(request: HttpRequest) -> HttpResponse:
    from django.http import HttpResponse

    body = pay(cast("Environ", request.META), request.body)
    return HttpResponse(body, status=201, content_type="application/json")


def __getattr__(name: str) -> object:
    # Django reads it from the module that ROOT_URLCONF names; without Django nobody does.
    if name == "urlpatterns":
        from django.urls import path

        return [path("atomic", _view), path("external", _view)]
    raise AttributeError(name)
