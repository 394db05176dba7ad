"""A body that takes its time: a request is as old as it is when its key is claimed."""

from __future__ import annotations

import pytest

from replayfloor.core.claims import Acquire, Acquired, Claim, Fence, Reuse
from replayfloor.core.fingerprint import Fingerprint
from replayfloor.core.uuid7 import uuid7
from replayfloor.server.effects import ReadRequest, RequestRead
from replayfloor.server.flow.admit import admit
from replayfloor.server.flow.values import Call
from replayfloor.server.policy import Options

NOW_MS = 1_900_000_000_000
HOUR_MS = 3_600_000
MARGIN_MS = 300_000
OPTIONS = Options(retention_ms=84 * HOUR_MS)


def _claimed(minted_ms: int, first_sent_ms: int | None, read_ms: int | None) -> Claim:
    """Return the claim that follows on a body that was complete at a moment."""
    key = f'"{uuid7(minted_ms, bytes(10))}"'.encode()
    call = Call([key], "default", None, Fence(bytes(16)), NOW_MS, first_sent_ms)
    flow = admit(call, OPTIONS)
    assert isinstance(next(flow), ReadRequest)
    assert isinstance(flow.send(RequestRead(Fingerprint(bytes(16)), read_ms)), Acquire)
    claim = flow.send(Acquired())
    assert isinstance(claim, Claim)
    flow.close()
    return claim


OLDEST_MS = NOW_MS - 84 * HOUR_MS + MARGIN_MS


@pytest.mark.parametrize(
    ("took_ms", "reuse"), [(None, Reuse.REFUSE), (0, Reuse.REFUSE), (1, Reuse.NEVER)]
)
@pytest.mark.parametrize("told_by", ["key", "sender"])
def test_a_key_that_grew_too_old_while_its_body_arrived_is_not_executed(
    took_ms: int | None, reuse: Reuse, told_by: str
) -> None:
    minted = OLDEST_MS if told_by == "key" else NOW_MS
    sent = OLDEST_MS if told_by == "sender" else None
    claim = _claimed(minted, sent, None if took_ms is None else NOW_MS + took_ms)

    assert claim.reuse is reuse


def test_a_clock_that_went_back_meanwhile_makes_no_key_younger() -> None:
    assert _claimed(OLDEST_MS - 1, None, NOW_MS - HOUR_MS).reuse is Reuse.NEVER
