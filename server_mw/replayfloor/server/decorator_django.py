"""Which view a request is for, asked of Django's URL resolver, under WSGI and under ASGI.

Django is never imported here: if the application is one of its handlers, it has been already. Its
middlewares can choose another URLconf or language for a request; they have not run yet, so such a
view is not found, and its guard says so.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Generic, Protocol, TypeVar, cast

from starlette.types import Scope

RequestT = TypeVar("RequestT", contravariant=True)

Environ = dict[str, object]


class DjangoViews(Generic[RequestT]):
    """The views of a Django project."""

    __slots__ = ("_path_of",)

    def __init__(self, path_of: Callable[[RequestT], str]) -> None:
        """Take what tells the path of a request below the mount point."""
        self._path_of = path_of

    def endpoints(self) -> Iterator[object]:
        """Return every view of the URLconf."""
        return _views(_urls().get_resolver(_urlconf()).url_patterns)

    def endpoint(self, request: RequestT) -> object:
        """Return the view that the resolver chooses. Raises Resolver404."""
        # Without its second argument it takes what the thread's last request had set.
        return _urls().resolve(self._path_of(request), _urlconf()).func


def wsgi_views(app: object) -> DjangoViews[Environ] | None:
    """Return the views of a WSGIHandler, or None if the application is none."""
    if not _is_a(app, "django.core.handlers.wsgi", "WSGIHandler"):
        return None
    request_class = cast("_WSGIHandler", app).request_class
    # A copy: the request normalises two of the variables. It leaves the body alone.
    return DjangoViews(lambda environ: request_class(dict(environ)).path_info)


def asgi_views(app: object) -> DjangoViews[Scope] | None:
    """Return the views of an ASGIHandler, or None if the application is none."""
    if not _is_a(app, "django.core.handlers.asgi", "ASGIHandler"):
        return None
    request_class = cast("_ASGIHandler", app).request_class
    return DjangoViews(lambda scope: request_class(scope, io.BytesIO()).path_info)


class _Request(Protocol):
    path_info: str


class _WSGIHandler(Protocol):
    request_class: Callable[[Environ], _Request]


class _ASGIHandler(Protocol):
    request_class: Callable[[Scope, IO[bytes]], _Request]


class _Match(Protocol):
    func: object


class _Resolver(Protocol):
    url_patterns: Iterable[object]


class _Urls(Protocol):
    def resolve(self, path: str, urlconf: object) -> _Match: ...

    def get_resolver(self, urlconf: object) -> _Resolver: ...


class _Settings(Protocol):
    ROOT_URLCONF: object


class _Conf(Protocol):
    settings: _Settings


def _is_a(app: object, module: str, name: str) -> bool:
    handler: object = getattr(sys.modules.get(module), name, None)
    return isinstance(handler, type) and isinstance(app, handler)


def _urls() -> _Urls:
    return cast("_Urls", sys.modules["django.urls"])


def _urlconf() -> object:
    return cast("_Conf", sys.modules["django.conf"]).settings.ROOT_URLCONF


def _views(patterns: Iterable[object]) -> Iterator[object]:
    for pattern in patterns:
        included: Iterable[object] | None = getattr(pattern, "url_patterns", None)
        if included is None:
            yield getattr(pattern, "callback", None)
        else:
            yield from _views(included)
