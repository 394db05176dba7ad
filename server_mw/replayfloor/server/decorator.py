"""`@idempotent`: the options of an endpoint, written at the endpoint.

The mark and its guard are in `decorator_mark.py`; how the middlewares find the endpoint of a
request before it runs is in `decorator_asgi.py` and `decorator_wsgi.py`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import fields
from typing import TypedDict, TypeVar, Unpack, cast, overload

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.body_rules import FingerprintOption
from replayfloor.server.decorator_asgi import AsgiEndpoints
from replayfloor.server.decorator_mark import (
    MARK,
    ORIGINALS,
    WHOLE,
    Lookup,
    check,
    is_decorated,
    mounted,
    name_of,
)
from replayfloor.server.decorator_wsgi import WsgiEndpoints
from replayfloor.server.routes import AfterExpiryOption, AmbiguousOption, EffectsOption, Overrides

__all__ = ["AsgiEndpoints", "IdempotentOptions", "Lookup", "WsgiEndpoints", "idempotent", "mounted"]

EndpointT = TypeVar("EndpointT", bound=Callable[..., object])


class IdempotentOptions(TypedDict, total=False):
    """The options of `idempotent`, those of Overrides."""

    required: bool | None
    effects: EffectsOption | None
    ambiguous: AmbiguousOption | None
    store: Collection[int] | None
    free: Collection[int] | None
    sensitive: bool | None
    after_expiry: AfterExpiryOption | None
    lease_s: float | None
    wait_for_s: float | None
    fingerprint: FingerprintOption | None
    exclude: Sequence[str] | None


@overload
def idempotent(endpoint: EndpointT, /) -> EndpointT: ...


@overload
def idempotent(**options: Unpack[IdempotentOptions]) -> Callable[[EndpointT], EndpointT]: ...


def idempotent(
    endpoint: EndpointT | None = None, /, **options: Unpack[IdempotentOptions]
) -> EndpointT | Callable[[EndpointT], EndpointT]:
    """Protect an endpoint of FastAPI, Starlette, Flask or Django, with options of its own.

        @app.post("/payments")
        @idempotent(required=True, effects="atomic")
        async def create(request: Request) -> Response: ...

    It stands below what registers the endpoint, and outside of what hides the function (in DRF
    above `@api_view`). On a class-based endpoint it protects all methods, on a method of it that
    one (in Django by `method_decorator`). The middleware finds it with the framework's router
    before anything of the application runs; a route in the middleware's `routes` goes before it.
    Every method of the endpoint is protected, whatever the middleware's `methods` say, except for
    the safe ones (GET, HEAD, OPTIONS, TRACE: RFC 9110, 9.2.1), which pass untouched.

    Without a middleware around the application, or if the middleware could not find the endpoint,
    it raises UsageError when called: it never runs unprotected. `endpoint.__wrapped__` is the
    function itself, for a test of it alone.

    Args:
        options: those of Overrides; what is left out comes from the middleware.

    Raises ConfigurationError for options that cannot be honoured, for what is no endpoint, and if
    the endpoint is decorated already.
    """
    known = {each.name for each in fields(Overrides)}
    if unknown := sorted(set(options) - known):
        raise ConfigurationError(
            f"unknown option {', '.join(unknown)}; there are {', '.join(sorted(known))}"
        )
    overrides = Overrides(**options)
    if endpoint is not None:
        return _decorated(endpoint, overrides)
    return lambda endpoint: _decorated(endpoint, overrides)


def _decorated(endpoint: EndpointT, overrides: Overrides) -> EndpointT:
    if not callable(endpoint):
        raise ConfigurationError(f"@idempotent: {endpoint!r} is no function and no class")
    name = name_of(endpoint)
    if is_decorated(endpoint):
        raise ConfigurationError(f"{name} is decorated with @idempotent already, or a method of it")
    if isinstance(endpoint, type):
        _decorate_class(endpoint, name, overrides)
        return cast("EndpointT", endpoint)
    return cast("EndpointT", _guarded(endpoint, name, overrides))


def _decorate_class(view: type, name: str, overrides: Overrides) -> None:
    found = False
    for whole in WHOLE:
        serve: object = getattr(view, whole, None)
        if callable(serve):
            setattr(view, whole, _guarded(serve, name, overrides))
            found = True
    if not found:
        raise ConfigurationError(
            f"@idempotent: the class {name} has no method {' or '.join(WHOLE)}, by which a "
            "framework would serve all its methods; decorate a function"
        )


def _guarded(
    function: Callable[..., object], name: str, overrides: Overrides
) -> Callable[..., object]:
    """Return the function with the mark, its guard, and all that frameworks read of it."""
    guarded: Callable[..., object]
    if _is_async(function):
        asynchronous = cast("Callable[..., Awaitable[object]]", function)

        @functools.wraps(asynchronous)
        async def endpoint(*args: object, **kwargs: object) -> object:
            check(name, overrides)
            return await asynchronous(*args, **kwargs)

        guarded = endpoint
    else:

        @functools.wraps(function)
        def plain_endpoint(*args: object, **kwargs: object) -> object:
            check(name, overrides)
            return function(*args, **kwargs)

        guarded = plain_endpoint
    setattr(guarded, MARK, overrides)
    if inspect.isfunction(function):
        ORIGINALS.add(function)
        _keep_signature(guarded, function)
    return guarded


def _is_async(function: Callable[..., object]) -> bool:
    call: object = getattr(function, "__call__", None)  # noqa: B004 - of an instance
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _keep_signature(guarded: Callable[..., object], function: Callable[..., object]) -> None:
    """Resolve annotations that are strings where the function was defined.

    Older releases of FastAPI (0.115 does) look their names up in the module of the function that
    they are given: in this one, where the type of a body is not found, and the body is taken for
    a query parameter.
    """
    try:
        if any(isinstance(each, str) for each in function.__annotations__.values()):
            vars(guarded)["__signature__"] = inspect.signature(function, eval_str=True)
    except Exception:  # noqa: BLE001 - an annotation may raise anything; it stays as it is written
        return
