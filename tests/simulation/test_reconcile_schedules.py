"""Settling an orphan under every schedule of a small world; and ways that must be caught there."""

from __future__ import annotations

import pytest

from replayfloor.server.events import EventKind
from replayfloor.server.flow.reconcile import Settled, settle_orphan
from replayfloor.server.verdicts import Ask
from replayfloor.testing.explore_states import visit
from replayfloor.testing.reconcile_actors import (
    OrphanWorld,
    Reconciling,
    expire,
    request_of,
)
from replayfloor.testing.reconcile_scenario import ReconcileFaults, ReconcileScenario
from simulation.broken_settling import BROKEN

FAULTS = {
    "crash": ReconcileFaults(crashes=1),
    "expired lease": ReconcileFaults(expiries=1),
    "lost answer": ReconcileFaults(lost_answers=1),
    "crash and expired lease": ReconcileFaults(crashes=1, expiries=1),
    "expired lease and lost answer": ReconcileFaults(expiries=1, lost_answers=1),
}
SMALL = ("crash", "expired lease", "lost answer")
SHRUNK = 20

recognises = pytest.mark.parametrize("recognises", [True, False], ids=["recognised", "watched"])
"""What makes "not applied" final: a provider that recognises a repeated call, or an operator who
knows that nobody is left who might still have an effect."""


@recognises
@pytest.mark.parametrize("fault", ["lost answer", "crash and expired lease"])
def test_no_schedule_of_an_owner_that_wakes_up_breaks_a_promise(
    recognises: bool, fault: str
) -> None:
    report = visit(ReconcileScenario(recognises=recognises, faults=FAULTS[fault]).begin)

    assert report.shortest is None, str(report.shortest)
    assert report.schedules > SHRUNK, "the world has shrunk to nothing"


@recognises
@pytest.mark.parametrize("fault", SMALL)
def test_no_schedule_of_two_reconcilers_breaks_a_promise(recognises: bool, fault: str) -> None:
    scenario = ReconcileScenario(
        alive=False, reconcilers=2, recognises=recognises, faults=FAULTS[fault]
    )
    report = visit(scenario.begin)

    assert report.shortest is None, str(report.shortest)
    assert report.schedules > SHRUNK, "the world has shrunk to nothing"


@recognises
def test_no_schedule_of_an_owner_and_two_reconcilers_breaks_a_promise(recognises: bool) -> None:
    report = visit(ReconcileScenario(reconcilers=2, recognises=recognises).begin)

    assert report.shortest is None, str(report.shortest)
    assert report.schedules > SHRUNK, "the world has shrunk to nothing"


@recognises
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("retries", "reconcilers"), [(2, 1), (1, 2)])
def test_no_schedule_of_a_larger_world_breaks_a_promise(
    retries: int, reconcilers: int, recognises: bool, fault: str
) -> None:
    alive = (retries, reconcilers) == (2, 1) and "and" not in fault
    scenario = ReconcileScenario(
        alive=alive,
        retries=retries,
        reconcilers=reconcilers,
        recognises=recognises,
        faults=FAULTS[fault],
    )
    report = visit(scenario.begin)

    assert report.shortest is None, str(report.shortest)


@pytest.mark.parametrize("mistake", BROKEN)
def test_a_way_to_settle_with_this_mistake_is_caught(mistake: str) -> None:
    report = visit(BROKEN[mistake]().begin)

    assert report.broken > 0
    assert report.shortest is not None
    assert report.shortest.schedule


def test_a_reconciler_that_comes_too_late_is_refused_and_says_so() -> None:
    world = OrphanWorld(recognises=True)
    owner = request_of("owner", world)
    owner.step()
    owner.die()
    expire(world)
    slow, quick = (Reconciling(name, world, settle_orphan, []) for name in ("slow", "quick"))
    while not isinstance(slow.waiting_for, Ask):
        slow.step()
    expire(world)
    for late in (quick, slow):
        while late.running:
            late.step()

    assert (quick.result, slow.result) == (Settled.NOT_APPLIED, Settled.SKIPPED)
    assert quick.events == [EventKind.RECONCILED]
    assert slow.events == [EventKind.LEASE_LOST]
