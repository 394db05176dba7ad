"""What is to be said of the policy that a deployment is meant to follow. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from replayfloor.retention import InboundPolicy
from replayfloor.retention.checking import Fault
from replayfloor.retention.checking import Finding as PolicyFinding
from replayfloor.server.doctor.findings import Finding, Level, ok
from replayfloor.server.doctor.words import length, some

DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class PolicyFacts:
    """What was read of a policy.

    Attributes:
        failed: why it could not be read; "" if it could.
        policy: itself.
        place: where it stands.
        faults: what `replayfloor policy check` says of it.
        older_than_s: an older figure has to be read again.
        overdue: of the whole catalogue, those figures, as "name: figure".
    """

    failed: str = ""
    policy: InboundPolicy | None = None
    place: str = ""
    faults: tuple[PolicyFinding, ...] = ()
    older_than_s: float = 0.0
    overdue: tuple[str, ...] = ()

    @property
    def retention_s(self) -> float | None:
        """For how long it wants receipts to be kept; None if that cannot be said."""
        if self.policy is None or self._refusals:
            return None
        return self.policy.retention_s

    @property
    def _refusals(self) -> Sequence[PolicyFinding]:
        return [each for each in self.faults if each.fault is not Fault.OLD_FIGURE]


def check_policy(facts: PolicyFacts) -> list[Finding]:
    """Return everything that is to be said of the policy by itself."""
    return list(_all(facts))


def _all(facts: PolicyFacts) -> Iterator[Finding]:
    if facts.policy is None:
        why = "a middleware that is given it raises when it is made: no worker starts"
        do = "correct it; replayfloor policy explain shows what is read"
        yield Finding("policy.readable", Level.CRITICAL, facts.failed, why, do)
        return
    policy = facts.policy
    yield ok("policy.readable", f"{policy.name}, {facts.place}", digest=policy.digest)
    refusals = [each for each in facts.faults if each.fault is not Fault.OLD_FIGURE]
    for each in refusals:
        yield _refusal(each)
    if not refusals:
        floor = policy.floor
        yield ok(
            "policy.floor",
            f"receipts are kept for {length(policy.retention_s)}, the floor is "
            f"{length(floor.floor_s)}, decided by {floor.driver.label}",
            floor_s=floor.floor_s,
            retention_s=policy.retention_s,
        )
    yield _figures(facts)
    if facts.overdue:
        yield _catalogue(facts)


def _refusal(fault: PolicyFinding) -> Finding:
    unknown = fault.fault is Fault.UNKNOWN
    why = (
        "no floor follows from a figure that nobody publishes, so that a middleware with this "
        "policy raises when it is made: no worker starts"
        if unknown
        else "a retry within the floor would find no receipt, and be executed a second time; a "
        "middleware with this policy raises when it is made, so that it does not come to it"
    )
    do = "choose a figure for it" if unknown else "keep receipts for longer, or correct the figure"
    return Finding(
        "policy.floor", Level.CRITICAL, f"{fault.place}: {fault.message}", why, do,
        data={"fault": fault.fault.value},
    )  # fmt: skip


def _figures(facts: PolicyFacts) -> Finding:
    name, limit = "policy.figures", length(facts.older_than_s)
    old = [each for each in facts.faults if each.fault is Fault.OLD_FIGURE]
    if not old:
        return ok(name, f"every figure of it was read within {limit}", overdue=0)
    found = f"figures that were not read within {limit}: {some([each.message for each in old])}"
    why = "providers change their retries, and the floor follows from what they publish"
    do = "read its source again, and write the figure with its day into the policy's file"
    return Finding(name, Level.WARNING, found, why, do, data={"overdue": len(old)})


def _catalogue(facts: PolicyFacts) -> Finding:
    found = (
        f"{len(facts.overdue)} figures of the catalogue, used or not, were not read within "
        f"{length(facts.older_than_s)}: {some(facts.overdue)}"
    )
    why = "those that this policy uses are counted above; the others matter once they are used"
    do = "replayfloor providers check"
    return Finding(
        "policy.catalogue", Level.NOTE, found, why, do, data={"overdue": len(facts.overdue)}
    )
