"""Chaos in small, every day: some blows of each kind, and every promise kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chaos.plan import EVERY_BLOW, Blow, Plan
from chaos.run import play
from replayfloor.server.events import EventKind

pytestmark = pytest.mark.anyio

SEED = 5
SECONDS = 30.0
"""With starting, settling and asking again it is a minute."""

PACE_S = (0.8, 2.6)
"""Slower than in a run of its own: other tests need the machine as well."""


def test_a_seed_reproduces_the_schedule_of_faults() -> None:
    plans = [Plan(seed=seed, seconds=600) for seed in (7, 7, 8)]

    assert plans[0].strikes() == plans[1].strikes()
    assert plans[0].strikes() != plans[2].strikes()
    assert plans[0].network_faults(0, 500) == plans[1].network_faults(0, 500)
    assert plans[0].network_faults(0, 500) != plans[0].network_faults(1, 500)


def test_every_blow_falls_within_one_deal_of_the_deck() -> None:
    strikes = Plan(seed=SEED, seconds=SECONDS).strikes()

    assert len(strikes) >= len(EVERY_BLOW)
    assert {strike.blow for strike in strikes} == set(Blow)


async def test_in_a_minute_of_chaos_no_promise_is_broken(tmp_path: Path) -> None:
    report = await play(Plan(seed=SEED, seconds=SECONDS, pace_s=PACE_S), tmp_path)

    told = json.loads(json.dumps(report.as_json()))
    assert told["violations"] == []
    assert (told["double_executions"], told["lost_acknowledgements"]) == (0, 0)
    assert set(told["faults"]["servers"]) == set(Blow)
    assert {"BlackHole", "CutAfter", "Delay", "LoseReply", "Refuse"} <= told["faults"][
        "network"
    ].keys()
    assert told["attempts"] > told["requests"] > 100
    assert told["acknowledged"] > told["unknowns"]["count"]
    # Else the stops did not outlast a lease, and nobody was there to be fenced.
    assert report.noted(EventKind.TAKEN_OVER) > 0
