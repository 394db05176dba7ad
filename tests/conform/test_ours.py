"""Our ASGI middleware under uvicorn passes every check, on SQLite, with nothing left out."""

from __future__ import annotations

from pathlib import Path

from starlette.middleware.cors import CORSMiddleware
from starlette.types import Scope

from conform.serving import asking, served
from conform.shop import ORIGIN, make_shop, target
from replayfloor.conform import CHECKS, Verdict, run_checks
from replayfloor.server import IdempotencyMiddleware


def user(scope: Scope) -> str:
    return str(dict(scope["headers"])[b"x-user"], "latin-1")


def test_every_check_passes_over_asgi(tmp_path: Path) -> None:
    app = make_shop()
    app.add_middleware(
        IdempotencyMiddleware,
        receipts=f"sqlite:///{tmp_path}/receipts.db",
        principal=user,
        required=True,
    )
    # Outside of the middleware, as its documentation says.
    app.add_middleware(
        CORSMiddleware,
        allow_origins=[ORIGIN],
        allow_methods=["POST"],
        allow_headers=["Idempotency-Key"],
        expose_headers=["Idempotent-Replayed", "Retry-After"],
    )
    with served(app) as url, asking(url) as shell:
        report = run_checks(target(), CHECKS, shell)

    seen = {each.check.id: each.outcome.seen for each in report.results}
    assert [seen[name] for name in report.ids(Verdict.FAIL)] == []
    # The order of JSON members is told, and judged by no text.
    assert report.ids(Verdict.NOTE) == ["A19"]
    assert len(report.ids(Verdict.PASS)) == len(CHECKS) - 1
    assert report.exit_code == 0
