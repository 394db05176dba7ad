"""Whether the policies that workers have declared to a database are the one that is meant. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from replayfloor.server.doctor.findings import Finding, Level, ok, unseen
from replayfloor.server.doctor.unread import Read, Unread
from replayfloor.server.doctor.wanted import Wanted
from replayfloor.server.doctor.words import length, some
from replayfloor.server.stores.policies import NotedPolicy

GRANT: Final = "grant this role select on replayfloor.policies"

DIGITS: Final = 12
"""Of a digest, so many are shown."""


def check_noted(name: str, noted: Read[tuple[NotedPolicy, ...]], wanted: Wanted) -> Finding:
    """Return how what was declared compares with the policy of `--policy`."""
    if isinstance(noted, Unread):
        return unseen(name, noted.reason, GRANT)
    told = [_told(each) for each in noted]
    data: dict[str, float | str] = {"declared": len(noted), "digest": wanted.digest}
    if not noted:
        found = "no deployment has declared a retention"
        if not wanted.digest:
            return ok(name, found, **data)
        why = "workers declare theirs when they start; so none with this policy has started here"
        return Finding(name, Level.NOTE, found, why, data=data)
    if not wanted.digest:
        return ok(name, f"declared: {some(told)}; say --policy to compare", **data)
    if any(each.digest == wanted.digest for each in noted):
        return ok(name, f"this policy is declared; in all: {some(told)}", **data)
    return _differs(name, noted, wanted, some(told), data)


def _differs(
    name: str,
    noted: Sequence[NotedPolicy],
    wanted: Wanted,
    told: str,
    data: dict[str, float | str],
) -> Finding:
    mine = f"{wanted.policy} ({wanted.digest[:DIGITS]})"
    found = f"the file says {mine}, and no namespace has it; declared: {told}"
    kept_s = wanted.retention_s
    longer = [each for each in noted if kept_s is not None and each.retention_s > kept_s]
    if longer:
        why = (
            "the file's retention is shorter than what is declared: workers with it are refused "
            "when they start, for others may still promise the longer one"
        )
        do = (
            "if no worker promises the longer one any more, start with accept_shorter=True; else "
            "deploy the newer file"
        )
    else:
        why = (
            "workers run with another policy than this file: what was checked here is not what "
            "receipts are kept for"
        )
        do = "deploy the file, or look at the one that is deployed"
    return Finding(name, Level.WARNING, found, why, do, data=data)


def _told(noted: NotedPolicy) -> str:
    return (
        f"{noted.namespace} keeps {length(noted.retention_s)} ({noted.digest[:DIGITS]}, since "
        f"{noted.noted_at:%Y-%m-%d})"
    )
