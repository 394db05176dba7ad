"""The middleware's options, checked once at construction. No I/O."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Generic, TypeVar, cast

from replayfloor.core.errors import ConfigurationError
from replayfloor.core.key import KEY_LENGTH_MAX, KeyRules
from replayfloor.core.message import Headers
from replayfloor.core.problem import DOCUMENTATION
from replayfloor.retention import InboundPolicy
from replayfloor.server.body_rules import FingerprintOption, body_rule
from replayfloor.server.declared import declaration_of
from replayfloor.server.maintaining import Maintain
from replayfloor.server.options import MiddlewareOptions, OnEvent, RetentionOption
from replayfloor.server.policy import Options
from replayfloor.server.retention import policy_of, retention_of, seconds_of
from replayfloor.server.routes import (
    Route,
    RouteTable,
    after_expiry_of,
    ambiguous_of,
    effects_of,
    milliseconds,
    outage_of,
    statuses_of,
)
from replayfloor.server.sealing import Cipher, Sealer
from replayfloor.server.stores.policies import Declaration
from replayfloor.server.webhooks.counts import DeliveryCounts
from replayfloor.server.webhooks.horizons import check_webhooks

BODY_BYTES_MAX = 1024 * 1024
"""Request bytes taken to make the fingerprint; a larger body is refused with 413. JSON and forms
are compared by meaning up to the same size; raised for uploads, larger bodies go to a file."""

RESPONSE_BYTES_MAX = 1024 * 1024
"""Answer bytes kept for a replay; a larger answer passes through and leaves a tombstone."""

RESPONSE_HEADERS_MAX = 100
"""Header lines of an answer kept for a replay, what common servers take of a request; an answer
with more passes through and leaves a tombstone."""

CACHE_S = 3600.0
"""How long a receipt is also kept in the lock's place. Only a matter of memory: what is gone from
there comes from the receipts. Never longer than the retention."""

T = TypeVar("T")
ReceiptsT = TypeVar("ReceiptsT")
LockT = TypeVar("LockT")


@dataclass(frozen=True, slots=True)
class Settings:
    """What all requests of one middleware share, but for the stores."""

    routes: RouteTable
    namespace: str
    body_bytes_max: int
    response_bytes_max: int
    response_headers_max: int
    lifetime_headers: Headers
    declaration: Declaration | None
    maintain: Maintain | None
    inbox_workers: int
    sealer: Sealer
    on_event: OnEvent | None
    counts: DeliveryCounts


@dataclass(frozen=True, slots=True)
class Stores(Generic[ReceiptsT, LockT]):
    """The two stores of one middleware."""

    receipts: ReceiptsT
    lock: LockT


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """MiddlewareOptions with their defaults."""

    routes: Sequence[Route] | None = None
    required: bool = False
    effects: str = "external"
    ambiguous: str = "store"
    methods: Sequence[str] = ("POST", "PATCH")
    store: Collection[int] = ()
    free: Collection[int] = ()
    retention: RetentionOption = None
    policy: InboundPolicy | None = None
    accept_shorter: bool = False
    after_expiry: str = "refuse"
    audit_retention: timedelta | float | None = None
    maintain: bool = False
    inbox_workers: int = 4
    require_uuid7: bool = False
    lease_s: float = 30.0
    wait_for_s: float = 0.0
    namespace: str = "default"
    fingerprint: FingerprintOption | None = None
    exclude: Sequence[str] = ()
    key_length_min: int = 1
    key_length_max: int = KEY_LENGTH_MAX
    key_pattern: str | re.Pattern[str] | None = None
    accept_unquoted: bool = False
    body_bytes_max: int = BODY_BYTES_MAX
    response_bytes_max: int = RESPONSE_BYTES_MAX
    response_headers_max: int = RESPONSE_HEADERS_MAX
    response_cipher: Cipher | None = None
    on_outage: str = "refuse"
    documentation: str = DOCUMENTATION
    on_event: OnEvent | None = None

    def to_settings(self) -> Settings:
        """Check everything and open nothing. Raises ConfigurationError."""
        self._check()
        retention_s = retention_of(self.retention, self.policy)
        check_webhooks(self.routes or (), retention_s, policy_of(self.retention, self.policy))
        lifetime: Headers = ()
        if retention_s is not None:
            lifetime = ((b"idempotency-key-lifetime", str(int(retention_s)).encode()),)
        return Settings(
            routes=RouteTable(self.routes or (), self.methods, self._defaults(retention_s)),
            namespace=self.namespace,
            body_bytes_max=self.body_bytes_max,
            response_bytes_max=self.response_bytes_max,
            response_headers_max=self.response_headers_max,
            lifetime_headers=lifetime,
            declaration=declaration_of(
                self.namespace,
                retention_s,
                policy_of(self.retention, self.policy),
                accept_shorter=self.accept_shorter,
            ),
            maintain=self._maintain(retention_s),
            inbox_workers=self.inbox_workers,
            sealer=Sealer(self.response_cipher),
            on_event=self.on_event,
            counts=DeliveryCounts(),
        )

    def _defaults(self, retention_s: float | None) -> Options:
        cache_s = CACHE_S if retention_s is None else min(CACHE_S, retention_s)
        return Options(
            required=self.required,
            effects=effects_of(self.effects),
            ambiguous=ambiguous_of(self.ambiguous),
            store=statuses_of("store", self.store),
            free=statuses_of("free", self.free),
            on_outage=outage_of(self.on_outage),
            lease_ms=milliseconds("lease_s", self.lease_s),
            wait_ms=milliseconds("wait_for_s", self.wait_for_s),
            cache_ms=round(cache_s * 1000),
            retention_ms=None if retention_s is None else round(retention_s * 1000),
            after_expiry=after_expiry_of(self.after_expiry),
            proofs=self._keeps_proofs(retention_s),
            require_uuid7=self.require_uuid7,
            key_rules=self._key_rules(),
            body_rule=body_rule(fingerprint=self.fingerprint, exclude=self.exclude),
            documentation=self.documentation,
            quiet=self.on_event is None,
        )

    def _maintain(self, retention_s: float | None) -> Maintain | None:
        if not self.maintain:
            return None
        if retention_s is None:
            raise ConfigurationError("maintain=True needs a retention: nothing expires without one")
        return Maintain(self.retention, self.policy, self.audit_retention)

    def _keeps_proofs(self, retention_s: float | None) -> bool:
        if self.audit_retention is None:
            return False
        audit_s = seconds_of("audit_retention", self.audit_retention)
        if retention_s is None or audit_s <= retention_s:
            raise ConfigurationError(
                "audit_retention is how long a key is known as used, its receipt included: it has "
                "to be longer than the retention"
            )
        return True

    def _key_rules(self) -> KeyRules:
        try:
            pattern = None if self.key_pattern is None else re.compile(self.key_pattern)
        except re.error as error:
            raise ConfigurationError(f"key_pattern: {error}") from error
        return KeyRules(
            length_min=self.key_length_min,
            length_max=self.key_length_max,
            pattern=pattern,
            accept_unquoted=self.accept_unquoted,
        )

    def _check(self) -> None:
        if min(self.body_bytes_max, self.response_bytes_max, self.response_headers_max) < 0:
            raise ConfigurationError(
                "body_bytes_max, response_bytes_max and response_headers_max must not be negative"
            )
        if type(self.inbox_workers) is not int or self.inbox_workers < 0:
            raise ConfigurationError("inbox_workers is how many at a time: 0, 1, 2, …")
        if isinstance(self.methods, str):
            raise ConfigurationError(f"methods={self.methods!r}: expected a sequence of methods")
        routes = cast("Sequence[object]", self.routes or ())
        if not all(isinstance(route, Route) for route in routes):
            raise ConfigurationError("routes: expected a sequence of Route(method, path_pattern)")
        if not _LINK.fullmatch(self.documentation):
            raise ConfigurationError("documentation: expected the URL of a page")


def build(options: MiddlewareOptions) -> Settings:
    """Return the settings of a middleware. Raises ConfigurationError."""
    known = {each.name for each in fields(Arguments)}
    if unknown := sorted(set(options) - known):
        raise ConfigurationError(
            f"unknown option {', '.join(unknown)}; there are {', '.join(sorted(known))}"
        )
    return Arguments(**options).to_settings()


_LINK = re.compile(r"[!#-;=?-~]+")
"""What a URL may hold where it stands between angle brackets and quotes, in a header."""


def instance(
    name: str, option: T | str, method: str, open_: Callable[[str], T], *, blocks: bool = False
) -> T:
    """Return the store of an option: a URL, or an instance. Raises ConfigurationError.

    Where calls have to be blocking ones (`blocks`), an asynchronous instance is refused: what it
    returns would be taken for an answer.
    """
    if isinstance(option, str):
        return open_(option)
    operation: object = getattr(option, method, None)
    if not callable(operation):
        raise ConfigurationError(f"{name}: expected a URL or an instance, got {type(option)}")
    if blocks and inspect.iscoroutinefunction(operation):
        raise ConfigurationError(
            f"{name}: {type(option).__name__} is asynchronous; what blocks needs the blocking one, "
            "whose name has no Async"
        )
    return option
