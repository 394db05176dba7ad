"""Options per route: which requests are protected, and how. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from starlette.routing import compile_path

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.policy import Ambiguous, Effects, Options

EffectsOption = Literal["atomic", "external"]
AmbiguousOption = Literal["store", "release"]


@dataclass(frozen=True, slots=True)
class Route:
    """Options of the requests that match; what is None comes from the middleware.

    Args:
        method: such as "POST"; "*" for every method.
        path_pattern: a Starlette path, such as "/payments/{id}/refunds" or "/files/{rest:path}".
        required: whether a request without a key is refused with 400.
        effects: where the handler writes, "atomic" or "external" (see the README).
        ambiguous: for external handlers, whether a 5xx or an exception is stored ("store") or
            frees the key ("release": only if the handler is harmless when run again).

    Raises ConfigurationError for an unknown value.
    """

    method: str
    path_pattern: str
    required: bool | None = field(default=None, kw_only=True)
    effects: EffectsOption | None = field(default=None, kw_only=True)
    ambiguous: AmbiguousOption | None = field(default=None, kw_only=True)
    _regex: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile the path and check the options."""
        object.__setattr__(self, "method", self.method.upper())
        if not self.path_pattern.startswith("/"):
            raise ConfigurationError(f"path_pattern {self.path_pattern!r} must start with '/'")
        try:
            regex, _format, _convertors = compile_path(self.path_pattern)
        except (ValueError, AssertionError) as error:
            raise ConfigurationError(f"path_pattern {self.path_pattern!r}: {error}") from error
        object.__setattr__(self, "_regex", regex)
        if self.effects is not None:
            effects_of(self.effects)
        if self.ambiguous is not None:
            ambiguous_of(self.ambiguous)

    def matches(self, method: str, path: str) -> bool:
        """Say whether a request is this route's; `path` is decoded and without root path."""
        return self.method in (method, "*") and self._regex.match(path) is not None

    def apply(self, defaults: Options) -> Options:
        """Return the middleware's options with this route's in their place."""
        return Options(
            required=defaults.required if self.required is None else self.required,
            effects=defaults.effects if self.effects is None else effects_of(self.effects),
            ambiguous=(
                defaults.ambiguous if self.ambiguous is None else ambiguous_of(self.ambiguous)
            ),
            lease_ms=defaults.lease_ms,
            wait_ms=defaults.wait_ms,
            cache_ms=defaults.cache_ms,
            key_rules=defaults.key_rules,
            documentation=defaults.documentation,
        )


class RouteTable:
    """Finds the options of a request: the first route that matches, else the defaults."""

    def __init__(self, routes: Sequence[Route], methods: Sequence[str], defaults: Options) -> None:
        """Prepare each route's options once."""
        self._methods = frozenset(method.upper() for method in methods)
        self._routes = tuple((route, route.apply(defaults)) for route in routes)
        self._defaults = defaults

    def find(self, method: str, path: str) -> Options | None:
        """Return the options of a request, or None if it passes untouched."""
        for route, options in self._routes:
            if route.matches(method, path):
                return options
        return self._defaults if method in self._methods else None


def effects_of(value: str) -> Effects:
    """Return the enum of an `effects=` option. Raises ConfigurationError."""
    try:
        return Effects(value)
    except ValueError:
        expected = " or ".join(repr(member.value) for member in Effects)
        raise ConfigurationError(f"effects={value!r}: expected {expected}") from None


def ambiguous_of(value: str) -> Ambiguous:
    """Return the enum of an `ambiguous=` option. Raises ConfigurationError."""
    try:
        return Ambiguous(value)
    except ValueError:
        expected = " or ".join(repr(member.value) for member in Ambiguous)
        raise ConfigurationError(f"ambiguous={value!r}: expected {expected}") from None
