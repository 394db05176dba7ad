"""The report for machines: one JSON object, with times in seconds. Pure."""

from __future__ import annotations

import json
from typing import Final, TypeAlias

from replayfloor.client.tail.measure import Bound
from replayfloor.client.tail.report import NS_PER_S, Group, Report, Risk, Waiting
from replayfloor.client.tail.words import moment

VERSION: Final = 1
"""Of the object. Later versions add names; they change none."""

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


def as_json(report: Report, refusals: list[str] | None) -> str:
    """Return the report. `refusals`: what the check refused; None if nobody asked for it."""
    terms = report.terms
    told: Json = {
        "v": VERSION,
        "at": moment(terms.at_ns),
        "at_ns": terms.at_ns,
        "since_ns": terms.since_ns,
        "share": terms.share,
        "by": terms.by.value,
        "check": None if refusals is None else {"passed": not refusals, "refused": [*refusals]},
        "sources": [
            {
                "name": found.name,
                "kind": "journal" if found.is_journal else "lines",
                "read": found.count,
                "skipped": found.skipped,
                "torn": found.torn,
            }
            for found in report.found
        ],
        "groups": [_group(group) for group in report.groups],
    }
    return json.dumps(told)


def _group(group: Group) -> Json:
    tail = group.tail
    p99, largest = tail.percentile(99), tail.largest
    return {
        "provider": group.provider,
        "namespace": group.namespace,
        "operations": group.operations,
        "resent": group.resent,
        "attempts": group.attempts,
        "refused": group.refused,
        "open": _waiting(group.open),
        "unknown": _waiting(group.unknown),
        "p50": _bound(tail.percentile(50)),
        "p90": _bound(tail.percentile(90)),
        "p99": _bound(p99),
        "largest": _bound(largest),
        "retention_s": group.retention_s,
        "retention_max_s": group.retention_max_s,
        "send_window_s": None if group.window_ns is None else group.window_ns / NS_PER_S,
        "used": {"p99": group.share_of(p99), "largest": group.share_of(largest)},
        "at_risk": [_risk(risk) for risk in group.risks],
    }


def _waiting(waiting: Waiting) -> Json:
    return {"count": waiting.count, "oldest_s": waiting.oldest_ns / NS_PER_S}


def _bound(bound: Bound | None) -> Json:
    if bound is None:
        return None
    return {"s": bound.ns / NS_PER_S, "at_least": bound.at_least}


def _risk(risk: Risk) -> Json:
    return {
        "danger": risk.danger.value,
        "count": risk.count,
        "oldest": [
            {
                "namespace": each.namespace,
                "operation_id": each.operation_id,
                "age_s": each.age_ns / NS_PER_S,
                "attempts": each.attempts,
                "send_deadline_ns": each.send_deadline_ns,
                "outcome": each.outcome.label,
            }
            for each in risk.oldest
        ],
    }
