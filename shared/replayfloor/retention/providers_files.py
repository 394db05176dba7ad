"""Opens the files that hold rows: those that are shipped, and the user's own. Nothing else does.

The user's are tables of the policy file, [providers.inbound.NAME] and so on; see `providers_own`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from replayfloor.retention.errors import PolicyError
from replayfloor.retention.files import PROJECT_FILE, PROJECT_TABLE, find_file, read_text
from replayfloor.retention.providers import Direction, ProviderRow
from replayfloor.retention.providers_own import overridden
from replayfloor.retention.providers_read import read_rows

CATALOGUE: Final = "catalogue"
_SUFFIX: Final = ".toml"


@cache
def shipped_rows() -> tuple[ProviderRow, ...]:
    """Return the rows that are shipped."""
    folder = files("replayfloor.retention") / CATALOGUE
    every = sorted(folder.iterdir(), key=lambda each: each.name)
    return read_files(
        (file.read_text(encoding="utf-8"), file.name)
        for file in every
        if file.name.endswith(_SUFFIX)
    )


def read_files(texts: Iterable[tuple[str, str]]) -> tuple[ProviderRow, ...]:
    """Return the rows of several files, each given as its text and its name.

    Raises PolicyError: also for two rows of one name in one direction.
    """
    found: dict[tuple[Direction, str], ProviderRow] = {}
    for text, file in texts:
        for row in read_rows(text, file):
            before = found.setdefault((row.direction, row.name), row)
            if before is not row:
                raise PolicyError(f"{row.name!r} is in {before.file} already", file=file)
    return tuple(found.values())


def load_rows(path: str | Path | None = None) -> tuple[ProviderRow, ...]:
    """Return the rows that are shipped, with what the user's file changes and adds.

    `path` is the file, or the folder from which replayfloor.toml, or a pyproject.toml with a table
    [tool.replayfloor], is looked for upwards; default: the current folder, where there may be
    none. Raises PolicyError.
    """
    try:
        file = find_file(path)
    except PolicyError as error:
        # Only "there is none anywhere" names no file; whoever names one means it.
        if path is not None or error.file:
            raise
        return shipped_rows()
    prefix = PROJECT_TABLE if file.name == PROJECT_FILE else ()
    return overridden(shipped_rows(), read_text(file), str(file), prefix)
