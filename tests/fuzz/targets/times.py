"""Times that the other side writes: a number or nothing, and the same number as other readers.

Retry-After and Idempotency-Key-Lifetime in the client; Repeatability-First-Sent and the time of a
UUIDv7 in the server. An input is the value of a field.
"""

from __future__ import annotations

import math
import uuid
from email.utils import parsedate_to_datetime
from typing import Final

from replayfloor.client.policy import RETRY_AFTER_DIGITS_MAX, retry_after_s
from replayfloor.client.profiles import RETENTION_MAX_S
from replayfloor.client.support import LIFETIME_FIELD, read_support
from replayfloor.core.message import Response
from replayfloor.core.uuid7 import minted_ms, uuid7
from replayfloor.server.requests import first_sent_ms

NOWS_NS: Final = (0, 784_887_151 * 10**9, 1_796_000_000 * 10**9 + 1, 4_102_444_800 * 10**9)

IMF_FIXDATE_BYTES: Final = 29
"""`Sun, 06 Nov 1994 08:49:37 GMT`, the one form that senders make (RFC 9110, 5.6.7)."""


def check(data: bytes) -> None:
    """Read a value as each of the four."""
    _check_retry_after(data.decode("latin-1"))
    _check_lifetime(data)
    _check_first_sent(data)
    _check_minted(data.decode("latin-1"))


def _check_retry_after(value: str) -> None:
    stripped = value.strip(" \t")
    for now_ns in NOWS_NS:
        wait_s = retry_after_s(value, now_ns)
        if stripped.isascii() and stripped.isdigit():
            assert wait_s is not None
            digits = stripped.lstrip("0") or "0"
            if len(digits) <= RETRY_AFTER_DIGITS_MAX:
                assert wait_s == int(digits)
            else:
                assert wait_s >= 10**RETRY_AFTER_DIGITS_MAX, "a long number is a long wait"
        elif wait_s is not None:
            assert 0 <= wait_s < math.inf
            if len(stripped) == IMF_FIXDATE_BYTES and ":60 " not in stripped:
                asked_s = _other_reader_s(stripped)
                # Years below 1000 are guessed at by the other reader.
                if asked_s is not None and stripped[12] != "0":
                    assert abs(wait_s - max(0.0, asked_s - now_ns / 1e9)) < 1


def _other_reader_s(value: str) -> float | None:
    try:
        return parsedate_to_datetime(value).timestamp()
    except ValueError:
        return None


def _check_lifetime(value: bytes) -> None:
    support = read_support(Response(200, ((LIFETIME_FIELD, value),), b""))
    if support is None:
        return
    assert support.retention_s is not None
    assert 0 < support.retention_s <= RETENTION_MAX_S
    assert support.retention_s == int(value)


def _check_first_sent(value: bytes) -> None:
    sent_ms = first_sent_ms(value)
    assert sent_ms is None or type(sent_ms) is int
    text = value.decode("latin-1")
    is_date = len(text) == IMF_FIXDATE_BYTES and text.endswith("GMT")
    waits_s = retry_after_s(text, 0) if is_date else None
    if waits_s and ":60 " not in text and text[12] != "0":
        assert sent_ms == waits_s * 1000, "the strict reader of the client reads the same"


def _check_minted(text: str) -> None:
    minted = minted_ms(text)
    assert minted is None or 0 <= minted < 1 << 48
    try:
        value = uuid.UUID(text)
    except ValueError:
        assert minted is None
        return
    as_written = str(value) == text.lower()
    assert minted == (value.int >> 80 if as_written and value.version == 7 else None)
    entropy = value.bytes[:10]
    assert minted_ms(str(uuid7(value.int >> 80, entropy))) == value.int >> 80
