"""The files of this project, for the tests that read instead of run."""

from __future__ import annotations

import ast
import functools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from .garbage import to_be_kept

ROOT = Path(__file__).resolve().parents[2]
SOURCE_ROOTS = ("server_mw", "client_sdk", "shared")
NAMESPACE = "replayfloor"
# Without git (an unpacked archive) .gitignore is not asked, so these are left out by name.
NOT_OURS = {"build", "dist", "htmlcov", "__pycache__"}
GIT_TIMEOUT_S = 60.0


@functools.cache
def project_files() -> tuple[Path, ...]:
    """Return every file that is tracked, or would be by `git add .`."""
    listing = (
        subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=GIT_TIMEOUT_S,
            check=False,
        )
        if (ROOT / ".git").exists()
        else None
    )
    if listing is None or listing.returncode:
        return tuple(sorted(_walk()))
    found = (ROOT / name for name in listing.stdout.split("\0") if name)
    # A file may be deleted and not yet committed as such.
    return tuple(sorted({path for path in found if path.is_file()}))


def _walk() -> Iterator[Path]:
    for folder, names, files in os.walk(ROOT):
        names[:] = [name for name in names if name not in NOT_OURS and name[0] != "."]
        yield from (Path(folder, name) for name in files if not name.endswith(".pyc"))


def package_files() -> list[Path]:
    """Return the files that are part of the package, of whatever kind."""
    portions = [ROOT / root / NAMESPACE for root in SOURCE_ROOTS]
    return [path for path in project_files() if any(map(path.is_relative_to, portions))]


def packages() -> dict[str, Path]:
    """Return the packages below the namespace, by import name."""
    found = (
        path
        for root in SOURCE_ROOTS
        for path in sorted((ROOT / root / NAMESPACE).glob("*/__init__.py"))
    )
    return {f"{NAMESPACE}.{path.parent.name}": path.parent for path in found}


def where(path: Path, line: int | None = None) -> str:
    """Name a place as an editor understands it."""
    name = path.relative_to(ROOT).as_posix()
    return name if line is None else f"{name}:{line}"


@functools.cache
def text_of(path: Path) -> str:
    """Return the text of a file; what is not text is empty."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a Python file."""
    # All trees together are millions of objects that stay.
    with to_be_kept():
        return ast.parse(text_of(path), filename=str(path))
