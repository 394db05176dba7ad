"""A FastAPI application documents itself, and what it does is what its document says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate

from replayfloor.core.errors import ConfigurationError
from replayfloor.core.problem import MEDIA_TYPE, TYPE_PREFIX, ProblemKind
from replayfloor.server import IdempotencyMiddleware, Route
from replayfloor.server.docs import Endpoint, document_openapi, endpoints_of
from replayfloor.server.docs.openapi_objects import EXTENSION
from replayfloor.server.docs.problems import OF_DELIVERIES
from replayfloor.server.stores import AsyncReceipts, open_async_receipts
from server.docs_settings import example_app, settings_of

PROJECT = Path(__file__).resolve().parents[2]
DAYS_35 = 35 * 86_400
OLD_KEY = '"017f22e2-79b0-7cc3-98c4-dc0c0c07398f"'  # of February 2022

OPTIONS: dict[str, Any] = {
    "retention": DAYS_35,
    "body_bytes_max": 100,
    "response_bytes_max": 50,
    "routes": [
        Route("POST", "/pay", required=True),
        Route("PUT", "/pay/{id:int}", effects="atomic"),
    ],
}


def protected_app(receipts: str | AsyncReceipts = "sqlite:///never.db") -> FastAPI:
    """Return the example application with a middleware of its own; nothing is opened."""
    app = example_app()
    app.add_middleware(IdempotencyMiddleware, receipts=receipts, principal=None, **OPTIONS)
    return app


def operation(app: FastAPI, method: str, path: str) -> dict[str, Any]:
    """Return an operation of an application's document."""
    found = app.openapi()["paths"][path][method.lower()]
    assert isinstance(found, dict)
    return found


def key_parameters(documented: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parameters for the key."""
    parameters = documented.get("parameters", [])
    return [each for each in parameters if each["name"].lower() == "idempotency-key"]


def kinds_of(documented: dict[str, Any]) -> set[str]:
    """Return the kinds of problems that the responses have examples of."""
    return {
        kind
        for response in documented["responses"].values()
        for kind in response.get("content", {}).get(MEDIA_TYPE, {}).get("examples", {})
    }


# -- every protected route -----------------------------------------------------------------------

KEYED = set(ProblemKind) - OF_DELIVERIES
EXTERNAL = KEYED - {ProblemKind.MISSING_KEY}
PROTECTED = {
    ("POST", "/pay"): KEYED,
    ("PUT", "/pay/{id}"): EXTERNAL - {ProblemKind.HANDLER_FAILED},
    ("POST", "/files/{rest}"): EXTERNAL,
    ("POST", "/shops/{shop}/refunds"): KEYED - {ProblemKind.OUTCOME_UNKNOWN},
}


def test_every_protected_route_publishes_the_header_every_error_and_the_expiry_policy() -> None:
    app = protected_app()
    document_openapi(app)
    validate(app.openapi())

    found = {
        (method.upper(), path): documented
        for path, item in app.openapi()["paths"].items()
        for method, documented in item.items()
        if EXTENSION in documented
    }
    assert found.keys() == PROTECTED.keys()
    for name, kinds in PROTECTED.items():
        (parameter,) = key_parameters(found[name])
        assert parameter["required"] is (ProblemKind.MISSING_KEY in kinds), name
        assert "35 days (3024000 s, P35D)" in parameter["description"]
        assert kinds_of(found[name]) == kinds, name
        assert found[name][EXTENSION]["retention_s"] == DAYS_35


def test_an_unprotected_operation_is_as_fastapi_makes_it() -> None:
    app = protected_app()
    document_openapi(app)

    plain = example_app().openapi()["paths"]["/pay/{id}"]["get"]
    assert operation(app, "GET", "/pay/{id}") == plain


def test_the_payments_example_can_be_documented() -> None:
    path = PROJECT / "examples" / "payments_fastapi.py"
    spec = importlib.util.spec_from_file_location("documented_payments", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    document_openapi(module.app)
    validate(module.app.openapi())

    (parameter,) = key_parameters(operation(module.app, "POST", "/payments"))
    assert parameter["required"] is True


# -- the document and the answers ----------------------------------------------------------------


REQUESTS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("missing-key", "POST", "/pay", {"json": {"amount": 1}, "key": None}),
    ("invalid-key", "POST", "/pay", {"json": {"amount": 1}, "key": "bare"}),
    ("key-expired", "POST", "/pay", {"json": {"amount": 1}, "key": OLD_KEY}),
    ("", "POST", "/pay", {"json": {"amount": 1}}),
    ("", "POST", "/pay", {"json": {"amount": 1}}),
    ("key-reused", "POST", "/pay", {"json": {"amount": 2}}),
    ("", "POST", "/pay", {"json": {"amount": "x"}, "key": '"k-2"'}),
    ("body-too-large", "POST", "/pay", {"json": {"amount": 10**100}, "key": '"k-3"'}),
    ("", "POST", "/pay", {"json": {"amount": 500}, "key": '"k-4"'}),
    ("handler-failed", "POST", "/pay", {"json": {"amount": 500}, "key": '"k-4"'}),
    ("", "PUT", "/pay/60", {}),
    ("answer-not-kept", "PUT", "/pay/60", {}),
    ("missing-key", "POST", "/shops/s/refunds", {"key": None}),
    ("", "POST", "/shops/s/refunds", {}),
]
ADDED = {"retry-after", "link", "idempotent-replayed", "idempotency-key-lifetime"}


@pytest.mark.anyio
async def test_every_answer_is_one_that_the_document_announces(tmp_path: Path) -> None:
    receipts = open_async_receipts(f"sqlite:///{tmp_path / 'receipts.db'}")
    app = protected_app(receipts=receipts)
    document_openapi(app)
    try:
        seen = await _answers(app)
    finally:
        await receipts.close()

    assert {("", 201, False), ("", 201, True), ("", 422, False)} <= seen
    assert ("handler-failed", 500, True) in seen


async def _answers(app: FastAPI) -> set[tuple[str, int, bool]]:
    document = app.openapi()
    seen: set[tuple[str, int, bool]] = set()
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        for kind, method, path, sent in REQUESTS:
            key = sent.get("key", f'"{method}{path}"')
            headers = {} if key is None else {"Idempotency-Key": key}
            answer = await client.request(method, path, headers=headers, json=sent.get("json"))
            seen.add((kind, answer.status_code, "idempotent-replayed" in answer.headers))
            template = path.replace("/60", "/{id}").replace("/s/", "/{shop}/")
            _is_announced(answer, kind, document["paths"][template][method.lower()], document)
    return seen


def _is_announced(
    answer: httpx.Response, kind: str, documented: dict[str, Any], document: dict[str, Any]
) -> None:
    response = documented["responses"][str(answer.status_code)]
    if answer.headers.get("content-type") == MEDIA_TYPE:
        assert answer.json()["type"] == TYPE_PREFIX + kind
        _is_valid(answer.json(), response["content"][MEDIA_TYPE]["schema"], document)
    else:
        assert kind == ""
    announced = {name.lower() for name in response["headers"]}
    assert announced >= ADDED & answer.headers.keys(), kind


def test_every_example_is_valid() -> None:
    app = protected_app()
    document_openapi(app)
    document = app.openapi()
    checked = 0
    for name in PROTECTED:
        for response in operation(app, *name)["responses"].values():
            content = response.get("content", {}).get(MEDIA_TYPE, {})
            for example in content.get("examples", {}).values():
                _is_valid(example["value"], content["schema"], document)
                checked += 1
        (parameter,) = key_parameters(operation(app, *name))
        _is_valid(parameter["example"], parameter["schema"], document)

    assert checked >= len(ProblemKind)


def _is_valid(value: object, schema: dict[str, Any], document: dict[str, Any]) -> None:
    root = {**schema, "components": document["components"]}
    OAS31Validator(root).validate(value)


# -- the method ----------------------------------------------------------------------------------


def test_nothing_is_opened_for_a_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = protected_app()
    document_openapi(app)
    app.openapi()

    assert list(tmp_path.iterdir()) == []


def test_the_document_is_kept_as_fastapi_keeps_it_and_made_again_when_it_has_to_be() -> None:
    app = protected_app()
    document_openapi(app)
    first = app.openapi()

    assert app.openapi() is first
    assert app.openapi_schema is first

    @app.post("/later")
    async def later() -> None: ...

    app.openapi_schema = None
    assert EXTENSION in operation(app, "POST", "/later")


def test_called_again_it_replaces_what_it_did_before() -> None:
    app = protected_app()
    for _ in range(2):
        document_openapi(app)
        app.openapi()
    once = protected_app()
    document_openapi(once)

    assert app.openapi() == once.openapi()

    other, fresh = settings_of(retention=60), example_app()
    document_openapi(app, other)
    document_openapi(fresh, other)
    assert app.openapi() == fresh.openapi() != once.openapi()


def test_a_document_of_the_users_own_is_extended_too() -> None:
    app = protected_app()
    plain = app.openapi

    def custom() -> dict[str, Any]:
        return plain() | {"tags": [{"name": "money"}]}

    object.__setattr__(app, "openapi", custom)
    document_openapi(app)

    assert app.openapi()["tags"] == [{"name": "money"}]
    assert EXTENSION in operation(app, "POST", "/pay")


def test_a_middleware_around_the_application_is_given() -> None:
    app = example_app()
    around = IdempotencyMiddleware(app, receipts="sqlite:///never.db", principal=None, **OPTIONS)
    document_openapi(app, around)

    assert operation(app, "POST", "/pay")[EXTENSION]["required"] is True


def test_without_a_middleware_or_with_two_there_is_nothing_to_say() -> None:
    with pytest.raises(ConfigurationError, match="no IdempotencyMiddleware"):
        document_openapi(example_app())
    app = protected_app()
    app.add_middleware(IdempotencyMiddleware, receipts="sqlite:///r.db", principal=None)
    with pytest.raises(ConfigurationError, match="2 IdempotencyMiddleware"):
        document_openapi(app)


def test_a_mounted_application_is_documented_with_its_prefix() -> None:
    inner, outer = example_app(), FastAPI()
    outer.mount("/v1", inner)
    routes = [Route("POST", "/v1/pay", required=True)]
    document_openapi(inner, settings_of(routes=routes, methods=()), prefix="/v1")

    assert operation(inner, "POST", "/pay")[EXTENSION]["required"] is True
    assert Endpoint("POST", "/v1/pay") in endpoints_of(outer)
