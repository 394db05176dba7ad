"""Lets a FastAPI application's own OpenAPI document have the specification.

FastAPI is not imported: it is known by what it offers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol, cast

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.docs.endpoints import endpoints_of
from replayfloor.server.docs.openapi import add_to_openapi
from replayfloor.server.docs.openapi_json import Object
from replayfloor.server.options import MiddlewareOptions
from replayfloor.server.settings import Settings, build

NO_OPTIONS: Final = frozenset({"receipts", "lock", "principal"})
"""Arguments of the middleware that say nothing about what is promised to a client."""


class Configured(Protocol):
    """A middleware: IdempotencyMiddleware or WSGIIdempotencyMiddleware."""

    @property
    def settings(self) -> Settings:
        """What it serves requests with."""
        ...


class OpenAPIApplication(Protocol):
    """A FastAPI application, as far as it is used here."""

    openapi_schema: dict[str, object] | None

    def openapi(self) -> dict[str, object]:
        """Return the document; made once, and again if `openapi_schema` is None."""
        ...


def document_openapi(
    app: OpenAPIApplication,
    middleware: Configured | Settings | None = None,
    *,
    prefix: str = "",
    owner: str | None = None,
) -> None:
    """Let a FastAPI application's OpenAPI document say which operations are protected, and how.

        app.add_middleware(IdempotencyMiddleware, receipts=…, principal=…)
        document_openapi(app)

    The document is still made when it is first asked for, so that operations may be added after
    this. Called again, it replaces what it did before. See `add_to_openapi` for what is added.

    Args:
        app: the application.
        middleware: around it, or its settings; found by itself if it was added by
            `app.add_middleware`.
        prefix: where the application is mounted in one that has the middleware, such as "/v1".
        owner: what `principal` tells apart, in a word, such as "account".

    Raises ConfigurationError if no middleware is given and there is none, or more than one.
    """
    settings = _settings_of(app, middleware)
    plain = app.openapi
    if isinstance(plain, _Documented):
        app.openapi_schema, plain = None, plain.plain

    def add(schema: Object) -> Object:
        endpoints = endpoints_of(app)
        return add_to_openapi(schema, settings, endpoints=endpoints, prefix=prefix, owner=owner)

    # As FastAPI's documentation extends a document: the method is replaced on the instance.
    object.__setattr__(app, "openapi", _Documented(app, plain, add))


class _Documented:
    """Stands in for an application's `openapi`; keeps what it made where FastAPI keeps it."""

    def __init__(
        self, app: OpenAPIApplication, plain: Callable[[], Object], add: Callable[[Object], Object]
    ) -> None:
        self.plain = plain
        self._app, self._add = app, add
        self._made: Object | None = None

    def __call__(self) -> Object:
        schema = self.plain()
        if schema is not self._made:
            schema = self._made = self._app.openapi_schema = self._add(schema)
        return schema


def _settings_of(app: object, middleware: Configured | Settings | None) -> Settings:
    if isinstance(middleware, Settings):
        return middleware
    if middleware is not None:
        return middleware.settings
    # Not at the top: the middleware's own module uses this package.
    from replayfloor.server.asgi import IdempotencyMiddleware

    added: Iterable[object] = getattr(app, "user_middleware", ())
    classes = [(getattr(each, "cls", None), each) for each in added]
    own = [
        each
        for class_, each in classes
        if isinstance(class_, type) and issubclass(class_, IdempotencyMiddleware)
    ]
    if len(own) != 1:
        raise ConfigurationError(
            f"the application has {len(own) or 'no'} IdempotencyMiddleware of its own: add one "
            "with app.add_middleware before, or give the middleware as second argument"
        )
    arguments = cast("dict[str, object]", getattr(own[0], "kwargs", {}))
    options = {name: value for name, value in arguments.items() if name not in NO_OPTIONS}
    return build(cast("MiddlewareOptions", options))
