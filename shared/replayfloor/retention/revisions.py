"""A policy file as it was in another revision of a git repository. Runs git, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from replayfloor.retention.errors import PolicyError
from replayfloor.retention.files import find_file, policies_of, read_text
from replayfloor.retention.policies import Policies

GIT_TIMEOUT_S: Final = 30.0
"""Reading one file takes milliseconds; a repository on a network that hangs is given up."""


def load_version(spec: str, beside: str | None) -> Policies:
    """Return the policies of a file, or of a revision of one.

    `spec` is a file or folder, a revision ("HEAD~1", "main"), or both ("main:replayfloor.toml",
    from the top of the repository). The file of a bare revision is the one that `beside` names,
    or that is found from the current folder. Raises PolicyError.
    """
    if Path(spec).exists():
        file = find_file(spec)
        return policies_of(read_text(file), file)
    revision, colon, inside = spec.partition(":")
    if colon:
        text = _git_show(Path.cwd(), revision, inside)
        return policies_of(text, Path(inside), shown=spec)
    file = find_file(beside)
    text = _git_show(file.resolve().parent, revision, f"./{file.name}")
    return policies_of(text, file, shown=f"{spec}:{file.name}")


def _git_show(folder: Path, revision: str, path: str) -> str:
    if not revision or revision.startswith("-"):
        raise PolicyError(f"{revision!r} is neither a file nor a revision")
    command = ["git", "--no-pager", "show", "--no-textconv", f"{revision}:{path}", "--"]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, timeout=GIT_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PolicyError(f"git does not answer: {error}") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip() or "git failed"
        raise PolicyError(
            f"{revision}:{path} is neither a file nor in a revision: {said}",
            advice='name a file, a revision such as "HEAD", or both as "HEAD:replayfloor.toml"',
        )
    try:
        return done.stdout.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PolicyError(f"this is not UTF-8: {error}", file=f"{revision}:{path}") from None
