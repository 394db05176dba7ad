"""A shop that gives answers of every kind and counts what it does, over ASGI and WSGI.

Its handlers know nothing of keys: what protects them is put around, and so is what is tested.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterator
from typing import cast

import anyio
from flask import Flask, jsonify, redirect, request
from flask import Response as FlaskResponse
from flask.typing import ResponseReturnValue
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from replayfloor.conform import Kind, Target
from replayfloor.conform.target import CONTENT_TYPE, other_body
from replayfloor.server.wsgi import WSGIIdempotencyMiddleware
from server.wsgi_server import WSGIApp

ORIGIN = "https://page.example"
SLOW_S = 0.6
PIECES, PIECE_BYTES = 20, 1024
LARGE_BYTES = (1 << 20) + 1
ALL_BYTES = bytes(range(256))
PATHS = {
    Kind.OTHER: "/refunds",
    Kind.SLOW: "/slow",
    Kind.EMPTY: "/empty",
    Kind.REDIRECT: "/redirect",
    Kind.DECLINED: "/declined",
    Kind.FAILING: "/failing",
    Kind.BINARY: "/binary",
    Kind.STREAM: "/stream",
    Kind.LARGE: "/large",
}
BODY = b'{"amount": 1, "currency": "EUR"}'


def target(*, concurrency: int = 8) -> Target:
    """Return the shop as a target that tells everything."""
    return Target(
        method="POST",
        path="/payments",
        lines=((b"X-User", b"ann"), (CONTENT_TYPE, b"application/json")),
        body=BODY,
        other_body=other_body(BODY),
        second=((b"X-User", b"bob"),),
        origin=ORIGIN.encode(),
        paths=PATHS,
        concurrency=concurrency,
        counted=True,
    )


class Effects:
    """Counts what was executed."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self.count = 0

    def add(self) -> int:
        """Have an effect."""
        with self._lock:
            self.count += 1
            return next(self._numbers)


def result_headers(number: int) -> list[tuple[str, str]]:
    """Return headers of a result, some more than once."""
    return [
        ("Location", f"/payments/{number}"),
        ("ETag", f'"{number}"'),
        ("Link", "</terms>; rel=terms"),
        ("Link", '</a,b>; rel="alternate"'),
        ("Set-Cookie", f"session={number}"),
    ]


def make_shop() -> Starlette:
    """Return the shop over ASGI; its effects are in `app.state.effects`."""
    effects = Effects()

    async def pay(request: Request) -> Response:
        await request.body()
        number = effects.add()
        if request.url.path == "/slow":
            await anyio.sleep(SLOW_S)
        answer = JSONResponse({"payment": number}, 201)
        for name, value in result_headers(number):
            answer.headers.append(name, value)
        return answer

    async def other(request: Request) -> Response:
        number = effects.add()
        match request.url.path:
            case "/empty":
                return Response(status_code=204)
            case "/redirect":
                return RedirectResponse(f"/payments/{number}", 303)
            case "/declined":
                return JSONResponse({"declined": number}, 402)
            case "/failing":
                raise RuntimeError("the handler failed")
            case "/binary":
                return Response(ALL_BYTES + bytes([number % 256]))
            case "/stream":
                return StreamingResponse(pieces(number))
            case _:
                return Response(b"x" * LARGE_BYTES)

    async def count(_: Request) -> Response:
        return JSONResponse({"shop": {"effects": effects.count}})

    ways = ["POST", "PATCH"]
    routes = [Route(path, pay, methods=ways) for path in ("/payments", "/refunds", "/slow")]
    routes += [
        Route(path, other, methods=ways)
        for path in PATHS.values()
        if path not in ("/refunds", "/slow")
    ]
    app = Starlette(routes=[*routes, Route("/count", count)])
    app.state.effects = effects
    return app


def pieces(number: int) -> Iterator[bytes]:
    """Return a body in pieces."""
    for at in range(PIECES):
        yield f"{number}:{at};".encode().ljust(PIECE_BYTES, b".")


def make_wsgi_shop() -> Flask:
    """Return the shop over WSGI."""
    effects = Effects()
    app = Flask("shop")

    def pay() -> ResponseReturnValue:
        request.get_data()
        number = effects.add()
        if request.path == "/slow":
            time.sleep(SLOW_S)
        answer = jsonify({"payment": number})
        answer.status_code = 201
        for name, value in result_headers(number):
            answer.headers.add(name, value)
        return answer

    def other() -> ResponseReturnValue:
        request.get_data()
        number = effects.add()
        match request.path:
            case "/empty":
                return "", 204
            case "/redirect":
                return redirect(f"/payments/{number}", 303)
            case "/declined":
                return {"declined": number}, 402
            case "/failing":
                raise RuntimeError("the handler failed")
            case "/binary":
                return FlaskResponse(ALL_BYTES + bytes([number % 256]))
            case "/stream":
                return FlaskResponse(pieces(number))
            case _:
                return FlaskResponse(b"x" * LARGE_BYTES)

    def count() -> ResponseReturnValue:
        return {"shop": {"effects": effects.count}}

    ways = ["POST", "PATCH"]
    for path in ("/payments", *PATHS.values()):
        handler = pay if path in ("/payments", "/refunds", "/slow") else other
        app.add_url_rule(path, path, handler, methods=ways)
    app.add_url_rule("/count", "count", count)
    return app


def protected_wsgi_shop() -> WSGIIdempotencyMiddleware:
    """Return the shop over WSGI behind our middleware; `RECEIPTS` says where those are."""
    return WSGIIdempotencyMiddleware(
        cast("WSGIApp", make_wsgi_shop()),
        receipts=os.environ["RECEIPTS"],
        principal=lambda environ: str(environ.get("HTTP_X_USER", "")),
        required=True,
    )
