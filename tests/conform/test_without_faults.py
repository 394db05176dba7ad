"""The server that `test_faults` breaks passes every check as long as it is not broken."""

from __future__ import annotations

import pytest

from conform.faulty import FaultyServer
from conform.serving import asking, served
from conform.shop import make_shop, target
from replayfloor.conform import CHECKS, Verdict, run_checks

pytestmark = pytest.mark.slow


def test_without_a_fault_nothing_fails() -> None:
    with served(FaultyServer(make_shop())) as url, asking(url) as shell:
        report = run_checks(target(), CHECKS, shell)

    assert [
        (each.check.id, each.outcome.seen)
        for each in report.results
        if each.outcome.verdict not in (Verdict.PASS, Verdict.NOTE)
    ] == []
    assert report.ids(Verdict.NOTE) == ["A19"]
