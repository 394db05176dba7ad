"""A report for people (a table), for programs (JSON) and for builds (JUnit). No I/O."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import Final

from rich import box
from rich.table import Table
from rich.text import Text

from replayfloor.conform.session import Report
from replayfloor.conform.verdicts import Verdict

STYLES: Final = {
    Verdict.PASS: "green",
    Verdict.FAIL: "bold red",
    Verdict.NOTE: "yellow",
    Verdict.NOT_APPLICABLE: "dim",
    Verdict.NOT_RUN: "bold yellow",
}


def table(report: Report) -> Table:
    """Return a table with a row for each check; what was seen is text, never markup."""
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in ("id", "level", "check", "verdict", "seen"):
        shown.add_column(name, overflow="fold", no_wrap=name in ("id", "level", "verdict"))
    for each in report.results:
        check, outcome = each.check, each.outcome
        shown.add_row(
            check.id,
            check.level.value,
            check.title,
            Text(outcome.verdict.value, style=STYLES[outcome.verdict]),
            Text(printable(outcome.seen)),
        )
    return shown


def summary(report: Report) -> str:
    """Return the number of checks for each verdict, in one line."""
    counts = ((verdict, len(report.ids(verdict))) for verdict in Verdict)
    return ", ".join(f"{count} {verdict}" for verdict, count in counts if count)


def as_json(report: Report) -> str:
    """Return a JSON document; everything beyond ASCII is escaped."""
    results = [
        {
            "id": each.check.id,
            "rules": list(each.check.rules),
            "level": each.check.level.value,
            "title": each.check.title,
            "verdict": each.outcome.verdict.value,
            "seen": each.outcome.seen,
        }
        for each in report.results
    ]
    facts = {"telling": report.facts.telling, "marks": report.facts.marks}
    return json.dumps({"facts": facts, "results": results}, indent=2)


def as_junit(report: Report) -> str:
    """Return a JUnit document: fail is a failure, not run an error, not applicable skipped."""
    results = report.results
    suite = ET.Element(
        "testsuite",
        name="replayfloor conform",
        tests=str(len(results)),
        failures=str(len(report.ids(Verdict.FAIL))),
        errors=str(len(report.ids(Verdict.NOT_RUN))),
        skipped=str(len(report.ids(Verdict.NOT_APPLICABLE))),
    )
    tags = {
        Verdict.FAIL: "failure",
        Verdict.NOT_RUN: "error",
        Verdict.NOT_APPLICABLE: "skipped",
        Verdict.NOTE: "system-out",
    }
    for each in results:
        name = f"{each.check.id} {each.check.title}"
        case = ET.SubElement(suite, "testcase", classname="conform", name=name)
        seen = printable(each.outcome.seen)
        tag = tags.get(each.outcome.verdict)
        if tag == "system-out":
            ET.SubElement(case, tag).text = seen
        elif tag is not None:
            ET.SubElement(case, tag, message=seen)
    return ET.tostring(suite, encoding="unicode")


def printable(text: str) -> str:
    """Return text of a server without what would steer a terminal."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
