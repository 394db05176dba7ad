"""When a framework's router is asked for the endpoint of a request, and what becomes of a failure.

The routers themselves are in `decorator_asgi.py`, `decorator_wsgi.py` and `decorator_django.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from replayfloor.server.decorator_mark import (
    SAFE_METHODS,
    is_decorated,
    name_of,
    overrides_of,
    undecorated,
)
from replayfloor.server.routes import Overrides

RequestT = TypeVar("RequestT", contravariant=True)

log = logging.getLogger("replayfloor.server")

LAYERS_MAX = 100
"""Middlewares that are looked through for the framework's application; more is a circle."""


class Router(Protocol[RequestT]):
    """What a framework knows of its endpoints. Everything may raise what the framework raises."""

    def endpoints(self) -> Iterable[object]:
        """Return every endpoint."""
        ...

    def endpoint(self, request: RequestT) -> object:
        """Return the endpoint of a request, or None."""
        ...


class Finder(Generic[RequestT]):
    """Asks one router. Without a decorated endpoint, a request costs one comparison.

    Whether there is one is found out with the first request: routes may be added until then.
    A decorated endpoint that is added later is refused by its guard, as its options are not found.
    """

    __slots__ = ("_any", "_router")

    def __init__(self, router: Router[RequestT]) -> None:
        """Take the router; it is not asked yet."""
        self._router = router
        self._any: bool | None = None

    @property
    def none_decorated(self) -> bool:
        """Whether the router has been asked, and has no decorated endpoint."""
        return self._any is False

    def find(self, method: str, request: RequestT) -> Overrides | None:
        """Return what the decorator of the request's endpoint says, or None. Never raises.

        A request that the router cannot take is None: the application is about to give its answer
        to it, by the same router.
        """
        if method in SAFE_METHODS or self._any is False:
            return None
        try:
            if self._any is None:
                self._any = _collect(self._router.endpoints())
            return overrides_of(self._router.endpoint(request), method) if self._any else None
        except Exception:
            # It can be user code: a path converter, an attribute of a view.
            log.debug("no endpoint found", exc_info=True)
            return None


def _collect(endpoints: Iterable[object]) -> bool:
    """Say whether an endpoint is decorated, and warn of one that only seems to be."""
    every = list(endpoints)
    for plain in undecorated(every):
        log.warning(
            "%s is decorated with @idempotent, but registered without it: the decorator has no "
            "effect unless it stands below the one that registers the endpoint",
            name_of(plain),
        )
    return any(is_decorated(endpoint) for endpoint in every)
