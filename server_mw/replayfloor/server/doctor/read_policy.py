"""Reads a policy and its catalogue. The only clock is handed in."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from replayfloor.retention import PolicyError
from replayfloor.retention.checking import check_policies
from replayfloor.retention.files import load_policies
from replayfloor.retention.policies import full_name
from replayfloor.retention.providers_check import overdue
from replayfloor.retention.providers_files import load_rows
from replayfloor.server.doctor.check_policy import DAY_S, PolicyFacts


def read_policy(spec: str, *, today: date, older_than_s: float) -> PolicyFacts:
    """Return what there is of the policy FILE or FILE:NAME; nothing is raised for what is wrong."""
    file, colon, name = spec.rpartition(":")
    if not colon or Path(spec).exists():
        file, name = spec, ""
    try:
        policies = load_policies(file)
        policy = policies.select_inbound(name or None)
        faults = check_policies(policies, today=today, older_than_days=int(older_than_s // DAY_S))
        old = overdue(load_rows(file), at=today, older_than_s=older_than_s)
    except PolicyError as error:
        return PolicyFacts(str(error))
    return PolicyFacts(
        policy=policy,
        place=policies.place(policy),
        faults=tuple(each for each in faults if each.policy == full_name(policy)),
        older_than_s=older_than_s,
        overdue=tuple(f"{each.row.name} {each.figure.name}" for each in old),
    )
