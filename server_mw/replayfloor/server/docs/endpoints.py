"""The operations of an application, as its framework's routes tell them.

No framework is imported: each is known by what its applications have. No request is served, and
nothing is called but what lists the routes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol, cast

from replayfloor.server.decorator_find import LAYERS_MAX
from replayfloor.server.decorator_mark import SAFE_METHODS, overrides_of
from replayfloor.server.docs.openapi import METHODS
from replayfloor.server.docs.operations import Endpoint

INNER: Final = ("app", "application", "wsgi_app")
"""Where middlewares keep what they wrap: Starlette's name, others', and Flask's method."""

SHARED_KINDS: Final = frozenset({"int", "float", "uuid", "path"})
"""Parameters that Flask and Starlette name alike."""

_FLASK_PARAMETER = re.compile(r"<(?:(\w+)(?:\([^>]*\))?:)?(\w+)>")
"""`<id>`, `<int:id>` or `<int(min=1):id>`."""


def endpoints_of(app: object) -> tuple[Endpoint, ...]:
    """Return the operations of a Starlette, FastAPI or Flask application, in their order.

    It may be wrapped in middlewares that keep it in `.app`, `.application` or `.wsgi_app`. The
    operations of mounted Starlette applications are there too, with their full paths. What another
    framework serves below a mount, and a route that serves every method, is not listed: nobody can
    tell what it has.
    """
    return tuple(_endpoints(app, "", LAYERS_MAX))


def _endpoints(app: object, prefix: str, depth: int) -> Iterator[Endpoint]:
    for layer in _layers(app):
        routes: object = getattr(layer, "routes", None)
        if isinstance(routes, list | tuple):
            return _of_routes(cast("Sequence[object]", routes), prefix, depth)
        if hasattr(layer, "url_map") and hasattr(layer, "view_functions"):
            return _of_flask(cast("_Flask", layer), prefix)
    return iter(())


def _layers(app: object) -> Iterator[object]:
    for _ in range(LAYERS_MAX):
        yield app
        # Of a method that a middleware wraps, the object.
        yield getattr(app, "__self__", None)
        inner = (getattr(app, name, None) for name in INNER)
        app = next((each for each in inner if each is not None), None)
        if app is None:
            return


def _of_routes(routes: Sequence[object], prefix: str, depth: int) -> Iterator[Endpoint]:
    for route in _flat(routes):
        path: object = getattr(route, "path", None)
        endpoint: object = getattr(route, "endpoint", None)
        if not isinstance(path, str):
            continue
        if endpoint is None:
            # A mount; what it has below it may be anything.
            if depth:
                yield from _endpoints(getattr(route, "app", None), prefix + path, depth - 1)
            continue
        for method in _methods(route, endpoint):
            yield _endpoint(method, prefix + path, endpoint)


def _flat(routes: Sequence[object]) -> Iterable[object]:
    """Return the routes of an application with those of included routers.

    Since FastAPI 0.137 an included router is one route; `iter_route_contexts` is FastAPI's public
    function for those in it. Before, including a router copied its routes.
    """
    flat = getattr(sys.modules.get("fastapi.routing"), "iter_route_contexts", None)
    if flat is None:
        return routes
    return cast("Callable[[Sequence[object]], Iterable[object]]", flat)(routes)


def _methods(route: object, endpoint: object) -> Sequence[str]:
    methods: object = getattr(route, "methods", None)
    if methods is not None:
        return sorted(cast("Iterable[str]", methods))
    if isinstance(endpoint, type) and hasattr(route, "methods"):
        return [method.upper() for method in METHODS if hasattr(endpoint, method)]
    return ()


def _endpoint(method: str, path: str, endpoint: object) -> Endpoint:
    overrides = None if method in SAFE_METHODS else overrides_of(endpoint, method)
    return Endpoint(method, path, overrides)


class _Rule(Protocol):
    rule: str
    endpoint: str
    methods: set[str] | None


class _Rules(Protocol):
    def iter_rules(self) -> Iterable[_Rule]: ...


class _Flask(Protocol):
    url_map: _Rules
    view_functions: Mapping[str, object]


def _of_flask(app: _Flask, prefix: str) -> Iterator[Endpoint]:
    for rule in app.url_map.iter_rules():
        path = prefix + _FLASK_PARAMETER.sub(_parameter, rule.rule)
        for method in sorted(rule.methods or ()):
            yield _endpoint(method, path, app.view_functions.get(rule.endpoint))


def _parameter(found: re.Match[str]) -> str:
    kind, name = found.groups()
    return f"{{{name}:{kind}}}" if kind in SHARED_KINDS else f"{{{name}}}"
