"""Compares the path patterns of operations and routes, without a request. Pure.

A route has all paths of an operation, some, or none. Which, is found out with sample paths, by the
regular expressions that decide at run time: one that matches both proves that they meet, and
samples of every kind that a pattern takes stand for all.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from starlette.convertors import CONVERTOR_TYPES

from replayfloor.server.routes import Route

_PARAMETER = re.compile(r"\{([^{}:]+)(?::([^{}:]+))?\}")
"""`{id}` or `{id:int}`; in an OpenAPI template a name may be more than an identifier."""

TYPED: Final = (
    "7309",
    "4201937",
    "7309.5",
    "61.25",
    "8e03978e-40d5-43e8-bc93-6894a57f9324",
    "017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
    "2022-02-22",
    "1999-12-31",
)
"""Values of the types that convertors are made for. Two of each: a route that spells one of them
out has not the other."""

COMBINATIONS_MAX = 64
"""Sample paths of one template. Only lists of values could make more; the rest is not tried."""

Known: TypeAlias = Mapping[str, str | Sequence[str]]
"""What a document says of path parameters: the name of a Starlette convertor, or all the values.
A convertor in the path itself goes before it."""

NOTHING: Final[Known] = MappingProxyType({})


def spelled_for_openapi(path: str) -> str:
    """Return a path as OpenAPI spells it: "/files/{rest:path}" is "/files/{rest}"."""
    return _PARAMETER.sub(r"{\1}", path)


class Template:
    """A path pattern, with a regular expression and sample paths of its own."""

    __slots__ = ("_known", "_regex", "path", "samples")

    def __init__(self, path: str, known: Known = NOTHING) -> None:
        """Take a path in Starlette's or OpenAPI's spelling."""
        self.path, self._known = path, known
        regex, parts, at = "", list[Sequence[str]](), 0
        for found in _PARAMETER.finditer(path):
            name, kind = found.groups()
            value = kind or known.get(name, "str")
            literal = path[at : found.start()]
            parts += [[literal], _samples(name, value)]
            regex += f"{re.escape(literal)}(?:{_regex(value)})"
            at = found.end()
        parts.append([path[at:]])
        self._regex = re.compile(regex + re.escape(path[at:]))
        product = map("".join, itertools.product(*parts))
        self.samples = tuple(itertools.islice(product, COMBINATIONS_MAX))

    def has(self, path: str) -> bool:
        """Say whether a path is one of this."""
        return self._regex.fullmatch(path) is not None

    def within(self, route: Route) -> bool:
        """Say whether the route has every path of this."""
        if self.path == route.path_pattern:
            return True
        return bool(self.samples) and all(_matches(route, each) for each in self.samples)

    def meets(self, route: Route) -> bool:
        """Say whether the route has some of the paths of this."""
        other = Template(route.path_pattern)
        candidates = (*self.samples, *other.samples, *self._crossed(other))
        return any(_matches(route, each) and self.has(each) for each in candidates)

    def _crossed(self, other: Template) -> Iterator[str]:
        """Yield a path made segment by segment: of "/a/{x}" and "/{y}/{n:int}", "/a/7309"."""
        chosen: list[str] = []
        mine, theirs = _segments(self.path, other.path), _segments(other.path, self.path)
        if len(mine) != len(theirs):
            return
        for one, second in zip(mine, theirs, strict=True):
            first, last = Template(one, self._known), Template(second)
            values = (*first.samples, *last.samples)
            common = next((each for each in values if first.has(each) and last.has(each)), None)
            if common is None:
                return
            chosen.append(common)
        yield "/".join(chosen)


def _segments(path: str, other: str) -> list[str]:
    """Return the segments of a path; a rest at its end becomes as many as the other has there."""
    segments = path.split("/")
    rest = _PARAMETER.fullmatch(segments[-1])
    if rest is not None and rest.group(2) == "path":
        more = other.count("/") + 1 - len(segments)
        segments[-1:] = ["{" + rest.group(1) + "}"] * (1 + max(0, more))
    return segments


def _matches(route: Route, path: str) -> bool:
    return route.matches(route.method, path)


def _samples(name: str, value: str | Sequence[str]) -> Sequence[str]:
    """Return values of a path parameter that stand for all."""
    if not isinstance(value, str):
        return value
    whole = "{" + name + "}"
    if value == "path":
        return ["", whole, f"{whole}/{whole}", f"{whole}/{whole}/{whole}"]
    regex = re.compile(_regex(value))
    if regex.fullmatch(whole):
        return [whole]
    # A convertor of the user's own takes some of these, or nothing is known of it.
    return [each for each in TYPED if regex.fullmatch(each)]


def _regex(value: str | Sequence[str]) -> str:
    if not isinstance(value, str):
        return "|".join(map(re.escape, value))
    convertor = CONVERTOR_TYPES.get(value)
    return "[^/]+" if convertor is None else convertor.regex
