"""Finds and opens the file that holds the policies. Nothing else of this package reads a file.

A file is found as formatters find theirs: in the folder itself or the nearest one above, as
`replayfloor.toml`, or as the table [tool.replayfloor] of `pyproject.toml`.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

from replayfloor.retention.errors import PolicyError
from replayfloor.retention.inbound import InboundPolicy
from replayfloor.retention.lookup import Catalogue
from replayfloor.retention.outbound import OutboundPolicy
from replayfloor.retention.policies import Policies, Policy
from replayfloor.retention.shipped import shipped_catalogue
from replayfloor.retention.toml_policies import parse_policies

OWN_FILE: Final = "replayfloor.toml"
PROJECT_FILE: Final = "pyproject.toml"
PROJECT_TABLE: Final = ("tool", "replayfloor")


def load_policy(path: str | Path | None = None, name: str | None = None) -> Policy:
    """Return a policy from a file.

    Args:
        path: the file, or the folder from which it is looked for upwards. Default: the current
            folder.
        name: the policy, also as "inbound.NAME" or "outbound.NAME". Default: the only one.

    Raises PolicyError with file and line.
    """
    return load_policies(path).select(name)


def load_inbound(path: str | Path | None = None, name: str | None = None) -> InboundPolicy:
    """Return a policy for receipts from a file; see `load_policy`."""
    return load_policies(path).select_inbound(name)


def load_outbound(path: str | Path | None = None, name: str | None = None) -> OutboundPolicy:
    """Return a policy for the client from a file; see `load_policy`."""
    return load_policies(path).select_outbound(name)


def load_policies(
    path: str | Path | None = None, *, catalogue: Catalogue | None = None
) -> Policies:
    """Return all policies of a file; see `load_policy`.

    Names that the file does not define are looked up in `catalogue`; default: the one that is
    shipped, with what the file adds to it.
    """
    file = find_file(path)
    return policies_of(read_text(file), file, catalogue=catalogue)


def policies_of(
    text: str, file: Path, *, catalogue: Catalogue | None = None, shown: str = ""
) -> Policies:
    """Return all policies of a text that is, or was, the content of a file.

    `shown` is what messages call it; default: the file's path. Raises PolicyError.
    """
    prefix = PROJECT_TABLE if file.name == PROJECT_FILE else ()
    called = shown or _shown(file)
    if catalogue is None:
        catalogue = shipped_catalogue(text, called, prefix)
    return parse_policies(text, called, catalogue=catalogue, prefix=prefix)


def find_file(path: str | Path | None = None) -> Path:
    """Return the file that holds the policies; raises PolicyError."""
    start = Path(path) if path is not None else Path.cwd()
    if start.is_file():
        return start
    if not start.is_dir():
        raise PolicyError("there is no such file", file=str(path))
    for folder in (start.resolve(), *start.resolve().parents):
        found = [file for file in (folder / OWN_FILE, folder / PROJECT_FILE) if _counts(file)]
        if len(found) > 1:
            raise PolicyError(
                f"policies stand in two files, {OWN_FILE} and [tool.replayfloor] of "
                f"{PROJECT_FILE}, and neither wins",
                advice=f"move everything into one of them, or name it (such as {OWN_FILE})",
                file=_shown(folder),
            )
        if found:
            return found[0]
    raise PolicyError(
        f"no {OWN_FILE}, and no {PROJECT_FILE} with a table [tool.replayfloor], in "
        f"{_shown(start.resolve())} or above",
        advice="write one, or name the file",
    )


def read_text(file: Path) -> str:
    """Return the content of a file; raises PolicyError."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise PolicyError(f"this is not UTF-8: {error}", file=_shown(file)) from None
    except OSError as error:
        reason = error.strerror or "it cannot be read"
        raise PolicyError(reason, file=_shown(file)) from None


def _counts(file: Path) -> bool:
    if not file.is_file():
        return False
    if file.name == OWN_FILE:
        return True
    text = read_text(file)
    try:
        tool = tomllib.loads(text).get(PROJECT_TABLE[0])
    except tomllib.TOMLDecodeError:
        # Somebody else's file may be broken; ours is then reported with its line when it is read.
        return ".".join(PROJECT_TABLE) in text
    return isinstance(tool, dict) and PROJECT_TABLE[1] in tool


def _shown(file: Path) -> str:
    """Return a path as briefly as it can be found from here."""
    try:
        return str(file.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(file)
