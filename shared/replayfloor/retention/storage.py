"""What receipts cost on disk: arithmetic on a rate, a number of days and bytes a key.

Sizes are decimal (1 GB = 10^9 bytes) and exact; only `size_text` rounds, to three digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from replayfloor.retention.coverage import three_digits
from replayfloor.retention.durations import DURATION_MAX_S
from replayfloor.retention.errors import PolicyError

DAY_S: Final = 86_400

BYTES_PER_KEY: Final = 132
"""One receipt without a body, heap and index together: the measured figure, rounded up so that the
pages of an index that is half way to a split are covered."""

PROOF_BYTES: Final = 16
"""The proof that a key was used: the receipt's id, which is 128 bits of a hash."""

TOMBSTONE_BYTES: Final = 96
"""What Postgres takes for one proof, rounded up from 91 that were measured: a row of id and time is
24 + 16 + 8 bytes and its 4-byte pointer, and its entry in an index that is filled in random order
takes some 40."""

RATE_MAX_PER_S: Final = 1_000_000.0
"""More than any one table takes: a mistake of unit."""

DAYS_MAX: Final = DURATION_MAX_S / DAY_S

BYTES_PER_KEY_MAX: Final = 1 << 30
"""One field of Postgres holds no more."""

_PREFIXES: Final = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is stored at a steady rate.

    Args:
        rate_per_s: new keys a second, on average over a day.
        days: for how many days receipts are kept.
        bytes_per_key: of one receipt, index included.
        tombstone_days: for how many days the proof outlives the receipt; 0: it does not.
        tombstone_bytes: of one proof, index included.

    Raises PolicyError.
    """

    rate_per_s: float
    days: float
    bytes_per_key: float = BYTES_PER_KEY
    tombstone_days: float = 0.0
    tombstone_bytes: float = TOMBSTONE_BYTES

    def __post_init__(self) -> None:
        """Refuse what is no rate, no time and no size."""
        _require("the rate", self.rate_per_s, RATE_MAX_PER_S, zero=False)
        _require("the number of days", self.days, DAYS_MAX, zero=False)
        _require("the size of a receipt", self.bytes_per_key, BYTES_PER_KEY_MAX, zero=False)
        _require("the number of days of a tombstone", self.tombstone_days, DAYS_MAX, zero=True)
        _require("the size of a tombstone", self.tombstone_bytes, BYTES_PER_KEY_MAX, zero=False)

    @property
    def keys_per_day(self) -> int:
        """New keys a day, rounded up."""
        return math.ceil(_exact(self.rate_per_s) * DAY_S)

    @property
    def bytes_per_day(self) -> int:
        """Bytes of the receipts of one day."""
        return self._bytes(1.0, self.bytes_per_key)

    @property
    def receipt_bytes(self) -> int:
        """Bytes of all receipts that are kept."""
        return self._bytes(self.days, self.bytes_per_key)

    @property
    def tombstone_total_bytes(self) -> int:
        """Bytes of all proofs that outlived their receipt."""
        return self._bytes(self.tombstone_days, self.tombstone_bytes)

    @property
    def total_bytes(self) -> int:
        """Bytes of receipts and proofs."""
        return self.receipt_bytes + self.tombstone_total_bytes

    def bytes_until_dropped(self, width_s: float) -> int:
        """Return the bytes of receipts that wait for their partition, that wide, to be dropped."""
        return self._bytes(width_s / DAY_S, self.bytes_per_key)

    def _bytes(self, days: float, each: float) -> int:
        return math.ceil(_exact(self.rate_per_s) * DAY_S * _exact(days) * _exact(each))

    def as_dict(self) -> dict[str, float]:
        """Return all figures by name, for a program."""
        return {
            "rate_per_s": self.rate_per_s,
            "days": self.days,
            "bytes_per_key": self.bytes_per_key,
            "keys_per_day": self.keys_per_day,
            "bytes_per_day": self.bytes_per_day,
            "receipt_bytes": self.receipt_bytes,
            "tombstone_days": self.tombstone_days,
            "tombstone_bytes_per_key": self.tombstone_bytes,
            "tombstone_bytes": self.tombstone_total_bytes,
            "total_bytes": self.total_bytes,
        }


def render_estimate(estimate: Estimate) -> list[str]:
    """Return an estimate as lines for a person, each computation shown."""
    each, days = _number(estimate.bytes_per_key), _number(estimate.days)
    lines = [
        f"{each} B a key x {estimate.keys_per_day:,} keys a day "
        f"({_number(estimate.rate_per_s)} a second) = {size_text(estimate.bytes_per_day)} a day",
        f"for {days} {_days(estimate.days)}: {size_text(estimate.receipt_bytes)}",
    ]
    if estimate.tombstone_days:
        proof, more = _number(estimate.tombstone_bytes), _number(estimate.tombstone_days)
        lines += [
            f"and {proof} B a tombstone (the proof itself is {PROOF_BYTES} B) for {more} more "
            f"{_days(estimate.tombstone_days)}: {size_text(estimate.tombstone_total_bytes)}",
            f"together: {size_text(estimate.total_bytes)}",
        ]
    return lines


def size_text(size: int) -> str:
    """Return a number of bytes to three digits: "228 MB", "6.84 GB"."""
    power = 0
    while power < len(_PREFIXES) - 1 and Fraction(three_digits(_scaled(size, power))) >= 1000:
        power += 1
    text = three_digits(_scaled(size, power)) if power else str(size)
    return f"{text} {_PREFIXES[power]}"


def _scaled(size: int, power: int) -> Fraction:
    return Fraction(size, 1000**power)


def _number(value: float) -> str:
    return f"{value:,.10g}"


def _days(count: float) -> str:
    return "day" if count == 1 else "days"


def _exact(value: float) -> Fraction:
    # What the user wrote: 0.1 a second is a tenth, and not the binary number nearest to it.
    return Fraction(repr(value))


def _require(name: str, value: float, most: float, *, zero: bool) -> None:
    if math.isfinite(value) and 0 <= value <= most and (zero or value):
        return
    least = "at least 0" if zero else "more than 0"
    raise PolicyError(f"{name} is {value!r}", advice=f"it is {least} and at most {most:,.10g}")
