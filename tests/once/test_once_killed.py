"""A consumer process is killed by SIGKILL while it applies a message."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from once.consumer_process import LEASE_S
from once.consumers import SOURCE, consuming, outcome
from replayfloor.server.once import AlreadyApplied, OutcomeNotKnown, StillInFlight
from server.backends import Backend, EffectsOption
from support.sources import ROOT

pytestmark = pytest.mark.anyio

# Every day once on each side; the other pairs in the slow run.
SIDES = [
    pytest.param("asgi", "atomic"),
    pytest.param("wsgi", "external"),
    pytest.param("asgi", "external", marks=pytest.mark.slow),
    pytest.param("wsgi", "atomic", marks=pytest.mark.slow),
]


@contextmanager
def process(side: str, backend: Backend, effects: EffectsOption) -> Iterator[None]:
    """Run a consumer until it has written its row; kill it at the end of the block."""
    command = [sys.executable, "-m", "once.consumer_process", side]
    with subprocess.Popen(
        [*command, backend.receipts_url, backend.lock_url, effects],
        env={**os.environ, "PYTHONPATH": f"{os.pathsep.join(sys.path)}"},
        cwd=ROOT,
        stdout=subprocess.PIPE,
    ) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == b"written\n"
            yield
        finally:
            running.kill()


@pytest.mark.parametrize(("side", "effects"), SIDES)
async def test_what_was_atomic_is_taken_over_and_what_was_not_is_not_known(
    awaited: Backend, side: str, effects: EffectsOption
) -> None:
    async with consuming(awaited, effects=effects, lease_s=LEASE_S) as consumer:
        with process(side, awaited, effects), pytest.raises(StillInFlight):
            await consumer.deliver("m1", source=SOURCE)
        last = await outcome(consumer)

    assert awaited.ledger.rows() == ["m1"]
    if effects == "atomic":
        assert last is AlreadyApplied
        assert [claim.taken_over for claim in consumer.claims] == [True]
    else:
        assert last is OutcomeNotKnown
        assert consumer.claims == []
