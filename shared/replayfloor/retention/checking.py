"""What is wrong with the policies of a file, as findings. Arithmetic on a day that is handed in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from replayfloor.retention.derivation import Horizon
from replayfloor.retention.errors import (
    HorizonUnknown,
    PlanTooLong,
    PolicyError,
    RetentionTooShort,
)
from replayfloor.retention.inbound import InboundPolicy
from replayfloor.retention.parties import Sender
from replayfloor.retention.policies import Policies, Policy, full_name
from replayfloor.retention.terms import Term, TermKind
from replayfloor.retention.toml_policies import PROVIDER, SENDERS


class Fault(StrEnum):
    """What kind of finding it is."""

    BELOW_FLOOR = "below-floor"
    UNKNOWN = "unknown"
    PLAN_TOO_LONG = "plan-too-long"
    NOT_DERIVABLE = "not-derivable"
    OLD_FIGURE = "old-figure"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault: in which policy, where in the file, and in words."""

    fault: Fault
    policy: str
    place: str
    message: str

    def __str__(self) -> str:
        """Return it on one line, as compilers report."""
        return f"{self.place}: {self.policy}: {self.message} [{self.fault.value}]"


def check_policies(policies: Policies, *, today: date, older_than_days: int) -> list[Finding]:
    """Return everything that is wrong, in the order of the file.

    A figure is old if it was read more than `older_than_days` before `today`, or if it is somebody
    else's and nobody says when it was read.
    """
    findings: list[Finding] = []
    for policy in policies:
        findings += _refusal(policies, policy)
        for label, term, place in _terms(policies, policy):
            # One that is unknown is told above, and has nothing that could be read again.
            if term.seconds is not None and term.provenance.is_older_than(older_than_days, today):
                message = f"{label} {term}: read it again: {term.provenance}"
                findings.append(Finding(Fault.OLD_FIGURE, full_name(policy), place, message))
    return findings


def _refusal(policies: Policies, policy: Policy) -> Iterator[Finding]:
    try:
        if isinstance(policy, InboundPolicy):
            _ = policy.retention_s
        else:
            policy.require_plan()
    except PolicyError as error:
        fault, below = _told_by(error)
        place = policies.place(policy, *below)
        yield Finding(fault, full_name(policy), place, str(error).removeprefix(f"{policy.name}: "))


def _told_by(error: PolicyError) -> tuple[Fault, tuple[str, ...]]:
    match error:
        case RetentionTooShort():
            return Fault.BELOW_FLOOR, (TermKind.RETENTION.value,)
        case PlanTooLong():
            return Fault.PLAN_TOO_LONG, ()
        case HorizonUnknown():
            return Fault.UNKNOWN, ()
        case _:
            return Fault.NOT_DERIVABLE, ()


def _terms(policies: Policies, policy: Policy) -> Iterator[tuple[str, Term, str]]:
    """Yield every figure of a policy: what it is, itself, and where it stands or is taken from."""
    own: list[Term | None]
    if isinstance(policy, InboundPolicy):
        own = [policy.client_retry_budget, policy.broker_redelivery, *policy.additions]
        for sender in policy.senders:
            for term in sender.terms:
                label = Horizon(term, sender).label
                yield label, term, _place_of_sender(policies, policy, sender, term)
    else:
        own = [policy.retry_budget, *policy.pauses, policy.safety_margin]
        key = policy.provider.key_retention
        below = key.name.value if policies.stands(policy, key.name.value) else PROVIDER
        yield f"{policy.provider.name}: {key.name.words}", key, policies.place(policy, below)
    for each in own:
        if each is not None:
            yield each.name.words, each, policies.place(policy, each.name.value)


def _place_of_sender(policies: Policies, policy: Policy, sender: Sender, term: Term) -> str:
    """Return the line of a sender's figure; of the policy's list, if the catalogue has it."""
    path = (*policies.prefix, SENDERS, sender.name, term.name.value)
    if path in policies.document.lines:
        return policies.document.place(path)
    return policies.place(policy, SENDERS)
