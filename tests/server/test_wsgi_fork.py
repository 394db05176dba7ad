"""A process that was forked from one that has used the middleware (gunicorn with --preload)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_a_forked_process_renews_its_own_leases_and_waits_for_no_thread_of_its_parent() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "server.forking"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(TESTS), *sys.path))},
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
