"""The page's first table: every figure of every group, and the share of the retention as a bar.

Pure; what the classes look like is in `page.css`.
"""

from __future__ import annotations

from typing import Final

from replayfloor.client.tail.markup import Markup, element, join
from replayfloor.client.tail.report import Group, Report
from replayfloor.client.tail.text import retention_text, waiting_text
from replayfloor.client.tail.words import bound_text, share_text

_COLUMNS: Final = (
    "operations",
    "sent again",
    "attempts",
    "p50",
    "p90",
    "p99",
    "largest",
    "open (oldest)",
    "unknown",
    "retention",
    "retention used",
)


def overview(report: Report) -> Markup:
    """Return the table."""
    head = (report.terms.by.value, *_COLUMNS)
    rows = (_row(group, report.terms.share) for group in report.groups)
    table = element(
        "table",
        element("caption", "Times since the first attempt, at the last send of each operation"),
        element("thead", element("tr", *(element("th", name, scope="col") for name in head))),
        element("tbody", *rows),
    )
    return element("section", element("div", table, class_="wide"), class_="card")


def _row(group: Group, share: float) -> Markup:
    tail = group.tail
    figures = (
        f"{group.operations:,}",
        f"{group.resent:,}",
        f"{group.attempts:,}",
        *(bound_text(tail.percentile(percent), "≥") for percent in (50, 90, 99, 100)),
        waiting_text(group.open),
        f"{group.unknown.count:,}",
        retention_text(group),
    )
    return element(
        "tr",
        element("th", group.name, scope="row"),
        *(element("td", figure) for figure in figures),
        element("td", _bar(group, share), class_="used"),
    )


def _bar(group: Group, share: float) -> Markup:
    """The share of the retention that is used: filled to p99, a line at the largest."""
    p99, largest = (group.share_of(group.tail.percentile(percent)) for percent in (99, 100))
    if p99 is None or largest is None:
        return element("span", "no retention known")
    picture = element(
        "span",
        element("span", class_="limit", style=f"left:{_percent(share)}"),
        element("span", class_="fill", style=f"width:{_percent(p99)}"),
        element("span", class_="most", style=f"left:{_percent(largest)}"),
        class_="bar too-much" if largest > share else "bar",
        aria_hidden="true",
    )
    told = (f"p99 {share_text(p99)}", f"largest {share_text(largest)}")
    return join(picture, *(element("span", each) for each in told))


def _percent(share: float) -> str:
    return f"{min(share, 1) * 100:.1f}%"
