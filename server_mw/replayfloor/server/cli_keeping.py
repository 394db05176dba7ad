"""How a command is told for how long receipts are kept: `--retention`, `--policy`, `--audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from replayfloor.core.errors import UsageError
from replayfloor.retention import load_inbound, parse_duration
from replayfloor.server.stores.maintenance import Keeping

RetentionText: TypeAlias = Annotated[
    str | None, typer.Option("--retention", help="How long receipts are kept, such as 84h or 35d.")
]
PolicyText: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--policy", help="The policy that says so: FILE or FILE:NAME.", metavar="FILE[:NAME]"
    ),
]
AuditText: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--audit", help="How long a key is known as used, its receipt included, such as 400d."
    ),
]
AcceptShorter: TypeAlias = Annotated[
    bool,
    typer.Option("--accept-shorter", help="Also if receipts were kept for longer until now."),
]


def keeping(retention: str | None, policy: str | None, audit: str | None) -> Keeping | None:
    """Return what the options say; None if they say nothing. Raises UsageError."""
    if retention is not None and policy is not None:
        raise UsageError("say --retention or --policy: the policy has a retention of its own")
    if retention is None and policy is None:
        if audit is not None:
            raise UsageError("--audit goes with --retention or --policy")
        return None
    seconds = parse_duration(retention) if retention is not None else _of_policy(policy or "")
    return Keeping(seconds, None if audit is None else parse_duration(audit))


def require(found: Keeping | None) -> Keeping:
    """Return it, if somebody has said it. Raises UsageError."""
    if found is None:
        raise UsageError("for how long are receipts kept? say --retention 35d or --policy FILE")
    return found


def _of_policy(spec: str) -> float:
    path, colon, name = spec.rpartition(":")
    if not colon or Path(spec).exists():
        path, name = spec, ""
    return load_inbound(path, name or None).retention_s
