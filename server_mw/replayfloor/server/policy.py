"""What becomes of an answer: is it stored, or is the key freed? Pure; the table of the README.

not executed       307 308 401 403 408 425 429 503 never stored, the key is freed
stored             every other 2xx, 3xx, 4xx
ambiguous          every other 5xx, an exception   atomic: rolled back and freed
                                                   else: stored, unless the route says
                                                   ambiguous="release"

A route may move single statuses with `store` and `free`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from replayfloor.core.errors import ConfigurationError
from replayfloor.core.key import DEFAULT_RULES, KeyRules
from replayfloor.core.problem import DOCUMENTATION
from replayfloor.server.body_rules import DEFAULT_BODY_RULE, BodyRule
from replayfloor.server.margins import margin_ms
from replayfloor.server.webhooks.key import WebhookKey

NOT_EXECUTED = frozenset({307, 308, 401, 403, 408, 425, 429, 503})
"""Answers that are given before an operation begins. Stored, one 401 or 429 would pin the key
(draft -07, 2.7, leaves these to the resource's documentation); and a 307 or 308 would make the same
request at the right address a reuse of its key (RFC 9110, 15.4.8 and 15.4.9)."""

LEASE_S_MAX = 86_400
"""A lease counts in milliseconds in a 32-bit integer; beyond a day it is a mistake of unit."""

AMBIGUOUS_MIN = 500
"""From here on the operation may have been carried out or not."""


class Effects(StrEnum):
    """Where a handler writes, and so what a crash can leave behind.

    ATOMIC: in the receipt's own transaction, through `claim.connection`. A crash leaves nothing,
    so an orphaned key is taken over. EXTERNAL: anywhere. A crash leaves an unknown outcome, and an
    orphaned key is answered so until it is reconciled. REPEATABLE: anywhere, and harmless when run
    again, because what it calls recognises `claim.derived_key(…)` or because its own transaction
    ends with `claim.finish_in(…)`. An orphaned key is taken over.
    """

    ATOMIC = "atomic"
    EXTERNAL = "external"
    REPEATABLE = "repeatable"


class Ambiguous(StrEnum):
    """What to do with a 5xx or an exception of a handler whose writes cannot be rolled back."""

    STORE = "store"
    RELEASE = "release"


class Outage(StrEnum):
    """What to do with a keyed request while the receipts cannot be reached.

    REFUSE: 503, nothing is executed. EXECUTE: run the handler without protection and say so in the
    answer's header; a repeated request may then be executed twice.
    """

    REFUSE = "refuse"
    EXECUTE = "execute"


class AfterExpiry(StrEnum):
    """What becomes of a repeated key whose receipt has expired, as far as that can be known.

    REFUSE: 400 `key-expired`. EXECUTE: a new operation, unless the key or its sender tells that it
    is old (then 400). HANDLER: the handler runs, and `claim.past_horizon` tells it. ACKNOWLEDGE, of
    what is delivered again until it succeeds: a success is recorded and the handler not called.
    """

    REFUSE = "refuse"
    EXECUTE = "execute"
    HANDLER = "handler"
    ACKNOWLEDGE = "acknowledge"


_EXTERNAL = Effects.EXTERNAL  # looked up once: Python 3.11 takes a detour for it


class Disposition(StrEnum):
    """What becomes of the key after the handler ended."""

    STORE = "store"
    FREE = "free"


@dataclass(frozen=True, slots=True)
class Options:
    """How one route is protected. Times in milliseconds; see IdempotencyMiddleware for meanings.

    `retention_ms` is None if receipts are kept for ever: no key is too old then. `proofs`: the
    store keeps proofs of keys whose receipts are gone. `quiet`: nobody listens to events, so those
    that are not worth a warning are not made. `until_success`: who sends does so until it gets a
    2xx, so nothing else is stored; `busy_status` is what it understands as "later".
    `worker_effects`: of the handler, where the request only fills an inbox.
    """

    required: bool = False
    effects: Effects = Effects.EXTERNAL
    ambiguous: Ambiguous = Ambiguous.STORE
    store: frozenset[int] = frozenset()
    free: frozenset[int] = frozenset()
    sensitive: bool = False
    on_outage: Outage = Outage.REFUSE
    lease_ms: int = 30_000
    wait_ms: int = 0
    cache_ms: int = 0
    retention_ms: int | None = None
    after_expiry: AfterExpiry = AfterExpiry.REFUSE
    proofs: bool = False
    require_uuid7: bool = False
    key_rules: KeyRules = DEFAULT_RULES
    body_rule: BodyRule = DEFAULT_BODY_RULE
    documentation: str = DOCUMENTATION
    quiet: bool = False
    until_success: bool = False
    busy_status: int | None = None
    webhook: WebhookKey | None = None
    worker_effects: Effects | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot work. Raises ConfigurationError."""
        if not 1 <= self.lease_ms <= LEASE_S_MAX * 1000:
            raise ConfigurationError(f"lease_s must be from 0.001 to {LEASE_S_MAX}")
        if self.wait_ms < 0 or self.cache_ms < 0:
            raise ConfigurationError("wait_for_s and cache_s must not be negative")
        if self.require_uuid7 and self.retention_ms is None:
            raise ConfigurationError("require_uuid7 needs a retention to compare the age with")
        _check_statuses(self.store, self.free)

    @property
    def takes_over(self) -> bool:
        """Whether an orphan is executed again: nothing happened, or once more does no harm."""
        return self.effects is not _EXTERNAL

    @property
    def looks_for_proofs(self) -> bool:
        """Whether a claim looks for proofs; who is told of a repetition needs them for it."""
        return self.proofs or self.after_expiry in (AfterExpiry.HANDLER, AfterExpiry.ACKNOWLEDGE)

    def kept_ms(self, left_ms: int | None) -> int:
        """Return how long the lock's place may keep a receipt that is live for `left_ms` more.

        It counts from a later moment than the receipts do; the margin is more than that.
        """
        if left_ms is None or self.retention_ms is None:
            return self.cache_ms
        return max(0, min(self.cache_ms, left_ms - margin_ms(self.retention_ms)))

    @property
    def executes_openly(self) -> bool:
        """Whether a request is executed without a receipt; an ATOMIC handler cannot be."""
        return self.on_outage is Outage.EXECUTE and self.effects is not Effects.ATOMIC


def delivered_again(options: Options, after_expiry: AfterExpiry) -> Options:
    """Return the options for what its sender delivers again until that succeeds."""
    return replace(
        options,
        until_success=True,
        after_expiry=after_expiry,
        required=False,
        store=frozenset(),
        free=frozenset(),
        # It is delivered again when the receipts are back, so nothing is won by a risk.
        on_outage=Outage.REFUSE,
        # A duplicate is acknowledged with the stored success, whatever it said; and who counts
        # the deliveries listens to everything.
        quiet=False,
    )


def _check_statuses(store: frozenset[int], free: frozenset[int]) -> None:
    if wrong := sorted(status for status in store | free if not 200 <= status <= 999):
        raise ConfigurationError(f"store and free: {wrong} are no statuses of an answer")
    if both := sorted(store & free):
        raise ConfigurationError(f"{both} are in both store and free")
    if done := sorted(status for status in free if status < 300):
        raise ConfigurationError(
            f"free={done}: a key that is freed after a success would execute a second time"
        )


_STORE = Disposition.STORE  # looked up once: Python 3.11 takes a detour for it


def disposition(status: int, options: Options) -> Disposition:
    """Say whether an answer of the handler is stored or frees the key."""
    if options.until_success:
        return Disposition.STORE if 200 <= status < 300 else Disposition.FREE
    if status in options.store:
        return Disposition.STORE
    if status in options.free or status in NOT_EXECUTED:
        return Disposition.FREE
    if status < AMBIGUOUS_MIN:
        return _STORE
    return ambiguous_disposition(options)


def ambiguous_disposition(options: Options) -> Disposition:
    """Say the same for an execution of which it is not known what it did."""
    if options.until_success or options.effects is Effects.ATOMIC:
        return Disposition.FREE
    if options.ambiguous is Ambiguous.RELEASE:
        return Disposition.FREE
    return Disposition.STORE
