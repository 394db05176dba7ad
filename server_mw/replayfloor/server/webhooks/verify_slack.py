"""Slack's signatures: `X-Slack-Signature: v0=<hex>`, over version, timestamp and body."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from replayfloor.server.webhooks.delivery import Delivery
from replayfloor.server.webhooks.verify_parts import (
    TOLERANCE_S,
    Clock,
    any_equal,
    check_attempt,
    checked_secrets,
    checked_tolerance,
    host_clock_s,
    mac,
    mismatch,
    one_line,
    signature_line,
)

_TIMESTAMP: Final = "X-Slack-Request-Timestamp"
_SIGNATURE: Final = "X-Slack-Signature"


@dataclass(frozen=True, slots=True, init=False, eq=False)
class SlackSignature:
    """Verifies `X-Slack-Signature` (HMAC-SHA256, scheme v0).

    Args:
        secrets: the signing secrets of the app, not its tokens; two while one replaces the other.
        tolerance_s: how far the timestamp may be from this host's clock, either way, in seconds.
        clock: this host's time in seconds since 1970.

    Raises ConfigurationError.
    """

    tolerance_s: float
    _clock: Clock = field(repr=False)
    _keys: tuple[bytes, ...] = field(repr=False)

    def __init__(
        self, *secrets: str, tolerance_s: float = TOLERANCE_S, clock: Clock = host_clock_s
    ) -> None:
        who = type(self).__name__
        put = object.__setattr__
        put(self, "tolerance_s", checked_tolerance(who, tolerance_s))
        put(self, "_clock", clock)
        put(self, "_keys", tuple(text.encode() for text in checked_secrets(who, secrets)))

    def __call__(self, delivery: Delivery) -> None:
        """Return if the signature holds; raise InvalidSignature if it does not."""
        stamp = one_line(delivery, _TIMESTAMP)
        check_attempt(_TIMESTAMP, stamp, now_s=self._clock(), tolerance_s=self.tolerance_s)
        head = f"v0:{stamp}:".encode("ascii")
        made = (
            b"v0=" + mac("sha256", key, head, delivery.body).hexdigest().encode()
            for key in self._keys
        )
        if not any_equal(made, [signature_line(delivery, _SIGNATURE)]):
            raise mismatch(_SIGNATURE, "the timestamp or the body was")
