"""The report as one page: no script, nothing from elsewhere, every figure also as text.

Whatever is shown of operations, providers and files is text, also if it looks like markup; and the
page forbids the browser to load or run anything, should that ever fail.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Final

from replayfloor.client.tail.chart import LEFT, RIGHT, chart, times_of
from replayfloor.client.tail.check import refusals
from replayfloor.client.tail.markup import Markup, element, join
from replayfloor.client.tail.overview import overview
from replayfloor.client.tail.report import ADVICE, Danger, Group, Report, Risk
from replayfloor.client.tail.scale import TimeScale, time_scale
from replayfloor.client.tail.sightings import Operation
from replayfloor.client.tail.text import (
    AT_LEAST_NOTE,
    capital,
    read_text,
    risk_title,
)
from replayfloor.client.tail.words import bound_text, count_of, duration, moment, share_text

_TITLE: Final = "Retry tail"
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_HEAD: Final = Markup(
    '<meta charset="utf-8">'
    f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<meta name="color-scheme" content="light dark">'
)
_TO_RECONCILE: Final = (Danger.LATE, Danger.UNKNOWN)
_RISK_COLUMNS: Final = (
    "operation",
    "namespace",
    "age",
    "attempts",
    "send deadline",
    "outcome",
)


def write_page(path: Path, report: Report) -> None:
    """Write the page, a new file whole or not at all. Raises OSError."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        # A device, a pipe or somebody's link is written to, and never replaced.
        path.write_text(page(report), "utf-8")
        return
    # A reader of the old page, or a browser, never sees half of the new one.
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(page(report), "utf-8")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def page(report: Report) -> str:
    """Return the page."""
    style = Markup((files("replayfloor.client.tail") / "page.css").read_text("utf-8"))
    times_ns = [ns for group in report.groups for ns in times_of(group)]
    across = time_scale(times_ns, LEFT, RIGHT)
    body = element(
        "main",
        _header(report),
        *([overview(report)] if report.groups else [_nothing()]),
        *(_card(group, across, report.terms.share) for group in report.groups),
        _footer(report),
    )
    head = element("head", _HEAD, element("title", _TITLE), element("style", style))
    return f'<!doctype html>\n<html lang="en">{head}{element("body", body)}</html>\n'


def _header(report: Report) -> Markup:
    return element(
        "header",
        element("h1", _TITLE),
        element(
            "p",
            "How long after its first attempt each operation was last sent, against how long the "
            f"provider remembers its key. {moment(report.terms.at_ns)}.",
        ),
    )


def _nothing() -> Markup:
    return element("section", element("p", "No operations in what was read."), class_="card")


def _card(group: Group, across: TimeScale, share: float) -> Markup:
    state, verdict = _verdict(group, share)
    sentence = _sentence(group)
    return element(
        "section",
        element("h2", group.name, " ", element("span", verdict, class_=f"pill {state}")),
        element("p", sentence),
        element("div", chart(group, across, share, f"{group.name}: {sentence}"), class_="wide"),
        *(_risk(risk, share) for risk in group.risks),
        class_="card",
    )


def _verdict(group: Group, share: float) -> tuple[str, str]:
    lost = sum(risk.count for risk in group.risks if risk.danger in _TO_RECONCILE)
    if lost:
        return "bad", f"✕ {count_of(lost, 'operation')} to reconcile"
    if group.retention_s is None:
        return "unsure", "? no retention known"
    if refusals(group, share):
        return "warn", f"! past {share_text(share)} of the retention"
    return "good", f"✓ within {share_text(share)} of the retention"


def _sentence(group: Group) -> str:
    tail = group.tail
    p99, largest = (bound_text(tail.percentile(percent), "at least") for percent in (99, 100))
    told = (
        f"{count_of(group.operations, 'operation')}, {group.resent:,} of them sent more than once. "
        f"p99 of the time from the first attempt to the last is {p99}, the longest {largest}"
    )
    used = group.share_of(tail.largest)
    return f"{told}." if used is None else f"{told}: {share_text(used)} of the retention."


def _risk(risk: Risk, share: float) -> Markup:
    left_out = risk.count - len(risk.oldest)
    more = [element("p", f"and {left_out:,} more, younger ones")] if left_out else []
    head = element("tr", *(element("th", name, scope="col") for name in _RISK_COLUMNS))
    return element(
        "div",
        element("h3", capital(risk_title(risk, share))),
        element("p", _with_code(capital(ADVICE[risk.danger])), "."),
        element(
            "div",
            element(
                "table",
                element("thead", head),
                element("tbody", *(_risk_row(each) for each in risk.oldest)),
            ),
            class_="wide",
        ),
        *more,
        class_=f"risk {risk.danger.value}",
    )


def _risk_row(each: Operation) -> Markup:
    deadline_ns = each.send_deadline_ns
    cells = (
        each.namespace,
        duration(each.age_ns),
        f"{each.attempts:,}",
        moment(deadline_ns) if deadline_ns is not None else "not in the lines",
        each.outcome.label.replace("_", " "),
    )
    name = element("th", element("code", each.operation_id), scope="row")
    return element("tr", name, *(element("td", cell) for cell in cells))


def _with_code(text: str) -> Markup:
    """Return text with what is between backticks set as code."""
    parts = enumerate(text.split("`"))
    return join(*(element("code", part) if at % 2 else part for at, part in parts))


def _footer(report: Report) -> Markup:
    reading = _how_to_read(report.terms.share) if report.groups else ()
    return element("footer", *reading, *_read(report))


def _how_to_read(share: float) -> Iterator[Markup]:
    yield element("h2", "How to read it")
    told = (
        "The line falls from all operations to none: where it is at 1 %, one operation in a "
        "hundred was still sent after that time. Both axes are logarithmic, and all charts share "
        "the lower one.",
        "The band above the line is what operations without an answer leave undecided: they may "
        "be sent again until the send deadline. Below the axis each of them is a tick at its age.",
        AT_LEAST_NOTE.replace(">= :", "≥:"),
        f"The shaded part begins at {share_text(share)} of the retention. Behind the retention "
        "line the provider has forgotten the key, and a retry would be executed a second time; "
        "the transport stops at the send deadline before it.",
    )
    yield element("ul", *(element("li", each) for each in told))


def _read(report: Report) -> Iterator[Markup]:
    yield element("h2", "What was read")
    said = [read_text(found) for found in report.found]
    if report.terms.since_ns is not None:
        said.append(f"Left out: what ended before {moment(report.terms.since_ns)}.")
    yield element("ul", *(element("li", each) for each in said))
