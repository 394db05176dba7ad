"""Which endpoint an ASGI request is for, asked of the application's own router.

Starlette, FastAPI and Django's ASGI handler. No path is matched here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FunctionType
from typing import Protocol, TypeAlias

from starlette.applications import Starlette
from starlette.routing import Match
from starlette.routing import Router as StarletteRouter
from starlette.types import ASGIApp, Scope

from replayfloor.server.decorator_django import asgi_views
from replayfloor.server.decorator_find import LAYERS_MAX, Finder
from replayfloor.server.decorator_mark import SAFE_METHODS, Lookup, overrides_of
from replayfloor.server.routes import Overrides

Routed: TypeAlias = Starlette | StarletteRouter

INNER = ("app", "application")
"""Where a middleware keeps what it wraps; the first is Starlette's convention."""


class AsgiEndpoints:
    """Finds the options of a request at its endpoint, with the framework's own router.

    The router is that of the application, behind any middlewares that keep what they wrap in
    `.app`; else that of the Starlette application around this middleware. Below a route of its own
    (`Route(…, middleware=[…])`) the endpoint is known already.
    """

    __slots__ = ("_app", "_finder", "_looked")

    def __init__(self, app: ASGIApp) -> None:
        """Take what the middleware wraps. It is not looked at before the first request."""
        self._app = app
        self._finder: Finder[Scope] | None = None
        self._looked = False

    @property
    def none_decorated(self) -> bool:
        """Whether it was found out that no endpoint is: then there is nothing to look up, and no
        guard that asks who serves it."""
        return self._finder is not None and self._finder.none_decorated

    def lookup(self, scope: Scope) -> Lookup:
        """Return what finds the options of one request when it is called."""
        if scope["type"] != "http" or scope["method"] in SAFE_METHODS:
            return Lookup(None)
        return Lookup(lambda: self.find(scope))

    def find(self, scope: Scope) -> Overrides | None:
        """Return what the decorator of the request's endpoint says, or None. Never raises."""
        if scope["type"] != "http" or scope["method"] in SAFE_METHODS:
            return None
        if not self._looked:
            self._finder, self._looked = _finder_behind(self._app), True
        if self._finder is None:
            around: object = scope.get("app")
            # Once its router has chosen, the paths below are no longer those of its routes.
            if not isinstance(around, Starlette) or around.router is scope.get("router"):
                return overrides_of(scope.get("endpoint"), scope["method"])
            self._finder = Finder(StarletteRoutes(around))
        return self._finder.find(scope["method"], scope)


class StarletteRoutes:
    """The endpoints of a Starlette or FastAPI application, or of a router."""

    __slots__ = ("_app",)

    def __init__(self, app: Routed) -> None:
        """Take the application."""
        self._app = app

    def endpoints(self) -> Iterator[object]:
        """Return every endpoint, those of mounted applications too."""
        return _endpoints(self._app, LAYERS_MAX)

    def endpoint(self, request: Scope) -> object:
        """Return the endpoint that the router chooses, or None if it answers by itself."""
        found: object = self._app
        for _ in range(LAYERS_MAX):
            app = _routed_behind(found)
            if app is None:
                return found
            # A copy: FastAPI's routers take notes in the scope.
            request = dict(request)
            if root_path := _root_path(app):
                request["root_path"] = root_path
            child = _matched(app.routes, request)
            if child is None:
                return None
            request.update(child)
            found = child.get("endpoint")
        return None


class _Matching(Protocol):
    """A route, or what FastAPI gives for one of an included router."""

    def matches(self, scope: Scope, /) -> tuple[Match, Scope]: ...


def _finder_behind(app: ASGIApp) -> Finder[Scope] | None:
    for layer in _layers(app):
        if isinstance(layer, Routed):
            return Finder(StarletteRoutes(layer))
        if (views := asgi_views(layer)) is not None:
            return Finder(views)
    return None


def _routed_behind(app: object) -> Routed | None:
    return next((layer for layer in _layers(app) if isinstance(layer, Routed)), None)


def _layers(app: object) -> Iterator[object]:
    """Return an application and what it wraps, from the outside, as far as it can be seen."""
    for _ in range(LAYERS_MAX):
        yield app
        if isinstance(app, type | FunctionType):
            return
        # The middlewares of a router wrap its method.
        owner: object = getattr(app, "__self__", None)
        if isinstance(owner, StarletteRouter) and owner.app == app:
            yield owner
        inner = (getattr(app, name, None) for name in INNER)
        app = next((each for each in inner if each is not None), None)
        if app is None:
            return


def _matched(routes: Iterable[_Matching], scope: Scope) -> Scope | None:
    """Return what the first route that serves the request adds to the scope, or None.

    A route that fits but for the method (Match.PARTIAL) would only answer 405.
    """
    for route in routes:
        match, child = route.matches(scope)
        if match is Match.FULL:
            inner = None if "endpoint" in child else _included([route])
            return child if inner is None else _matched(inner, scope)
    return None


def _included(routes: Sequence[object]) -> Iterable[_Matching] | None:
    """Return routes with those of included routers in their place, or None without FastAPI.

    Since FastAPI 0.137 an included router is one route, which does not tell its endpoints;
    `iter_route_contexts` is FastAPI's public function for that, from 0.137.2. Before, including a
    router copied its routes.
    """
    routing = sys.modules.get("fastapi.routing")
    contexts: Callable[[Sequence[object]], Iterable[_Matching]] | None
    contexts = getattr(routing, "iter_route_contexts", None)
    return None if contexts is None else contexts(routes)


def _endpoints(app: Routed, depth: int) -> Iterator[object]:
    flat = _included(app.routes)
    for route in app.routes if flat is None else flat:
        endpoint: object = getattr(route, "endpoint", None)
        # A mount and a host have none.
        if endpoint is None:
            endpoint = getattr(route, "app", None)
        routed = _routed_behind(endpoint)
        if routed is None:
            yield endpoint
        elif depth:
            yield from _endpoints(routed, depth - 1)


def _root_path(app: Routed) -> str:
    """Return what FastAPI puts into the scope when it is called."""
    root_path: object = getattr(app, "root_path", "")
    return root_path if isinstance(root_path, str) else ""
