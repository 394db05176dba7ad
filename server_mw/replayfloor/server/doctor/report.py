"""Findings as lines for a person, and as JSON for a program. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from replayfloor.server.doctor.findings import Finding, Level, exit_code, worst

Json: TypeAlias = "dict[str, object]"

FORMAT: Final = 1
"""Of the JSON document: it changes when a member is taken away or changes its meaning."""

_MARKS: Final = {
    Level.OK: "ok",
    Level.NOTE: "note",
    Level.WARNING: "WARNING",
    Level.CRITICAL: "CRITICAL",
}


@dataclass(frozen=True, slots=True)
class Section:
    """One thing that was looked at: "postgres", its address without secrets, what was found."""

    name: str
    target: str
    findings: tuple[Finding, ...]


def all_findings(sections: Sequence[Section]) -> list[Finding]:
    """Return the findings of all sections."""
    return [finding for section in sections for finding in section.findings]


def report_json(sections: Sequence[Section], at: datetime) -> Json:
    """Return the document that docs/operating.md describes."""
    every = all_findings(sections)
    return {
        "format": FORMAT,
        "checked_at": at.isoformat(),
        "worst": worst(every).word,
        "exit_code": exit_code(every),
        "counts": {level.word: sum(each.level is level for each in every) for level in Level},
        "targets": {section.name: section.target for section in sections},
        "findings": [_finding(each) for each in every],
    }


def _finding(finding: Finding) -> Json:
    return {
        "check": finding.check,
        "level": finding.level.word,
        "where": finding.where or None,
        "seen": finding.seen,
        "accepted": finding.accepted,
        "found": finding.found,
        "why": finding.why or None,
        "do": finding.do or None,
        "data": dict(finding.data),
    }


def report_lines(sections: Sequence[Section]) -> Iterator[str]:
    """Yield the report, the worst of each section first."""
    for section in sections:
        yield f"{section.name}  {section.target}"
        for finding in sorted(section.findings, key=lambda each: -each.level):
            yield from _lines(finding)
        yield ""
    yield _summary(all_findings(sections))


def _lines(finding: Finding) -> Iterator[str]:
    where = f" ({finding.where})" if finding.where else ""
    accepted = " (accepted)" if finding.accepted else ""
    mark = _MARKS[finding.level]
    yield f"  {mark:<8}  {finding.check}{where}: {finding.found}{accepted}"
    if finding.why:
        yield f"            why: {finding.why}"
    if finding.do:
        yield f"            do:  {finding.do}"


def _summary(findings: Sequence[Finding]) -> str:
    counts = [(level, sum(each.level is level for each in findings)) for level in Level]
    told = ", ".join(f"{count} {_MARKS[level]}" for level, count in reversed(counts) if count)
    return f"{told or 'nothing was looked at'}; exit status {exit_code(findings)}"
