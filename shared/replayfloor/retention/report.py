"""A policy, and what was found out about it, for a program: values that JSON can hold.

Lengths are in seconds, in members that end in `_s`; None where a figure is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from replayfloor.retention.changes import Change, PolicyChange
from replayfloor.retention.checking import Finding
from replayfloor.retention.coverage import Coverage
from replayfloor.retention.derivation import Horizon
from replayfloor.retention.errors import PolicyError
from replayfloor.retention.inbound import InboundPolicy
from replayfloor.retention.layout import Partitioned, advise_layout
from replayfloor.retention.outbound import OutboundPolicy
from replayfloor.retention.policies import Policy, direction
from replayfloor.retention.storage import DAY_S, Estimate
from replayfloor.retention.terms import Provenance, Term

Json: TypeAlias = "bool | float | str | Mapping[str, Json] | Sequence[Json] | None"


def policy_report(
    policy: Policy, place: str, rate_per_s: float, against_s: float
) -> dict[str, Json]:
    """Return a policy with what follows from it; `refused` says why something does not."""
    head: dict[str, Json] = {
        "name": policy.name,
        "direction": direction(policy),
        "place": place,
        "digest": policy.digest,
    }
    if isinstance(policy, InboundPolicy):
        return {**head, **_inbound(policy, rate_per_s, against_s)}
    return {**head, **_outbound(policy)}


def _inbound(policy: InboundPolicy, rate_per_s: float, against_s: float) -> dict[str, Json]:
    terms: dict[str, Json] = {
        "horizons": [_horizon(each) for each in policy.horizons],
        "additions": [_term(each) for each in policy.additions],
        "retention_asked": _term(policy.retention) if policy.retention else None,
    }
    found: dict[str, Json] = {"refused": None, "floor_s": None, "retention_s": None}
    try:
        floor = policy.floor
        found |= {
            "floor_s": floor.floor_s,
            "formula": floor.formula,
            "driver": _horizon(floor.driver),
        }
        kept_s = policy.retention_s
    except PolicyError as error:
        return {**terms, **found, "refused": str(error)}
    return {
        **terms,
        **found,
        "retention_s": kept_s,
        "coverage": [_coverage(each, kept_s, against_s) for each in policy.horizons],
        "layout": _layout(rate_per_s, kept_s),
        "cost": dict(Estimate(rate_per_s, kept_s / DAY_S).as_dict()) if rate_per_s else None,
    }


def _outbound(policy: OutboundPolicy) -> dict[str, Json]:
    terms: dict[str, Json] = {
        "provider": policy.provider.name,
        "key_retention": _term(policy.provider.key_retention),
        "safety_margin": _term(policy.safety_margin) if policy.safety_margin else None,
        "retry_budget": _term(policy.retry_budget),
        "pauses": [_term(each) for each in policy.pauses],
    }
    found: dict[str, Json] = {"refused": None, "send_window_s": None, "reach_s": None}
    try:
        found |= {
            "margin_s": policy.margin_s,
            "send_window_s": policy.send_window_s,
            "reach_s": policy.reach.reach_s,
            "formula": policy.reach.formula,
        }
        policy.require_plan()
    except PolicyError as error:
        found["refused"] = str(error)
    return {**terms, **found}


def _term(term: Term) -> Json:
    return {
        "name": term.name.value,
        "seconds": term.seconds,
        "provenance": _provenance(term.provenance),
    }


def _provenance(source: Provenance) -> Json:
    return {
        "source": source.source,
        "read_on": source.read_on.isoformat() if source.read_on else None,
        "confidence": source.confidence.value,
        "note": source.note,
    }


def _horizon(horizon: Horizon) -> Json:
    sender = horizon.sender.name if horizon.sender else None
    return {"sender": sender, "term": _term(horizon.term)}


def _coverage(horizon: Horizon, kept_s: float, against_s: float) -> Json:
    kept, instead = (Coverage(each, horizon.seconds) for each in (kept_s, against_s))
    return {
        "label": horizon.label,
        "horizon_s": horizon.seconds,
        "share": kept.share,
        "open_s": kept.open_s,
        "against_s": against_s,
        "against_share": instead.share,
        "against_open_s": instead.open_s,
    }


def _layout(rate_per_s: float, kept_s: float) -> Json:
    layout = advise_layout(rate_per_s, kept_s)
    if isinstance(layout, Partitioned):
        return {
            "kind": "partitioned",
            "width_s": layout.width_s,
            "live": layout.live,
            "reasons": layout.reasons,
        }
    return {"kind": "plain", "reasons": layout.reasons}


def finding_report(finding: Finding) -> Json:
    """Return one finding of a check."""
    return {
        "fault": finding.fault.value,
        "policy": finding.policy,
        "place": finding.place,
        "message": finding.message,
    }


def change_report(change: PolicyChange) -> Json:
    """Return what happened to one policy."""
    return {
        "policy": change.policy,
        "changes": [_change(each) for each in change.changes],
        "results": [_change(each) for each in change.results],
        "shortened_by_s": change.shortened_by_s,
        "is_shorter": change.is_shorter,
        "is_gone": change.is_gone,
        "refused": change.refused or None,
    }


def _change(change: Change) -> Json:
    return {"label": change.label, "before": change.before, "after": change.after}
