"""Options per route: which requests are protected, and how. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, TypeAlias, TypeVar, cast

from starlette.routing import compile_path

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.body_rules import FingerprintOption, body_rule
from replayfloor.server.policy import (
    AfterExpiry,
    Ambiguous,
    Effects,
    Options,
    Outage,
    delivered_again,
)
from replayfloor.server.webhooks.key import WebhookKey

EffectsOption: TypeAlias = Literal["atomic", "external", "repeatable"]
AmbiguousOption: TypeAlias = Literal["store", "release"]
AfterExpiryOption: TypeAlias = Literal["refuse", "execute", "handler"]
OutageOption: TypeAlias = Literal["refuse", "execute"]

E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Options that replace the middleware's; what is None comes from there.

    Args:
        required: whether a request without a key is refused with 400.
        effects: where the handler writes: "atomic", "external" or "repeatable" (see the README).
        ambiguous: for handlers that cannot be rolled back, whether a 5xx or an exception is stored
            ("store") or frees the key ("release": only if the handler is harmless when run again).
        store: statuses that are stored although they would free the key.
        free: statuses, from 300, that free the key although they would be stored.
        sensitive: keep no body of an answer; a repeated request is told that it was executed.
        after_expiry: what becomes of a repeated key whose receipt has expired: "refuse", "execute"
            or "handler" (see MiddlewareOptions).
        lease_s: how soon a dead worker is noticed, in seconds.
        wait_for_s: how long a duplicate waits for the first answer before it gets the 409.
        fingerprint: a function that stands for the body in the fingerprint, or "off".
        exclude: JSON pointers (RFC 6901) to members of the body that do not count.

    Raises ConfigurationError for an unknown value.
    """

    required: bool | None = None
    effects: EffectsOption | None = None
    ambiguous: AmbiguousOption | None = None
    store: Collection[int] | None = None
    free: Collection[int] | None = None
    sensitive: bool | None = None
    after_expiry: AfterExpiryOption | None = None
    lease_s: float | None = None
    wait_for_s: float | None = None
    fingerprint: FingerprintOption | None = None
    exclude: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Check every option, and keep what can neither be changed nor read only once."""
        if self.store is not None:
            object.__setattr__(self, "store", statuses_of("store", self.store))
        if self.free is not None:
            object.__setattr__(self, "free", statuses_of("free", self.free))
        if self.exclude is not None and not isinstance(self.exclude, str):
            object.__setattr__(self, "exclude", tuple(self.exclude))
        self.apply(Options())

    def apply(self, defaults: Options) -> Options:
        """Return the middleware's options with these in their place."""
        changes: dict[str, object] = {
            "required": self.required,
            "effects": None if self.effects is None else effects_of(self.effects),
            "ambiguous": None if self.ambiguous is None else ambiguous_of(self.ambiguous),
            "store": None if self.store is None else statuses_of("store", self.store),
            "free": None if self.free is None else statuses_of("free", self.free),
            "sensitive": self.sensitive,
            "after_expiry": (
                None if self.after_expiry is None else after_expiry_of(self.after_expiry)
            ),
            "lease_ms": None if self.lease_s is None else milliseconds("lease_s", self.lease_s),
            "wait_ms": (
                None if self.wait_for_s is None else milliseconds("wait_for_s", self.wait_for_s)
            ),
        }
        if self.fingerprint is not None or self.exclude is not None:
            rule = body_rule(fingerprint=self.fingerprint, exclude=self.exclude or ())
            changes["body_rule"] = rule
        return cast("Callable[..., Options]", replace)(
            defaults, **{name: value for name, value in changes.items() if value is not None}
        )


@dataclass(frozen=True, slots=True)
class Route(Overrides):
    """Options of the requests that match.

    Args:
        method: such as "POST"; "*" for every method.
        path_pattern: a Starlette path, such as "/payments/{id}/refunds" or "/files/{rest:path}".

        key: what the key is made of. Default: the client's header Idempotency-Key.
            `webhook("stripe", …)`: the id of the event that is delivered (see there); only
            `effects`, `lease_s` and `wait_for_s` may be given beside it.

    The other options are those of Overrides. Raises ConfigurationError for an unknown value.
    """

    method: str
    path_pattern: str
    key: WebhookKey | None = field(default=None, kw_only=True)
    _regex: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile the path and check the options."""
        # First: the other checks apply the options, the key's among them.
        self._check_key()
        Overrides.__post_init__(self)
        object.__setattr__(self, "method", self.method.upper())
        if not self.path_pattern.startswith("/"):
            raise ConfigurationError(f"path_pattern {self.path_pattern!r} must start with '/'")
        try:
            regex, _format, _convertors = compile_path(self.path_pattern)
        except (ValueError, AssertionError) as error:
            raise ConfigurationError(f"path_pattern {self.path_pattern!r}: {error}") from error
        object.__setattr__(self, "_regex", regex)

    def apply(self, defaults: Options) -> Options:
        """Return the middleware's options with these in their place."""
        # Not super(): `slots=True` makes a second class, which it would not know.
        options = Overrides.apply(self, defaults)
        return options if self.key is None else received(options, self.key)

    def _check_key(self) -> None:
        if self.key is None:
            return
        if not isinstance(cast("object", self.key), WebhookKey):
            raise ConfigurationError(f"key={self.key!r}: expected what `webhook(…)` returns")
        given = [name for name in _NOT_OF_WEBHOOKS if getattr(self, name) is not None]
        if given:
            raise ConfigurationError(
                f"{', '.join(given)}: no option of a route that receives webhooks: its key is the "
                "event's id, successes are stored, and everything else is delivered again"
            )

    def matches(self, method: str, path: str) -> bool:
        """Say whether a request is this route's; `path` is decoded and without root path."""
        return self.method in (method, "*") and self._regex.match(path) is not None


_NOT_OF_WEBHOOKS = (
    "required",
    "ambiguous",
    "store",
    "free",
    "sensitive",
    "after_expiry",
    "fingerprint",
    "exclude",
)


def received(options: Options, key: WebhookKey) -> Options:
    """Return the options under which the events of a webhook are received."""
    return replace(
        delivered_again(options, AfterExpiry(key.past_horizon)),
        webhook=key,
        busy_status=key.source.busy_status,
        # The writer of the inbox is the handler then, and writes in the receipt's transaction.
        effects=Effects.ATOMIC if key.ack == "first" else options.effects,
        worker_effects=options.effects if key.ack == "first" else None,
    )


class RouteTable:
    """Finds the options of a request: the first route that matches, the handler's own, or the
    defaults if the method is one that is protected."""

    def __init__(self, routes: Sequence[Route], methods: Sequence[str], defaults: Options) -> None:
        """Prepare each route's options once."""
        self.methods = frozenset(method.upper() for method in methods)
        self.routes = tuple((route, route.apply(defaults)) for route in routes)
        self.defaults = defaults
        self._decorated: dict[Overrides, Options] = {}

    def find(
        self,
        method: str,
        path: str,
        of_handler: Callable[[], Overrides | None] | None = None,
    ) -> Options | None:
        """Return the options of a request, or None if it passes untouched.

        `of_handler` finds what the handler's own decorator says; asked only if no route matches.
        """
        for route, options in self.routes:
            if route.matches(method, path):
                return options
        overrides = None if of_handler is None else of_handler()
        if overrides is not None:
            return self._of(overrides)
        return self.defaults if method in self.methods else None

    def _of(self, overrides: Overrides) -> Options:
        options = self._decorated.get(overrides)
        if options is None:
            options = self._decorated[overrides] = overrides.apply(self.defaults)
        return options


def effects_of(value: str) -> Effects:
    """Return the enum of an `effects=` option. Raises ConfigurationError."""
    return _member("effects", Effects, value)


def ambiguous_of(value: str) -> Ambiguous:
    """Return the enum of an `ambiguous=` option. Raises ConfigurationError."""
    return _member("ambiguous", Ambiguous, value)


def after_expiry_of(value: str) -> AfterExpiry:
    """Return the enum of an `after_expiry=` option. Raises ConfigurationError."""
    if value == AfterExpiry.ACKNOWLEDGE:
        raise ConfigurationError(
            'after_expiry="acknowledge" is for webhooks only: '
            'webhook(…, past_horizon="acknowledge")'
        )
    return _member("after_expiry", AfterExpiry, value)


def outage_of(value: str) -> Outage:
    """Return the enum of an `on_outage=` option. Raises ConfigurationError."""
    return _member("on_outage", Outage, value)


def _member(name: str, kind: type[E], value: str) -> E:
    try:
        return kind(value)
    except ValueError:
        expected = " or ".join(repr(member.value) for member in kind)
        raise ConfigurationError(f"{name}={value!r}: expected {expected}") from None


def statuses_of(name: str, statuses: Collection[int]) -> frozenset[int]:
    """Return the set of a `store=` or `free=` option. Raises ConfigurationError."""
    values = cast("Collection[object]", statuses)
    if isinstance(values, str | bytes) or not all(type(value) is int for value in values):
        raise ConfigurationError(f"{name}={statuses!r}: expected a collection of statuses")
    return frozenset(statuses)


def milliseconds(name: str, seconds: float) -> int:
    """Return an option in seconds as whole milliseconds. Raises ConfigurationError."""
    # What comes from a settings file may be a text, against the annotation.
    if not isinstance(cast("object", seconds), int | float) or not math.isfinite(seconds):
        raise ConfigurationError(f"{name}={seconds}: expected a number of seconds")
    return round(seconds * 1000)
