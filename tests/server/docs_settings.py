"""Settings of every kind for the tests of the documentation, and an application to document."""

from __future__ import annotations

from typing import cast

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse, Response
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from replayfloor.server.body_rules import FingerprintRequest
from replayfloor.server.decorator import idempotent
from replayfloor.server.options import MiddlewareOptions
from replayfloor.server.routes import Route
from replayfloor.server.settings import Settings, build

PATHS = ("/pay", "/pay/{id}", "/pay/{id:int}", "/pay/1", "/files/{rest:path}", "/a|b/{x}")
KEY_PATTERNS = (None, "[a-z0-9|-]+", "[0-9]{3,}", "(?i)[0-9A-F-]{36}", "`+ab?`+", "pay_[a-z]+")
POINTERS = ("/sent_at", "/items/0/ts", "/a~1b|c", "/m~0n")


def some_examples(count: int) -> settings:
    """Return how a test of drawn settings runs: drawing takes most of its time."""
    return settings(max_examples=count, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def by_reference(request: FingerprintRequest) -> bytes:
    """Stand for the body by a part of it."""
    return request.body[:8]


def settings_of(**options: object) -> Settings:
    """Return the settings of a middleware with these options."""
    return build(cast("MiddlewareOptions", options))


STATUSES = st.integers(300, 599) | st.sampled_from((600, 999))


@st.composite
def _handling(draw: st.DrawFn) -> dict[str, object]:
    """The options that a route may have as well."""
    free = draw(st.sets(STATUSES, max_size=4))
    store = draw(st.sets(STATUSES, max_size=4)) - free
    handling: dict[str, object] = {
        "required": draw(st.booleans()),
        "effects": draw(st.sampled_from(("atomic", "external", "repeatable"))),
        "ambiguous": draw(st.sampled_from(("store", "release"))),
        "store": store,
        "free": free,
        "lease_s": draw(st.sampled_from((0.05, 1, 30, 90))),
        "wait_for_s": draw(st.sampled_from((0, 0.25, 5))),
    }
    body: dict[str, object] = draw(
        st.sampled_from(
            (
                {},
                {"fingerprint": "off"},
                {"fingerprint": by_reference},
                {"exclude": POINTERS[:1]},
                {"exclude": POINTERS},
            )
        )
    )
    return handling | body


@st.composite
def _route(draw: st.DrawFn) -> Route:
    path = draw(st.sampled_from(PATHS))
    method = draw(st.sampled_from(("POST", "PUT", "*")))
    options = draw(_handling()) | {"sensitive": draw(st.booleans())}
    # What is freed or stored by default is another matter for each route.
    return Route(method, path, **options)  # type: ignore[arg-type]


@st.composite
def every_settings(draw: st.DrawFn) -> Settings:
    """Draw settings with any options that can be honoured."""
    retention = draw(st.none() | st.sampled_from((1, 1.5, 86_400, 90_061.25, 35 * 86_400)))
    low = draw(st.sampled_from((1, 2, 16, 36, 300)))
    options = draw(_handling()) | {
        "retention": retention,
        "require_uuid7": retention is not None and draw(st.booleans()),
        "on_outage": draw(st.sampled_from(("refuse", "execute"))),
        "namespace": draw(st.sampled_from(("default", "shop"))),
        "accept_unquoted": draw(st.booleans()),
        "key_length_min": low,
        "key_length_max": low + draw(st.sampled_from((0, 1, 219))),
        "key_pattern": draw(st.sampled_from(KEY_PATTERNS)),
        "body_bytes_max": draw(st.sampled_from((0, 1000, 1 << 20))),
        "response_bytes_max": draw(st.sampled_from((0, 999, 1 << 16))),
        "response_headers_max": draw(st.sampled_from((10, 100))),
        "methods": draw(st.sampled_from(((), ("POST",), ("POST", "PATCH", "PUT")))),
        "routes": draw(st.lists(_route(), max_size=3)),
    }
    return settings_of(**options)


class Payment(BaseModel):
    """A body, so that the operation has a validation error of its own."""

    amount: int


def example_app() -> FastAPI:
    """Return an application with routes of every kind, without a middleware."""
    app = FastAPI()
    router = APIRouter(prefix="/shops/{shop}")

    @app.post("/pay", status_code=201, responses={409: {"description": "Already paid."}})
    async def pay(payment: Payment) -> dict[str, int]:
        if payment.amount == 500:
            raise RuntimeError("the provider did not answer")
        return {"amount": payment.amount}

    @app.put("/pay/{id}")
    async def correct(id: int) -> Response:
        return Response(b"x" * id)

    @app.post("/files/{rest:path}")
    async def upload(rest: str, request: Request) -> JSONResponse:
        return JSONResponse({"bytes": len(await request.body()), "rest": rest}, 404)

    @router.post("/refunds", status_code=204)
    @idempotent(required=True, effects="repeatable")
    async def refund(shop: str) -> None: ...

    @app.get("/pay/{id}")
    async def show(id: int) -> None: ...

    app.include_router(router)
    return app
