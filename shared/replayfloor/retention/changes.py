"""What changed between two sets of policies, and what that does to the floor. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from replayfloor.retention.durations import exact_us, in_words, seconds
from replayfloor.retention.errors import PolicyError
from replayfloor.retention.inbound import InboundPolicy
from replayfloor.retention.policies import Policies, Policy
from replayfloor.retention.terms import Term

GONE: Final = "-"
"""In a change: the figure is not there on that side."""


@dataclass(frozen=True, slots=True)
class Change:
    """One figure before and after, as text; GONE for none."""

    label: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """What happened to one policy.

    `changes` are its figures, `results` what follows from them: floor and retention, or the send
    window. `shortened_by_s` is by how many seconds a result became shorter, 0 if none did.
    `refused` says why the new one cannot be used, "" if it can. `is_gone`: it is no longer there.
    """

    policy: str
    changes: tuple[Change, ...]
    results: tuple[Change, ...]
    shortened_by_s: float = 0.0
    refused: str = ""
    is_gone: bool = False

    @property
    def is_shorter(self) -> bool:
        """Whether a retry that met a receipt before may not meet one now."""
        return self.shortened_by_s > 0 or self.is_gone


def diff_policies(before: Policies, after: Policies) -> list[PolicyChange]:
    """Return what changed, a policy each; policies that are equal are left out."""
    old, new = before.by_full_name(), after.by_full_name()
    found = [_compare(name, old.get(name), new.get(name)) for name in {**old, **new}]
    return [each for each in found if each.changes or each.results or each.is_gone or each.refused]


def _compare(name: str, old: Policy | None, new: Policy | None) -> PolicyChange:
    changes = _changes(_figures(old), _figures(new))
    old_results, _ = _results(old)
    new_results, refused = _results(new)
    results = _changes(_texts(old_results), _texts(new_results))
    if old is not None and new is not None and not changes and not results:
        # Refused before and after alike: that is for `check` to say.
        refused = ""
    return PolicyChange(
        name,
        changes,
        results,
        shortened_by_s=_shortened(old_results, new_results) if _keeps(old) and new else 0.0,
        refused=refused,
        is_gone=_keeps(old) and new is None,
    )


def _keeps(policy: Policy | None) -> bool:
    # A client that stops earlier than it did is told so, and loses nothing.
    return isinstance(policy, InboundPolicy)


def _shortened(old: Mapping[str, float], new: Mapping[str, float]) -> float:
    lost = [exact_us(old[name]) - exact_us(new[name]) for name in old if name in new]
    return seconds(max(0, *lost)) if lost else 0.0


def _changes(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[Change, ...]:
    names = {**old, **new}
    pairs = ((name, old.get(name, GONE), new.get(name, GONE)) for name in names)
    return tuple(Change(*pair) for pair in pairs if pair[1] != pair[2])


def _texts(results: Mapping[str, float]) -> dict[str, str]:
    return {name: in_words(value_s) for name, value_s in results.items()}


def _figures(policy: Policy | None) -> dict[str, str]:
    if policy is None:
        return {}
    if isinstance(policy, InboundPolicy):
        figures = {each.label: str(each.term) for each in policy.horizons}
        own: tuple[Term | None, ...] = (*policy.additions, policy.retention)
    else:
        key = policy.provider.key_retention
        figures = {f"{policy.provider.name}: {key.name.words}": str(key)}
        own = (policy.retry_budget, *policy.pauses, policy.safety_margin)
    return {**figures, **{term.name.words: str(term) for term in own if term is not None}}


def _results(policy: Policy | None) -> tuple[dict[str, float], str]:
    """Return what follows from a policy, by name, in seconds; and why nothing does."""
    found: dict[str, float] = {}
    if policy is None:
        return found, ""
    try:
        if isinstance(policy, InboundPolicy):
            found["floor"] = policy.floor.floor_s
            found["kept for"] = policy.retention_s
        else:
            found["send window"] = policy.send_window_s
            found["sent again up to"] = policy.reach.reach_s
            policy.require_plan()
    except PolicyError as error:
        return found, str(error)
    return found, ""
