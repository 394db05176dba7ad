"""A virtual environment for each peer, made once and kept in a folder."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.processes import BenchmarkFailed

DONE: Final = "installed.txt"
"""Written last: an environment without it is begun anew. Names the versions that were installed."""


def python_of(folder: Path, name: str, requirements: Sequence[str]) -> Path:
    """Return the interpreter of an environment with these requirements; make it if need be.

    Another set of requirements is another environment. Raises BenchmarkFailed.
    """
    digest = hashlib.sha256("\n".join(requirements).encode()).hexdigest()[:8]
    target = folder / f"{name.replace(' ', '-')}-{digest}"
    python = target / "bin" / "python"
    if (target / DONE).exists():
        return python
    print(f"installing {', '.join(requirements)}", file=sys.stderr, flush=True)
    shutil.rmtree(target, ignore_errors=True)
    run([sys.executable, "-m", "venv", str(target)])
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    run([*pip, "install", "--quiet", *requirements])
    installed = run([*pip, "freeze"])
    (target / DONE).write_text(installed, encoding="utf-8")
    return python


def run(command: Sequence[str]) -> str:
    """Run a command; return what it prints. Raises BenchmarkFailed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchmarkFailed(f"{' '.join(command)}:\n{done.stderr[-3000:]}")
    return done.stdout
