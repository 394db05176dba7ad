"""uvicorn with one application: `python -m benchmarks.worker SPEC PORT [WORKERS]`."""

from __future__ import annotations

import os
import sys
from typing import Final

import uvicorn
from benchmarks.app_spec import AppSpec
from benchmarks.apps import make_app
from benchmarks.collector import settle
from starlette.types import ASGIApp

VARIABLE: Final = "BENCH_APP"
KEEP_ALIVE_S: Final = 600
"""Longer than any turn: connections wait while others have theirs."""


def from_environment() -> ASGIApp:
    """Return the application, in a worker that uvicorn has started."""
    app = make_app(AppSpec.of_json(os.environ[VARIABLE]))
    settle()
    return app


def main() -> None:
    """Serve until a signal."""
    spec, port, *more = sys.argv[1:]
    workers = int(more[0]) if more else 1
    os.environ[VARIABLE] = spec
    uvicorn.run(
        "benchmarks.worker:from_environment",
        factory=True,
        workers=workers,
        host="127.0.0.1",
        port=int(port),
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on",
        access_log=False,
        log_level="warning",
        timeout_keep_alive=KEEP_ALIVE_S,
    )


if __name__ == "__main__":
    main()
