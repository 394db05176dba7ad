"""What becomes of an answer: is it stored, or is the key freed? Pure; the table of the README.

not executed       307 308 401 403 408 425 429 503 never stored, the key is freed
stored             every other 2xx, 3xx, 4xx
ambiguous          every other 5xx, an exception   atomic: rolled back and freed
                                                   external: stored, unless the route says
                                                   ambiguous="release"
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from replayfloor.core.errors import ConfigurationError
from replayfloor.core.key import DEFAULT_RULES, KeyRules
from replayfloor.core.problem import DOCUMENTATION

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
    orphaned key is answered so until it is reconciled.
    """

    ATOMIC = "atomic"
    EXTERNAL = "external"


class Ambiguous(StrEnum):
    """What to do with a 5xx or an exception of an EXTERNAL handler."""

    STORE = "store"
    RELEASE = "release"


class Disposition(StrEnum):
    """What becomes of the key after the handler ended."""

    STORE = "store"
    FREE = "free"


@dataclass(frozen=True, slots=True)
class Options:
    """How one route is protected. Times in milliseconds; see IdempotencyMiddleware for meanings."""

    required: bool = False
    effects: Effects = Effects.EXTERNAL
    ambiguous: Ambiguous = Ambiguous.STORE
    lease_ms: int = 30_000
    wait_ms: int = 0
    cache_ms: int = 0
    key_rules: KeyRules = DEFAULT_RULES
    documentation: str = DOCUMENTATION

    def __post_init__(self) -> None:
        """Refuse times that cannot work."""
        if not 1 <= self.lease_ms <= LEASE_S_MAX * 1000:
            raise ConfigurationError(f"lease_s must be from 0.001 to {LEASE_S_MAX}")
        if self.wait_ms < 0 or self.cache_ms < 0:
            raise ConfigurationError("wait_for_s and cache_s must not be negative")


def disposition(status: int, options: Options) -> Disposition:
    """Say whether an answer of the handler is stored or frees the key."""
    if status in NOT_EXECUTED:
        return Disposition.FREE
    if status < AMBIGUOUS_MIN:
        return Disposition.STORE
    return ambiguous_disposition(options)


def ambiguous_disposition(options: Options) -> Disposition:
    """Say the same for an execution of which it is not known what it did."""
    if options.effects is Effects.ATOMIC or options.ambiguous is Ambiguous.RELEASE:
        return Disposition.FREE
    return Disposition.STORE
