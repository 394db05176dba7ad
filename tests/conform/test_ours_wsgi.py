"""Our WSGI middleware under gunicorn passes every check, on SQLite."""

from __future__ import annotations

from pathlib import Path

import pytest

from conform.serving import HOST, asking, running
from conform.shop import target
from replayfloor.conform import CHECKS, Verdict, run_checks
from support.services.server import free_port
from support.sources import ROOT

pytestmark = pytest.mark.slow

THREADS = 32


def test_every_check_passes_over_wsgi(tmp_path: Path) -> None:
    port = free_port()
    command = ["gunicorn", "conform.shop:protected_wsgi_shop()", "--bind", f"{HOST}:{port}"]
    command += ["--threads", str(THREADS), "--no-control-socket", "--keep-alive", "10"]
    environment = {
        "PYTHONPATH": str(ROOT / "tests"),
        "HOME": str(tmp_path),
        "RECEIPTS": f"sqlite:///{tmp_path}/receipts.db",
    }
    with running(command, port, environment), asking(f"http://{HOST}:{port}/payments") as shell:
        report = run_checks(target(), CHECKS, shell)

    seen = {each.check.id: each.outcome.seen for each in report.results}
    assert [seen[name] for name in report.ids(Verdict.FAIL)] == []
    assert report.ids(Verdict.NOTE) == ["A19"]
    # This shop is not open to pages of other origins.
    assert report.ids(Verdict.NOT_APPLICABLE) == ["B-35", "B-36"]
    assert report.ids(Verdict.NOT_RUN) == []
