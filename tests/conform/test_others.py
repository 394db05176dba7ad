"""Known faults of other implementations, in the versions that are installed, are found.

The ids say what a release does and does not; a newer one may pass.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol, cast

import idemkit
from idempotency_header_middleware import IdempotencyHeaderMiddleware
from idempotency_header_middleware.backends.memory import MemoryBackend
from starlette.types import ASGIApp

from conform.serving import asking, served
from conform.shop import make_shop, target
from replayfloor.conform import Report, Verdict, run_checks, select

SHORT_WAIT_S = 0.05
"""How long its duplicates wait for the first answer: less than the slow path takes."""


class _Request(Protocol):
    headers: Mapping[str, str]


def run(app: ASGIApp, ids: Collection[str]) -> Report:
    with served(app) as url, asking(url) as shell:
        return run_checks(target(), select(ids), shell)


def failures(report: Report) -> dict[str, str]:
    return {
        each.check.id: each.outcome.seen
        for each in report.results
        if each.outcome.verdict is Verdict.FAIL
    }


def header_middleware(app: ASGIApp) -> ASGIApp:
    return cast("ASGIApp", IdempotencyHeaderMiddleware(app, backend=MemoryBackend()))


def test_faults_of_asgi_idempotency_header_0_2_0_are_found() -> None:
    app = make_shop()
    app.add_middleware(header_middleware)
    faults = ["A12", "H-2", "B-30", "A8", "S-3", "B-20", "B-19", "B-23", "B-38", "B-08", "RA-1"]

    found = failures(run(app, [*faults, "E-2", "U7-7", "B-29"]))

    # What it keeps: a retry gets the first answer's body, and keys are kept apart.
    assert {"E-2", "U7-7", "B-29"} & set(found) == set()
    assert set(found) >= {
        "A12",  # an empty value runs unprotected
        "H-2",  # another payload gets the first answer: there is no fingerprint
        "B-30",  # so does another query
        "A8",  # and another path
        "S-3",  # and another principal
        "B-20",  # Location is dropped
        "B-19",  # an answer without a body is executed again
        "B-23",  # an answer that is no JSON is broken
        "B-38",  # so is one that is streamed
        "B-08",  # a handler that fails leaves its key in flight
        "RA-1",  # a conflict does not say when to come back
    }
    assert "gets the first answer" in found["H-2"]
    assert "/refunds gets the first answer" in found["A8"]
    assert "blocked (409)" in found["B-08"]


def test_faults_of_idemkit_1_0_2_are_found() -> None:
    app = make_shop()
    app.add_middleware(
        idemkit.IdempotencyMiddleware,
        backend=idemkit.InMemoryBackend(),
        config=idemkit.HttpConfig(scope=_user, wait_timeout_seconds=SHORT_WAIT_S),
    )

    faults = ["A12", "K-5", "E-3", "B-18", "B-19", "A4", "B-24", "B-38", "B-21"]

    found = failures(run(app, [*faults, "H-2", "B-01", "S-3", "A10"]))

    assert {"H-2", "B-01", "S-3", "A10"} & set(found) == set()
    assert set(found) >= {
        "A12",  # an empty value runs unprotected
        "K-5",  # of two lines one is taken
        "E-3",  # a duplicate in flight is told 423
        "B-18",  # a redirect is executed again
        "B-19",  # so is an answer without a body
        "A4",  # and a final 4xx
        "B-24",  # and a large answer
        "B-38",  # a streamed answer does not arrive
        "B-21",  # of two header lines one is kept
    }
    assert "423" in found["E-3"]


def _user(request: _Request) -> str:
    return request.headers["x-user"]
