"""What `--check` refuses: a tail that takes too much of the retention. Pure."""

from __future__ import annotations

from replayfloor.client.tail.measure import Bound
from replayfloor.client.tail.report import Group
from replayfloor.client.tail.words import bound_text, duration, share_text


def refusals(group: Group, share: float) -> list[str]:
    """Return what is too much in a group, in a sentence each; an empty list if nothing is.

    A tail of no time at all takes no share of any retention. Of any other nobody can say, if no
    retention is known, that it is short enough.
    """
    largest = group.tail.largest
    if largest is None:
        return []
    if group.retention_ns is None:
        if largest == Bound(0, at_least=False):
            return []
        return [
            f"{group.name}: no retention is known, so that a tail of {bound_text(largest)} "
            "cannot be called short enough"
        ]
    limit = f"{share_text(share)} of the retention of {duration(group.retention_ns)}"
    found: list[str] = []
    for name, bound in (("p99", group.tail.percentile(99)), ("the largest", largest)):
        taken = group.share_of(bound)
        if bound is not None and taken is not None and taken > share:
            found.append(
                f"{group.name}: {name}, {bound_text(bound)}, is {share_text(taken)} of the "
                f"retention and passes {limit}"
            )
    return found
