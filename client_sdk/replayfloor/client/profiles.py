"""The profile: what the client has to know of a provider. Data and its validation, nothing else.

How its answers are read is in `profile_answers`, how its keys are made in `profile_keys`, where
the figures come from in `profile_facts`. Profiles of known providers are in `catalogue`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from replayfloor.client.profile_answers import GENERIC, AnswerRules, is_field_name
from replayfloor.client.profile_facts import Fact
from replayfloor.client.profile_keys import KeyForm, mint_key, require_mintable
from replayfloor.core.errors import ConfigurationError, InvalidKey
from replayfloor.core.key import DEFAULT_RULES, KeyRules, check_key
from replayfloor.retention.margins import default_margin_s

NS_PER_S: Final = 1_000_000_000

RETENTION_MAX_S: Final = 10 * 366 * 86_400.0
"""Ten years. A larger number is a mistake of unit, and would not fit a 64-bit count of ns."""

WINDOWS_MAX: Final = 256
"""Send windows remembered: one for each retention that a profile states or a server advertises.
The default margin is exact arithmetic, which costs more than all the rest of a deadline."""

_LOOPBACK: Final = re.compile(r"localhost|127\.\d+\.\d+\.\d+|\[?::1\]?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How a provider takes idempotency keys, and for how long it remembers them.

    Args:
        name: the provider, for messages and telemetry.
        retention_s: seconds for which the provider remembers a key. There is no default, because
            past it a retry is executed a second time: take the number from the provider.
        namespace: what a key is unique within: provider, account, live or test mode. One journal
            may hold several. Default: the name.
        header: the field that carries the key.
        quoted: write the key as a Structured Field String, in double quotes, as the draft asks
            (draft-ietf-httpapi-idempotency-key-header-07, 2.1); False for a provider that takes
            the bare value.
        methods: requests with these methods get a key; all others pass through untouched.
        margin_s: seconds before the end of the retention at which sending stops. Default: 60 s or
            2 % of the retention, whichever is more, but at most half of the retention
            (`replayfloor.retention.margins` says why).
        body_field: the member of the JSON body that carries the key, for a provider that takes no
            header. Default: the header carries it.
        key_rules: length, in characters, and alphabet of the keys that the provider takes.
        key_form: what keys are made as; without dashes where the rules ask for it.
        hosts: the names of the provider's servers; () if they are not known.
        paths: the retention holds for these paths and all below them; () for all.
        answers: which answers mean what.
        learns_lifetime: believe an Idempotency-Key-Lifetime that the server advertises, whatever
            the profile says. Only for servers of one's own.
        sends_first_sent: tell the server the time of the first attempt, in the field
            Repeatability-First-Sent (OASIS Repeatable Requests 1.0, 3.3).
        facts: where the figures come from.

    Raises ConfigurationError.
    """

    name: str
    retention_s: float
    namespace: str = ""
    header: str = "Idempotency-Key"
    quoted: bool = True
    methods: tuple[str, ...] = ("POST", "PATCH")
    margin_s: float | None = None
    body_field: str = ""
    key_rules: KeyRules = DEFAULT_RULES
    key_form: KeyForm = KeyForm.UUID7
    hosts: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    answers: AnswerRules = GENERIC
    learns_lifetime: bool = False
    sends_first_sent: bool = False
    facts: tuple[Fact, ...] = ()

    def __post_init__(self) -> None:
        """Fill in what follows from the rest; refuse what cannot be honoured."""
        if not self.name:
            raise ConfigurationError("a profile needs a name")
        if not (math.isfinite(self.retention_s) and 0 < self.retention_s <= RETENTION_MAX_S):
            raise ConfigurationError(
                f"retention_s must be more than 0 and at most {RETENTION_MAX_S:.0f} s, "
                f"got {self.retention_s}"
            )
        if self.margin_s is not None and not 0 <= self.margin_s < self.retention_s:
            raise ConfigurationError(
                f"margin_s must be at least 0 and less than the retention of {self.retention_s} s, "
                f"got {self.margin_s}: nothing could ever be sent"
            )
        if not is_field_name(self.header):
            raise ConfigurationError(f"{self.header!r} is not the name of a header field")
        if not self.methods:
            raise ConfigurationError("methods is empty: no request would be protected")
        for path in self.paths:
            if not path.startswith("/"):
                raise ConfigurationError(f"{path!r} is not the beginning of a path")
        require_mintable(self.key_form, self.key_rules)
        object.__setattr__(self, "namespace", self.namespace or self.name)
        object.__setattr__(self, "methods", tuple(method.upper() for method in self.methods))
        object.__setattr__(self, "hosts", tuple(host.lower() for host in self.hosts))

    @property
    def send_window_s(self) -> float:
        """Seconds after the first attempt within which an attempt may start."""
        return send_window_s(self.retention_s, self.margin_s)

    def send_deadline_ns(self, first_attempt_at_ns: int) -> int:
        """Return the last moment (exclusive) at which an attempt may start, in ns since 1970."""
        return first_attempt_at_ns + int(self.send_window_s * NS_PER_S)

    def covers(self, method: str, host: str, path: str) -> bool:
        """Return whether the profile speaks of such a request.

        Its retention is not that of another host or path. The loopback is always meant: that is
        where a double of the provider runs.
        """
        if method.upper() not in self.methods:
            return False
        host = host.lower().rstrip(".")  # a name with its root is the same name
        if self.hosts and host not in self.hosts and not _LOOPBACK.fullmatch(host):
            return False
        below = f"{path.rstrip('/')}/"
        return not self.paths or any(
            below.startswith(f"{each.rstrip('/')}/") for each in self.paths
        )

    def mint_key(self, unix_ms: int, entropy: bytes) -> str:
        """Return a new key, as the provider takes it.

        `unix_ms` is the time in ms since 1970; `entropy` is KEY_ENTROPY_BYTES bytes from a
        cryptographic source.
        """
        return mint_key(self.key_form, self.key_rules, unix_ms, entropy)

    def check_key(self, key: str) -> str:
        """Return a caller's key if the provider takes it; raises InvalidKey."""
        try:
            return check_key(key, self.key_rules)
        except InvalidKey as error:
            raise InvalidKey(f"{self.name} does not take the key: {error}") from error

    def fact(self, figure: str) -> Fact | None:
        """Return where a figure comes from; None if the profile does not say."""
        return next((each for each in self.facts if each.figure == figure), None)


@lru_cache(WINDOWS_MAX)
def send_window_s(retention_s: float, margin_s: float | None) -> float:
    """Return the seconds of a retention within which an attempt may start.

    A `margin_s` of None is the default one. Not below 0: a margin that is as long as the retention
    leaves nothing.
    """
    if margin_s is None:
        margin_s = default_margin_s(retention_s)
    return max(0.0, retention_s - margin_s)
