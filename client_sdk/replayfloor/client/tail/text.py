"""The report for a terminal: a table, then what is at risk. No HTML, no judgement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, assert_never

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from replayfloor.client.tail.report import ADVICE, Danger, Found, Group, Report, Risk, Waiting
from replayfloor.client.tail.sightings import Operation
from replayfloor.client.tail.words import (
    bound_text,
    count_of,
    duration,
    moment,
    plain,
    share_text,
)

AT_LEAST_NOTE: Final = (
    ">= : at least; open operations count with their age so far, and those closed without an "
    "answer with the time until they were closed."
)
_NUMBERS: Final = ("operations", "resent", "attempts", "p50", "p90", "p99", "largest")


def table(report: Report) -> Table:
    """Return the figures, a row per group."""
    shown = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    shown.add_column(report.terms.by.value, overflow="fold")
    for name in _NUMBERS:
        shown.add_column(name, justify="right")
    for name in ("open (oldest)", "unknown", "retention", "used p99", "used largest"):
        shown.add_column(name, justify="right")
    for group in report.groups:
        shown.add_row(*(Text(cell) for cell in _row(group, report.terms.share)))
    return shown


def _row(group: Group, share: float) -> list[str]:
    tail = group.tail
    p99, largest = tail.percentile(99), tail.largest
    return [
        plain(group.name),
        f"{group.operations:,}",
        f"{group.resent:,}",
        f"{group.attempts:,}",
        *(bound_text(bound) for bound in (tail.percentile(50), tail.percentile(90), p99, largest)),
        waiting_text(group.open),
        f"{group.unknown.count:,}",
        retention_text(group),
        used_text(group.share_of(p99), share),
        used_text(group.share_of(largest), share),
    ]


def waiting_text(waiting: Waiting) -> str:
    """Return how many wait, and the age of the oldest."""
    return f"{waiting.count:,} ({duration(waiting.oldest_ns)})" if waiting.count else "0"


def retention_text(group: Group) -> str:
    """Return the retention; the smallest, if there are several."""
    if group.retention_ns is None or group.retention_max_s is None:
        return "not known"
    least, most = duration(group.retention_ns), duration(int(group.retention_max_s * 1e9))
    return least if group.retention_s == group.retention_max_s else f"{least} .. {most}"


def used_text(taken: float | None, share: float) -> str:
    """Return a share of the retention, marked if it is too much."""
    too_much = taken is not None and taken > share
    return f"{share_text(taken)} !" if too_much else share_text(taken)


def notes(report: Report) -> Iterator[str]:
    """Yield what stands below the table, a line each."""
    if not report.groups:
        yield "No operations in what was read."
        return
    if any(group.open.count or group.unknown.count for group in report.groups):
        yield AT_LEAST_NOTE
    for group in report.groups:
        if group.retention_s != group.retention_max_s:
            name = plain(group.name)
            yield f"{name}: several retentions were seen; the shares are of the smallest."
    for group in report.groups:
        for risk in group.risks:
            yield ""
            yield from _risk_lines(group, risk, report.terms.share)


def risk_title(risk: Risk, share: float) -> str:
    """Return what operations at risk have in common."""
    counted = count_of(risk.count, "operation")
    match risk.danger:
        case Danger.OLD:
            return f"{counted} open past {share_text(share)} of the retention"
        case Danger.LATE:
            return f"{counted} open past the send deadline"
        case Danger.UNKNOWN:
            return f"{counted} closed without an answer"
        case Danger.NOT_EXECUTED:
            return f"{counted} closed without an answer, never executed"
        case _:
            assert_never(risk.danger)


def _risk_lines(group: Group, risk: Risk, share: float) -> Iterator[str]:
    yield plain(f"{group.name}: {risk_title(risk, share)}. {capital(ADVICE[risk.danger])}.")
    for each in risk.oldest:
        yield "  " + "  ".join(plain(cell) for cell in risk_cells(each, group))
    left_out = risk.count - len(risk.oldest)
    if left_out:
        yield f"  and {left_out:,} more, younger ones"


def risk_cells(each: Operation, group: Group) -> list[str]:
    """Return what is told of one operation at risk."""
    named = [] if each.namespace == group.provider or group.namespace else [each.namespace]
    deadline = moment(each.send_deadline_ns)
    known = each.send_deadline_ns is not None
    return [
        *named,
        each.operation_id,
        f"{duration(each.age_ns)} old",
        f"{count_of(each.attempts, 'attempt')}",
        f"send deadline {deadline if known else 'not in the lines'}",
        f"outcome {each.outcome.label.replace('_', ' ')}",
    ]


def complaints(found: tuple[Found, ...]) -> Iterator[str]:
    """Yield what was wrong with the sources, a line each."""
    for each in found:
        if each.skipped:
            yield f"{each.name}: {_skipped(each)}"


def read_text(found: Found) -> str:
    """Return what was read in a source."""
    if found.is_journal:
        return f"{found.name}: {found.count:,} {'entry' if found.count == 1 else 'entries'}"
    lines = f"{found.name}: {count_of(found.count, 'line')}"
    return f"{lines}, {_skipped(found)}" if found.skipped else lines


def _skipped(found: Found) -> str:
    torn = ", the last of them cut off" if found.torn else ""
    return f"{count_of(found.skipped, 'line')} skipped because they are no event{torn}"


def capital(text: str) -> str:
    """Return a sentence with its first letter large."""
    return text[:1].upper() + text[1:]
