"""Each protection is taken from the servers, and chaos has to find out; else it proves nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from chaos.check import Wrong
from chaos.plan import Blow, Plan, Route
from chaos.run import play

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

PLAN = Plan(seed=3, seconds=20.0, gap_s=1.5, routes=(Route.EXTERNAL,))
"""A short run, with the blows that the missing protection is for."""

SLOW_MS = ((1.0, 300, 600),)
"""Handlers that are still running when their worker is stopped."""


async def test_without_claims_chaos_finds_double_executions(tmp_path: Path) -> None:
    blows = (Blow.REDIS_FLUSHED, Blow.REDIS_EMPTIED, Blow.WORKER_KILLED)

    report = await play(replace(PLAN, broken="claims", blows=blows), tmp_path)

    assert report.verdict.count(Wrong.DOUBLE) > 0
    payment = next(each.payment for each in report.verdict.violations if each.wrong is Wrong.DOUBLE)
    history = "\n".join(report.history(payment))
    assert history.count("ledger: ") > 1
    assert history.count("execution begun") > 1
    assert "attempt at worker" in history


async def test_without_the_fence_chaos_finds_what_a_stale_owner_did(tmp_path: Path) -> None:
    plan = replace(
        PLAN,
        broken="fence",
        blows=(Blow.WORKER_STOPPED,),
        routes=(Route.ATOMIC,),
        clients=24,  # more would wait for the connections of the one worker that is left
        handlers_ms=SLOW_MS,
        # Long enough for a client of the stopped worker to find the other one; rarely both.
        stop_leases=(2.0, 3.0),
        gap_s=4.0,
    )

    report = await play(plan, tmp_path)

    assert report.verdict.count(Wrong.DOUBLE) > 0


async def test_if_answers_do_not_wait_for_the_commit_chaos_finds_lost_acknowledgements(
    tmp_path: Path,
) -> None:
    blows = (Blow.WORKER_KILLED, Blow.POSTMASTER_KILLED)

    report = await play(replace(PLAN, broken="waiting", blows=blows), tmp_path)

    assert report.verdict.count(Wrong.LOST) > 0


async def test_without_renewals_chaos_finds_unknowns_that_have_no_reason(tmp_path: Path) -> None:
    report = await play(replace(PLAN, broken="renewals", blows=(Blow.REDIS_FLUSHED,)), tmp_path)

    assert report.verdict.count(Wrong.UNKNOWN) > 0


async def test_with_every_protection_the_same_blows_break_nothing(tmp_path: Path) -> None:
    blows = (Blow.WORKER_STOPPED, Blow.WORKER_KILLED, Blow.REDIS_FLUSHED)

    report = await play(replace(PLAN, blows=blows, routes=tuple(Route)), tmp_path)

    assert report.verdict.violations == ()
