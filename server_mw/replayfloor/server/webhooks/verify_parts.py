"""What the verifiers share: the lines of a header, the time of an attempt, secrets. No scheme.

What is refused here is refused for all senders: a header that is there twice (who reads the first
line and who reads the last would see two deliveries), one that is empty, and one that has anything
but visible ASCII, spaces and tabs. No message has a secret, a signature, or text of the request.
"""

from __future__ import annotations

import hmac
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias, cast

from replayfloor.core.errors import ConfigurationError
from replayfloor.core.message import get_all
from replayfloor.server import clock as host
from replayfloor.server.webhooks.delivery import Delivery, InvalidSignature

Clock: TypeAlias = Callable[[], float]
"""Returns the time in seconds since 1970."""

TOLERANCE_S: Final = 300.0
"""How far the time of an attempt may be from this host's clock, either way: what the receivers'
libraries of Stripe, Slack and Standard Webhooks allow. It bounds for how long someone who has read
a delivery can send it again as it is. It says nothing of the sender, who signs each attempt anew
and may deliver an event again after days: that is what receipts are kept for."""

SIGNATURES_MAX: Final = 32
"""Elements of one signature header. While secrets are rotated there are some two or three; each
costs a comparison, or a verification, by every key, before it is known who sends them."""

_TEXT: Final = re.compile(rb"[\t\x20-\x7e]*")
_SECONDS: Final = re.compile(r"[0-9]{1,15}")
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def host_clock_s() -> float:
    """Return the time of this host, by the clock of the middlewares."""
    return host.wall_ms() / 1000


def one_line(delivery: Delivery, name: str) -> str:
    """Return the value of a header that must be there once, byte for byte; raise if it is not."""
    lines = get_all(delivery.headers, name.lower().encode("ascii"))
    if not lines:
        raise InvalidSignature(
            f"there is no header {name}: the delivery is not signed as configured here, or a proxy "
            "has removed it"
        )
    if len(lines) > 1:
        raise InvalidSignature(f"{name} is there {len(lines)} times: send it once, on one line")
    if not _TEXT.fullmatch(lines[0]):
        raise InvalidSignature(f"{name} has bytes that are not visible ASCII")
    if not lines[0].strip(b" \t"):
        raise InvalidSignature(f"{name} is empty")
    return lines[0].decode("ascii")


def signature_line(delivery: Delivery, name: str) -> str:
    """Return a header as `one_line`, without the blanks around it (RFC 9110, section 5.5).

    Only for what nothing else reads: an id is compared, and used as a key, byte for byte.
    """
    return one_line(delivery, name).strip(" \t")


def check_attempt(name: str, text: str, *, now_s: float, tolerance_s: float) -> None:
    """Raise unless the time of an attempt, in Unix seconds, is near to this host's clock."""
    if not _SECONDS.fullmatch(text):
        raise InvalidSignature(f"{name}: the timestamp is not a number of Unix seconds")
    ahead_s = int(text) - now_s
    if abs(ahead_s) > tolerance_s:
        side = "ahead of" if ahead_s > 0 else "behind"
        raise InvalidSignature(
            f"{name}: the timestamp is {math.ceil(abs(ahead_s))} s {side} this host's clock, more "
            f"than the tolerance of {tolerance_s:g} s: check the clock, and that the delivery is "
            "not an old one sent again as it was"
        )


def mac(digest: str, key: bytes, *signed: bytes) -> hmac.HMAC:
    """Return the HMAC over parts that follow one another, without a copy of them."""
    made = hmac.new(key, digestmod=digest)
    for part in signed:
        made.update(part)
    return made


def any_equal(expected: Iterable[bytes], given: Sequence[str]) -> bool:
    """Return whether any signature is an expected one, in a time that tells nothing of either."""
    lines = [each.encode("ascii") for each in given]
    return any(hmac.compare_digest(mine, line) for mine in expected for line in lines)


def mismatch(name: str, covered: str) -> InvalidSignature:
    """Return the refusal of a signature that does not hold; `covered` is what it is over."""
    return InvalidSignature(
        f"{name}: the signature is of another secret, or {covered} changed on the way: compare the "
        "secret with the sender's, and let nothing rewrite the body before it is verified"
    )


def checked_secrets(who: str, secrets: Sequence[str]) -> tuple[str, ...]:
    """Return secrets that are text; raise ConfigurationError saying which is not, and why."""
    if not secrets:
        raise ConfigurationError(
            f"{who}: expected at least one secret; two while one replaces the other"
        )
    for at, secret in enumerate(secrets, 1):
        if not isinstance(cast("object", secret), str):
            raise ConfigurationError(
                f"{who}: secret {at} of {len(secrets)}: expected text, not {type(secret).__name__}"
            )
        if not secret or secret != secret.strip():
            raise ConfigurationError(
                f"{who}: secret {at} of {len(secrets)}: expected text without blanks or line ends "
                "around it, not empty"
            )
        if not _is_unicode(secret):
            raise ConfigurationError(
                f"{who}: secret {at} of {len(secrets)}: expected text, not bytes that are no UTF-8"
            )
    return tuple(secrets)


def _is_unicode(secret: str) -> bool:
    # An environment variable may hold bytes that are none; the error they raise quotes the text.
    return not any("\ud800" <= char <= "\udfff" for char in secret)


def checked_tolerance(who: str, tolerance_s: float) -> float:
    """Return a tolerance in seconds; raise ConfigurationError if it is none."""
    given = cast("object", tolerance_s)
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ConfigurationError(f"{who}: tolerance_s is a number of seconds, not {given!r}")
    if not (math.isfinite(given) and given > 0):
        raise ConfigurationError(
            f"{who}: tolerance_s={given!r}: expected a number of seconds above 0; a sender that "
            "keeps the timestamp over its redeliveries needs one as long as it delivers again"
        )
    return float(given)


def checked_name(who: str, name: str) -> str:
    """Return the name of a header; raise ConfigurationError if it cannot be one (RFC 9110, 5.1)."""
    if not isinstance(cast("object", name), str) or not _NAME.fullmatch(name):
        raise ConfigurationError(f"{who}: expected the name of a header, not {name!r}")
    return name
