"""Reads the JSON of an OpenAPI document, whose shape nobody has checked. Pure."""

from __future__ import annotations

import copy
from typing import TypeAlias, TypeGuard, cast

from replayfloor.core.errors import ConfigurationError

Object: TypeAlias = dict[str, object]
"""A JSON object."""


def is_object(value: object) -> TypeGuard[Object]:
    """Say whether a value is an object."""
    return isinstance(value, dict)


def as_object(value: object) -> Object:
    """Return the value, or an empty object if it is none."""
    return value if is_object(value) else {}


def child(parent: Object, name: str) -> Object:
    """Return a member that is an object; made if it is not there. Raises ConfigurationError."""
    value = parent.setdefault(name, {})
    if not is_object(value):
        raise ConfigurationError(f"the OpenAPI document has something else than an object: {name}")
    return value


def members(parent: Object, name: str) -> Object:
    """Return a new object with what a member has; empty if it is not there."""
    return dict(as_object(parent.get(name)))


def items(parent: Object, name: str) -> list[object]:
    """Return what a member that is an array has; empty if it is not there."""
    value = parent.get(name)
    return cast("list[object]", value) if isinstance(value, list) else []


def found(document: Object, value: object) -> Object:
    """Return an object, or a copy of the one that it refers to; empty if that is not known."""
    seen: set[str] = set()
    while is_object(value) and "$ref" in value:
        reference = str(value["$ref"])
        if not reference.startswith("#/") or reference in seen:
            return {}
        seen.add(reference)
        value = copy.deepcopy(_target(document, reference))
    return as_object(value)


def required(document: Object, value: object) -> Object:
    """Return the same of what has to be known. Raises ConfigurationError if it is not."""
    known = found(document, value)
    if not known and is_object(value) and "$ref" in value:
        raise ConfigurationError(f"{value['$ref']!r} is not in the OpenAPI document")
    return known


def _target(document: Object, reference: str) -> object:
    value: object = document
    for part in reference[2:].split("/"):
        value = as_object(value).get(part.replace("~1", "/").replace("~0", "~"))
    return value
