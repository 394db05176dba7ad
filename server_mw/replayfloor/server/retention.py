"""The retention of a middleware: from a policy, or a number that stands up to one. Pure."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import cast

from replayfloor.core.errors import ConfigurationError
from replayfloor.retention import InboundPolicy, OutboundPolicy
from replayfloor.server.options import RetentionOption


def retention_of(retention: RetentionOption, policy: InboundPolicy | None) -> float | None:
    """Return for how many seconds receipts are kept; None for ever.

    A number beside a policy has to reach its floor. Raises ConfigurationError, RetentionTooShort
    among them.
    """
    for each in (retention, policy):
        if isinstance(each, OutboundPolicy):
            raise ConfigurationError(
                f"{each.name} is an OutboundPolicy: it says how long our client may repeat; how "
                "long receipts are kept is said by an InboundPolicy"
            )
    given = cast("object", policy)
    if given is not None and not isinstance(given, InboundPolicy):
        raise ConfigurationError(f"policy: expected an InboundPolicy, got {given!r}")
    if isinstance(retention, InboundPolicy):
        if policy not in (None, retention):
            raise ConfigurationError("retention and policy hold two policies: give one")
        return retention.retention_s
    if retention is None:
        return None if policy is None else policy.retention_s
    seconds = seconds_of("retention", retention)
    if policy is not None:
        policy.require(seconds)
    return seconds


def policy_of(retention: RetentionOption, policy: InboundPolicy | None) -> InboundPolicy | None:
    """Return the policy that the two options hold, if one does."""
    return retention if isinstance(retention, InboundPolicy) else policy


def seconds_of(name: str, length: timedelta | float) -> float:
    """Return the seconds of an option that is at least one. Raises ConfigurationError."""
    try:
        seconds = length.total_seconds() if isinstance(length, timedelta) else float(length)
    except (TypeError, ValueError):
        raise ConfigurationError(f"{name} is in seconds, or a timedelta, not {length!r}") from None
    if not (math.isfinite(seconds) and seconds >= 1):
        raise ConfigurationError(f"{name} must be at least one second, or None for no end")
    return seconds
