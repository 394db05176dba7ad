"""Stripe's signatures: `Stripe-Signature: t=<Unix seconds>,v1=<hex>[,v1=<hex>]…`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.webhooks.delivery import Delivery, InvalidSignature
from replayfloor.server.webhooks.verify_parts import (
    SIGNATURES_MAX,
    TOLERANCE_S,
    Clock,
    any_equal,
    check_attempt,
    checked_secrets,
    checked_tolerance,
    host_clock_s,
    mac,
    mismatch,
    signature_line,
)

_HEADER: Final = "Stripe-Signature"
_SECRET: Final = "whsec_"


@dataclass(frozen=True, slots=True, init=False, eq=False)
class StripeSignature:
    """Verifies `Stripe-Signature` over its timestamp and the body (HMAC-SHA256).

        StripeSignature("whsec_...")
        StripeSignature("whsec_old", "whsec_new")      # while one replaces the other

    One valid `v1` is enough, by any of the secrets; other schemes (`v0`) are passed over. An
    element without "=", more than one `t`, or more than SIGNATURES_MAX elements, are refused. What
    is accepted here the package `stripe` accepts as well; beyond it, a timestamp that is too far in
    the future is refused, and a body need not be UTF-8.

    Args:
        secrets: of the endpoint, as Stripe shows them: `whsec_` and more. Not an API key.
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
        for text in checked_secrets(who, secrets):
            if not text.startswith(_SECRET) or text == _SECRET:
                raise ConfigurationError(
                    f"{who}: expected the signing secrets of the endpoint, {_SECRET} and more; one "
                    "of those given does not begin so, or ends there"
                )
        put = object.__setattr__
        put(self, "tolerance_s", checked_tolerance(who, tolerance_s))
        put(self, "_clock", clock)
        put(self, "_keys", tuple(text.encode() for text in secrets))

    def __call__(self, delivery: Delivery) -> None:
        """Return if one signature holds; raise InvalidSignature if none does."""
        stamp, given = _parts(signature_line(delivery, _HEADER))
        check_attempt(_HEADER, stamp, now_s=self._clock(), tolerance_s=self.tolerance_s)
        head = f"{stamp}.".encode("ascii")
        made = (mac("sha256", key, head, delivery.body).hexdigest().encode() for key in self._keys)
        if not any_equal(made, given):
            raise mismatch(_HEADER, "the timestamp or the body was")


def _parts(text: str) -> tuple[str, list[str]]:
    """Return the timestamp and the signatures of the scheme that is verified."""
    elements = text.split(",")
    if len(elements) > SIGNATURES_MAX:
        raise InvalidSignature(
            f"{_HEADER} has {len(elements)} elements; at most {SIGNATURES_MAX} are looked at"
        )
    pairs = [element.partition("=") for element in elements]
    if not all(equals for _scheme, equals, _value in pairs):
        raise InvalidSignature(f'{_HEADER} has an element without "=": expected t=…,v1=…')
    stamps = [value for scheme, _equals, value in pairs if scheme == "t"]
    given = [value for scheme, _equals, value in pairs if scheme == "v1"]
    if len(stamps) != 1:
        raise InvalidSignature(f"{_HEADER} has {len(stamps)} timestamps (t=): expected one")
    if not given:
        raise InvalidSignature(f"{_HEADER} has no signature of scheme v1 (v1=)")
    return stamps[0], given
