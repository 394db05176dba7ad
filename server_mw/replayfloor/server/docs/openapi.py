"""Adds the idempotency specification to an OpenAPI document, 3.0 or 3.1. Pure."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.docs.facts import KEY_FIELD
from replayfloor.server.docs.openapi_json import (
    Object,
    as_object,
    child,
    found,
    is_object,
    items,
    members,
    required,
)
from replayfloor.server.docs.openapi_objects import (
    EXTENSION,
    PROBLEM_SCHEMA,
    answer_headers,
    extension,
    key_parameter,
    problem_schema,
    refusals,
)
from replayfloor.server.docs.operations import (
    Applies,
    Endpoint,
    applies,
    keyed,
)
from replayfloor.server.docs.templates import Known
from replayfloor.server.settings import Settings

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
"""The members of a path item that are operations (OpenAPI 3.1, 4.8.9)."""


def add_to_openapi(
    schema: Mapping[str, object],
    settings: Settings,
    *,
    endpoints: Iterable[Endpoint] = (),
    prefix: str = "",
    owner: str | None = None,
) -> Object:
    """Return an OpenAPI document in which every protected operation says so.

    A protected operation gets the header parameter Idempotency-Key, every refusal it may meet, the
    headers of its answers, and its policy as `x-idempotency`. What it says already is kept: a
    response is extended, and only a parameter for the same header is replaced. Everything else is
    as it was, and applying this twice is the same as once. `schema` is not changed.

    Args:
        schema: the document, version 3.
        settings: the middleware's, `IdempotencyMiddleware.settings`.
        endpoints: the application's operations, where their paths or decorators say more than the
            document does; `endpoints_of(app)` has them.
        prefix: what stands before the document's paths in those that the middleware sees.
        owner: what `principal` tells apart, in a word, such as "account".

    Raises ConfigurationError for a document of another version.
    """
    version = schema.get("openapi")
    if not (isinstance(version, str) and version.startswith("3.")):
        raise ConfigurationError(f"expected an OpenAPI document of version 3, not {version!r}")
    known: dict[tuple[str, str], Endpoint] = {}
    for endpoint in endpoints:
        # Of two with the same template the application calls the first.
        known.setdefault((endpoint.method.lower(), endpoint.path_format), endpoint)
    document = copy.deepcopy(dict(schema))
    paths = child(document, "paths") if "paths" in document else {}
    changed = False
    for path, referred in paths.items():
        item = found(document, referred)
        for method in METHODS:
            operation = item.get(method)
            if not is_object(operation):
                continue
            endpoint = known.get((method, path)) or Endpoint(method, path)
            placed = Endpoint(method, prefix + endpoint.path, endpoint.overrides)
            parameters = _parameters(document, item, operation)
            applied = keyed(applies(settings, placed, _known(document, parameters)))
            if any(each.options is not None for each in applied):
                parameter = key_parameter(applied, owner)
                _set_parameter(document, item, operation, parameter)
                _add_responses(document, operation, applied, settings)
                operation[EXTENSION] = extension(applied, settings)
                paths[path], changed = item, True
    if changed:
        child(child(document, "components"), "schemas")[PROBLEM_SCHEMA] = problem_schema()
    return document


def _add_responses(
    document: Object, operation: Object, applied: Sequence[Applies], settings: Settings
) -> None:
    # A document that was YAML may have numbers here, which JSON has not.
    declared = {str(status): each for status, each in child(operation, "responses").items()}
    responses: Object = {**declared}
    for status, response in refusals(applied, settings).items():
        responses[status] = _merged(response, _declared(document, declared, status))
    for status, referred in responses.items():
        headers = answer_headers(status, applied, settings)
        if headers and not status.startswith("x-"):
            response = required(document, referred)
            responses[status] = {**response, "headers": headers | members(response, "headers")}
    operation["responses"] = responses


# -- the parameter --------------------------------------------------------------------------------


def _parameters(document: Object, item: Object, operation: Object) -> list[Object]:
    both = (*items(item, "parameters"), *items(operation, "parameters"))
    return [found(document, each) for each in both]


def _set_parameter(document: Object, item: Object, operation: Object, parameter: Object) -> None:
    """Put the parameter where the operation has one for the same header, or behind the others.

    One for all operations of the path is overridden, by a parameter of the same spelling.
    """
    shared = (found(document, each) for each in items(item, "parameters"))
    spelled = next((each["name"] for each in shared if _is_key(each)), parameter["name"])
    parameters = items(operation, "parameters")
    others = [each for each in parameters if not _is_key(found(document, each))]
    at = next((n for n, each in enumerate(parameters) if each not in others), len(others))
    operation["parameters"] = [*others[:at], {**parameter, "name": spelled}, *others[at:]]


def _is_key(parameter: Object) -> bool:
    # Field names have no letter case (RFC 9110, 5.1); FastAPI derives "idempotency-key".
    name = parameter.get("name")
    return (
        parameter.get("in") == "header"
        and isinstance(name, str)
        and name.lower() == KEY_FIELD.lower()
    )


def _known(document: Object, parameters: Iterable[Object]) -> Known:
    """Return what the document says of the values of path parameters."""
    said: dict[str, str | Sequence[str]] = {}
    for parameter in parameters:
        name = parameter.get("name")
        if parameter.get("in") == "path" and isinstance(name, str):
            value = _value(found(document, parameter.get("schema")))
            if value:
                said[name] = value
    return said


def _value(schema: Object) -> str | Sequence[str]:
    values = items(schema, "enum") or ([schema["const"]] if "const" in schema else [])
    if values:
        return [str(value) for value in values]
    match schema.get("type"), schema.get("format"):
        case "integer", _:
            return "int"
        case "number", _:
            return "float"
        case "string", "uuid":
            return "uuid"
        case _:
            return ""


# -- responses ------------------------------------------------------------------------------------


def _declared(document: Object, responses: Object, status: str) -> Object:
    """Return what the operation says of a status so far.

    A response for one status replaces the one for its range, or the default (OpenAPI 3.1, 4.8.16):
    what is said there has to be said here too.
    """
    for name in (status, f"{status[0]}XX", "default"):
        if name in responses:
            return copy.deepcopy(required(document, responses[name]))
    return {}


def _merged(ours: Object, theirs: Object) -> Object:
    """Return a declared response extended by ours; what both say, theirs says better."""
    if not theirs:
        return ours
    added, said = str(ours["description"]), str(theirs.get("description") or "").rstrip()
    content = members(ours, "content")
    for media_type, shown in members(theirs, "content").items():
        known = content.get(media_type)
        content[media_type] = shown if known is None else _either(shown, known)
    return {
        **theirs,
        "description": said if added in said else f"{said}\n\n{added}".lstrip(),
        "headers": members(ours, "headers") | members(theirs, "headers"),
        "content": content,
    }


def _either(theirs: object, ours: object) -> Object:
    """Return a media type object that takes both: the application may have its own problems."""
    said, added = as_object(theirs), as_object(ours)
    schema, ours_too = said.get("schema", {}), added["schema"]
    if schema == ours_too or ours_too in items(as_object(schema), "anyOf"):
        return said
    examples = members(added, "examples") | members(said, "examples")
    if "example" in said:
        examples["of-the-operation"] = {"value": said.pop("example")}
    return {**said, "schema": {"anyOf": [schema, ours_too]}, "examples": examples}
