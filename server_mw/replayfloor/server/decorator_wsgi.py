"""Which endpoint a WSGI request is for, asked of the application's own router: Flask and Django.

No path is matched here. Flask is never imported, see `decorator_django.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, Protocol, cast

from replayfloor.server.decorator_django import Environ, wsgi_views
from replayfloor.server.decorator_find import LAYERS_MAX, Finder
from replayfloor.server.decorator_mark import SAFE_METHODS, Lookup
from replayfloor.server.routes import Overrides

INNER = ("app", "application", "wsgi_app")
"""Where a middleware keeps what it wraps: Werkzeug's and WhiteNoise's names, and a common one."""


class WsgiEndpoints:
    """Finds the options of a request at its endpoint, with the framework's own router.

    The router is that of a Flask object or of a Django handler, behind any middlewares that keep
    what they wrap in `.app` or `.application`. Other applications have no endpoints.
    """

    __slots__ = ("_app", "_finder", "_looked")

    def __init__(self, app: Callable[..., object]) -> None:
        """Take what the middleware wraps. It is not looked at before the first request."""
        self._app = app
        self._finder: Finder[Environ] | None = None
        self._looked = False

    @property
    def none_decorated(self) -> bool:
        """Whether it was found out that no endpoint is: then there is nothing to look up, and no
        guard that asks who serves it."""
        return self._finder is not None and self._finder.none_decorated

    def lookup(self, environ: Environ) -> Lookup:
        """Return what finds the options of one request when it is called."""
        if _method(environ) in SAFE_METHODS:
            return Lookup(None)
        return Lookup(lambda: self.find(environ))

    def find(self, environ: Environ) -> Overrides | None:
        """Return what the decorator of the request's endpoint says, or None. Never raises."""
        if not self._looked:
            self._finder = _finder_behind(self._app)
            self._looked = True
        if self._finder is None:
            return None
        return self._finder.find(_method(environ), environ)


class FlaskViews:
    """The view functions of a Flask application."""

    __slots__ = ("_app",)

    def __init__(self, app: _Flask) -> None:
        """Take the application."""
        self._app = app

    def endpoints(self) -> Iterable[object]:
        """Return every view function."""
        return self._app.view_functions.values()

    def endpoint(self, request: Environ) -> object:
        """Return the view function of the rule that fits.

        Raises werkzeug's HTTPException if none does: 404, 405, or a redirect to the slash.
        """
        # A copy: the request leaves itself in the environ. It leaves the body alone.
        adapter = self._app.create_url_adapter(self._app.request_class(dict(request)))
        rule, _arguments = adapter.match(return_rule=True)
        return self._app.view_functions[rule.endpoint]


class _Rule(Protocol):
    endpoint: str


class _Adapter(Protocol):
    def match(self, *, return_rule: Literal[True]) -> tuple[_Rule, object]: ...


class _Flask(Protocol):
    view_functions: Mapping[str, object]
    request_class: Callable[[Environ], object]

    def create_url_adapter(self, request: object) -> _Adapter: ...


def _method(environ: Environ) -> str:
    # Flask and Django serve "post" as POST.
    return str(environ.get("REQUEST_METHOD", "")).upper()


def _finder_behind(app: object) -> Finder[Environ] | None:
    flask: object = getattr(sys.modules.get("flask"), "Flask", None)
    for layer in _layers(app):
        if isinstance(flask, type) and isinstance(layer, flask):
            return Finder(FlaskViews(cast("_Flask", layer)))
        if (views := wsgi_views(layer)) is not None:
            return Finder(views)
    return None


def _layers(app: object) -> Iterator[object]:
    """Return an application and what it wraps, from the outside, as far as it can be seen."""
    for _ in range(LAYERS_MAX):
        yield app
        # `Flask.wsgi_app` is the method that Flask's middlewares wrap.
        yield getattr(app, "__self__", None)
        # Werkzeug's dispatcher has other applications beside the one in `.app`.
        if hasattr(app, "mounts"):
            return
        inner = (getattr(app, name, None) for name in INNER)
        app = next((each for each in inner if each is not None), None)
        if app is None:
            return
