"""OpenAPI documents for the tests, and what is read of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from openapi_spec_validator import validate

from replayfloor.server.docs import add_to_openapi
from server.docs_settings import settings_of

OK: dict[str, Any] = {"description": "Done."}


def document(
    path: str = "/pay", *, version: str = "3.1.0", method: str = "post", **operation: object
) -> dict[str, Any]:
    """Return a document with one operation."""
    return {
        "openapi": version,
        "info": {"title": "Shop", "version": "1"},
        "paths": {path: {method: {"responses": {"200": OK}, **operation}}},
    }


ID: dict[str, Any] = {"name": "id", "in": "path", "required": True}
INTEGER, TEXT = {"type": "integer"}, {"type": "string"}


def large_document(version: str) -> dict[str, Any]:
    """Return a document with operations that the settings treat differently."""
    parts = [
        document("/pay", version=version),
        document("/pay/{id}", parameters=[{**ID, "schema": INTEGER}]),
        document("/files/{rest}", parameters=[{**ID, "name": "rest", "schema": TEXT}]),
        document("/a/{id}", method="put", parameters=[{**ID, "schema": TEXT}]),
        document("/other", method="delete"),
    ]
    paths = {path: item for part in parts for path, item in part["paths"].items()}
    return parts[0] | {"paths": paths}


def operations(schema: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield method, path and operation."""
    for path, item in schema["paths"].items():
        for method in item.keys() & {"get", "put", "post", "delete", "patch"}:
            yield method.upper(), path, item[method]


def key_parameters(operation: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parameters for the key."""
    parameters = operation.get("parameters", [])
    return [each for each in parameters if each.get("name", "").lower() == "idempotency-key"]


def added(schema: dict[str, Any], **options: object) -> dict[str, Any]:
    """Return the one operation of a document after the specification was added."""
    made: Any = add_to_openapi(schema, settings_of(**options))
    validate(made)
    ((_, _, operation),) = operations(made)
    return operation


def types_in(content: dict[str, Any]) -> set[str]:
    """Return the problem types that a media type object of ours allows."""
    schema = content["schema"]
    ours = schema["anyOf"][-1] if "anyOf" in schema else schema
    return set(ours["allOf"][1]["properties"]["type"]["enum"])
