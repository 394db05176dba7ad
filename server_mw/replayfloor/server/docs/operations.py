"""Which options an operation has, for documents that are not about one request. Pure.

A request has one path, and the first route that matches it decides. An operation in a document has
all the paths of its template, so several routes may apply to it (`templates.py` compares them).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from replayfloor.server.docs.templates import NOTHING, Known, Template, spelled_for_openapi
from replayfloor.server.policy import Options
from replayfloor.server.routes import Overrides, Route
from replayfloor.server.settings import Settings

ANY: Final = ""
"""Stands for all paths (or all that are left) in `Applies.only`."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One operation of an application.

    Args:
        method: such as "POST".
        path: in Starlette's spelling, such as "/files/{rest:path}".
        overrides: what the endpoint's own decorator says.
    """

    method: str
    path: str
    overrides: Overrides | None = None

    @property
    def path_format(self) -> str:
        """The path as OpenAPI spells it: "/files/{rest}"."""
        return spelled_for_openapi(self.path)


@dataclass(frozen=True, slots=True)
class Applies:
    """The options of an operation, or None where it is not protected.

    `only` is the pattern of the paths that this is limited to, or ANY for all that are left.
    """

    options: Options | None
    only: str = ANY


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a list of what is protected: methods, a path, and its options.

    `path` is a pattern, or ANY for every path that no other row has; `within` is the operation
    that the path is a part of, if it is not the whole of it.
    """

    methods: str
    path: str
    options: Options
    within: str = ""


def applies(
    settings: Settings,
    endpoint: Endpoint,
    known: Known = NOTHING,
) -> tuple[Applies, ...]:
    """Return what applies to the paths of an operation, the general case last.

    The path may begin with the prefix of a mounted application: it is what the middleware sees.
    """
    table, method = settings.routes, endpoint.method.upper()
    template = Template(endpoint.path, known)
    found: list[Applies] = []
    for route, options in _reachable(settings, method):
        if template.within(route):
            return _without_repetition([*found, Applies(options)])
        if template.meets(route):
            found.append(Applies(options, route.path_pattern))
    general = table.defaults if method in table.methods else None
    if endpoint.overrides is not None:
        general = endpoint.overrides.apply(table.defaults)
    return _without_repetition([*found, Applies(general)])


def keyed(found: Sequence[Applies]) -> tuple[Applies, ...]:
    """Return the same without the paths that receive webhooks: no client sends a key there."""
    return tuple(
        Applies(None, each.only) if each.options and each.options.webhook else each
        for each in found
    )


def rows(settings: Settings, endpoints: Iterable[Endpoint] = ()) -> tuple[Row, ...]:
    """Return what is protected, in the order in which it is decided.

    The operations that are known come first, then the routes that none of them has (their paths
    may be served by something that does not tell), then the methods that are protected everywhere.
    """
    made: list[Row] = []
    known = tuple(endpoints)
    for endpoint in known:
        for each in applies(settings, endpoint):
            if each.options is not None:
                path, within = (each.only, endpoint.path) if each.only else (endpoint.path, "")
                made.append(Row(endpoint.method.upper(), path, each.options, within))
    for route, options in _reachable(settings):
        if not _is_served(route, known):
            made.append(Row(route.method, route.path_pattern, options))
    table = settings.routes
    if table.methods:
        made.append(Row(", ".join(sorted(table.methods)), ANY, table.defaults))
    return tuple(made)


def unreachable(settings: Settings) -> tuple[Route, ...]:
    """Return the routes whose requests all have an earlier route."""
    reached = {id(route) for route, _ in _reachable(settings)}
    return tuple(route for route, _ in settings.routes.routes if id(route) not in reached)


def _reachable(settings: Settings, method: str | None = None) -> Iterator[tuple[Route, Options]]:
    """Yield the routes that some request may reach, or some request with this method."""
    earlier: list[Route] = []
    for route, options in settings.routes.routes:
        if method is not None and route.method not in (method, "*"):
            continue
        template = Template(route.path_pattern)
        if not any(
            _has_methods_of(first, route, method) and template.within(first) for first in earlier
        ):
            yield route, options
        earlier.append(route)


def _has_methods_of(first: Route, route: Route, method: str | None) -> bool:
    return method is not None or first.method in (route.method, "*")


def _is_served(route: Route, endpoints: Sequence[Endpoint]) -> bool:
    """Say whether the operations that are known have every path of a route."""
    samples = Template(route.path_pattern).samples
    own = [Template(each.path) for each in endpoints if each.method.upper() == route.method]
    return bool(samples) and all(any(each.has(path) for each in own) for path in samples)


def _without_repetition(found: Sequence[Applies]) -> tuple[Applies, ...]:
    """Leave out special cases that say the same as the general one.

    Only the last ones: an earlier one may be an exception from one that follows.
    """
    *special, general = found
    while special and special[-1].options == general.options:
        special.pop()
    return (*special, general)
