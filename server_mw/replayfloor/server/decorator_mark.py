"""What `@idempotent` leaves on an endpoint, and the guard that runs there. No framework here.

The guard fails closed: a decorated endpoint runs only where a middleware serves the request, and
only if the options that were written at it are the ones in force.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar, Token
from typing import cast
from weakref import WeakSet

from replayfloor.core.errors import UsageError
from replayfloor.server.routes import Overrides

MARK = "__replayfloor_idempotent__"
"""The attribute that carries the Overrides. In `__dict__`, so that functools.wraps takes it along
to whatever is wrapped around the decorated endpoint."""

WHOLE = ("dispatch", "dispatch_request")
"""What serves every method of a class-based endpoint: Starlette's, Django's and DRF's name for it,
and Flask's."""

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""RFC 9110, 9.2.1. An endpoint often serves them beside the method that writes, or the framework
adds them: there is nothing to repeat, and nobody sends a key with them."""

ORIGINALS: WeakSet[Callable[..., object]] = WeakSet()
"""The functions that were decorated, to tell when one of them is registered in place of what the
decorator returned."""


class Lookup:
    """Finds the options of one request's endpoint when asked, and keeps the answer.

    A middleware gives it to RouteTable.find, which asks unless one of the middleware's own routes
    decides, and then to `mounted`, so that the guard can tell whether its endpoint was found.
    """

    __slots__ = ("_find", "asked", "found")

    def __init__(self, find: Callable[[], Overrides | None] | None) -> None:
        """Take what finds them, or None if the request is none that an endpoint's options are for
        (see SAFE_METHODS)."""
        self._find = find
        self.asked = False
        self.found: Overrides | None = None

    def __call__(self) -> Overrides | None:
        """Return what the decorator of the request's endpoint says, or None."""
        if self._find is not None and not self.asked:
            self.found = self._find()
            self.asked = True
        return self.found


class Serving:
    """One request in the hands of a middleware, for the time of a `with` block."""

    __slots__ = ("_token", "lookup", "over")
    _token: Token[Serving | None]

    def __init__(self, lookup: Lookup | None) -> None:
        """Take what the middleware found out about the endpoint."""
        self.lookup = lookup
        self.over = False

    def __enter__(self) -> None:
        """Let decorated endpoints run, in this context and in copies of it."""
        self._token = _SERVING.set(self)

    def __exit__(self, *_exc: object) -> None:
        """Let them run no more.

        A task that the handler left behind, or a thread, keeps its copy of the context; what it
        holds says that the request is over.
        """
        self.over = True
        _SERVING.reset(self._token)


_SERVING: ContextVar[Serving | None] = ContextVar("replayfloor_serving", default=None)


def mounted(lookup: Lookup | None = None) -> Serving:
    """Return the context in which a middleware calls its application.

    Args:
        lookup: what RouteTable.find was given for this request. With None, any decorated endpoint
            may run: the guard cannot tell whether its options are in force.
    """
    return Serving(lookup)


def check(name: str, overrides: Overrides) -> None:
    """Raise UsageError unless a middleware serves this call with these options."""
    serving = _SERVING.get()
    if serving is None or serving.over:
        raise UsageError(
            f"{name} is decorated with @idempotent, but no middleware serves this call. Mount "
            "replayfloor's IdempotencyMiddleware (ASGI) or WSGIIdempotencyMiddleware (WSGI) around "
            f"the application; to test the function alone, call {name}.__wrapped__"
        )
    lookup = serving.lookup
    if lookup is not None and lookup.asked and lookup.found != overrides:
        raise UsageError(
            f"{name} is decorated with @idempotent, but the middleware did not find it behind this "
            "request, so its options are not in force. If another decorator hides this one, "
            "exchange them or use functools.wraps; if the middleware cannot see the router (which "
            "it finds along the attributes .app and .application), give it routes=[Route(…)] "
            f"instead; to call it from another endpoint, call {name}.__wrapped__"
        )


def overrides_of(endpoint: object, method: str) -> Overrides | None:
    """Return what the decorator says for a method: at its handler, or at the whole endpoint."""
    endpoint = _unpartial(endpoint)
    view = _view_class(endpoint)
    if view is not None:
        for name in (_handler_name(endpoint, method), *WHOLE):
            found = _mark(getattr(view, name, None))
            if found is not None:
                return found
    return _mark(endpoint)


def is_decorated(endpoint: object) -> bool:
    """Say whether an endpoint is decorated, as a whole or for a method."""
    endpoint = _unpartial(endpoint)
    view = _view_class(endpoint)
    return _mark(endpoint) is not None or (
        # Statically, since properties of the class need not be ready to be read.
        view is not None
        and any(_mark(inspect.getattr_static(view, name, None)) for name in dir(view))
    )


def undecorated(endpoints: Iterable[object]) -> list[Callable[..., object]]:
    """Return the endpoints that were decorated, but registered as they were before."""
    plain: list[Callable[..., object]] = []
    replaced: list[object] = []
    for endpoint in map(_unpartial, endpoints):
        if is_decorated(endpoint):
            replaced.append(getattr(endpoint, "__wrapped__", None))
        elif inspect.isfunction(endpoint) and endpoint in ORIGINALS:
            plain.append(endpoint)
    return [endpoint for endpoint in plain if endpoint not in replaced]


def name_of(endpoint: object) -> str:
    """Return what to call an endpoint in a message."""
    name: object = getattr(_unpartial(endpoint), "__qualname__", None)
    return name if isinstance(name, str) else repr(endpoint)


def _unpartial(endpoint: object) -> object:
    # One that was decorated as a partial carries the mark itself, and need not be opened.
    while isinstance(endpoint, _PARTIAL) and _mark(endpoint) is None:
        endpoint = getattr(endpoint, "func", None)
    return endpoint


_PARTIAL: type = functools.partial


def _mark(endpoint: object) -> Overrides | None:
    found: object = getattr(endpoint, MARK, None)
    return found if isinstance(found, Overrides) else None


def _view_class(endpoint: object) -> type | None:
    """Return the class of a class-based endpoint: itself (Starlette), what `as_view` was called on
    (`view_class`: Django and Flask; `cls`: DRF), or None."""
    if isinstance(endpoint, type):
        return endpoint
    for name in ("view_class", "cls"):
        view: object = getattr(endpoint, name, None)
        if isinstance(view, type):
            return view
    return None


def _handler_name(endpoint: object, method: str) -> str:
    """Return the name of a method's handler; a DRF viewset has a table of them, `actions`."""
    actions: object = getattr(endpoint, "actions", None)
    if isinstance(actions, Mapping):
        action = cast("Mapping[str, object]", actions).get(method.lower())
        return action if isinstance(action, str) else method.lower()
    return method.lower()
