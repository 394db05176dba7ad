"""The tail of one group as an SVG: survival against the retention line, open operations as ticks.

The line shows which share of the operations was still sent after a time. Where operations are open
it is a band: its lower edge if none of them is ever sent again, its upper edge if all of them are.
Pure; what the classes look like is in `page.css`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from replayfloor.client.tail.markup import Markup, element, join
from replayfloor.client.tail.measure import Bound, Tail
from replayfloor.client.tail.report import Group
from replayfloor.client.tail.scale import ShareScale, TimeScale
from replayfloor.client.tail.words import bound_text, count_of, duration, share_text

WIDTH: Final = 1000
LEFT: Final = 76
RIGHT: Final = 984
_TOP: Final = 44.0
_LOW: Final = 234.0
_BASE: Final = 256.0
_AXIS: Final = _BASE + 18
_RUG_HEIGHT: Final = 20
_LABEL_SPACE: Final = 230
"""Pixels that the longest label of a line takes."""

_PERCENTILES: Final = (50, 90, 99, 100)


@dataclass(frozen=True, slots=True)
class _Plot:
    group: Group
    across: TimeScale
    up: ShareScale
    share: float


def chart(group: Group, across: TimeScale, share: float, label: str) -> Markup:
    """Return the chart of a group. `label` names it for who does not see it."""
    plot = _Plot(group, across, ShareScale(len(group.tail), _TOP, _LOW, _BASE), share)
    rugs = [_rug(plot, *row) for row in enumerate(_rug_rows(group))]
    height = _AXIS + 8 + _RUG_HEIGHT * len(rugs)
    return element(
        "svg",
        element("title", label),
        _zones(plot),
        _grid(plot),
        _survival(plot),
        _limits(plot),
        _marks(plot),
        *rugs,
        viewBox=f"0 0 {WIDTH} {height:.0f}",
        role="img",
        class_="tail",
    )


def _zones(plot: _Plot) -> Markup:
    """The times that are dangerous, and those after which the provider has forgotten the key."""
    retention_ns = plot.group.retention_ns
    if retention_ns is None:
        return join()
    danger = plot.across.place(plot.share * retention_ns)
    forgotten = plot.across.place(retention_ns)
    return join(_zone("danger", danger, forgotten), _zone("forgotten", forgotten, RIGHT))


def _zone(name: str, start: float, end: float) -> Markup:
    width = max(0.0, end - start)
    return element("rect", x=start, y=_TOP, width=width, height=_BASE - _TOP, class_=name)


def _grid(plot: _Plot) -> Markup:
    parts: list[Markup] = []
    for share in plot.up.ticks:
        y = plot.up.place(share)
        parts.append(element("line", x1=LEFT, x2=RIGHT, y1=y, y2=y, class_="grid"))
        parts.append(_words(share_text(share), LEFT - 8, y + 4, "end"))
    parts.append(element("line", x1=LEFT, x2=RIGHT, y1=_BASE, y2=_BASE, class_="axis"))
    parts.append(_words("none", LEFT - 8, _BASE + 4, "end"))
    for ns in plot.across.ticks:
        x = plot.across.place(ns)
        parts.append(element("line", x1=x, x2=x, y1=_BASE, y2=_BASE + 4, class_="axis"))
        first = ns == plot.across.least_ns
        parts.append(_words(f"≤ {duration(ns)}" if first else duration(ns), x, _AXIS, "middle"))
    return join(*parts)


def _survival(plot: _Plot) -> Markup:
    steps = list(_steps(plot))
    lower = _path([(x, low) for x, low, _ in steps])
    upper = _path([(x, high) for x, _, high in steps])
    back = "".join(f"V{low:.1f}H{x:.1f}" for x, low, _ in reversed(steps))
    return join(
        element("path", d=f"{upper}{back}Z", class_="band"),
        element("path", d=f"{lower}V{_BASE:.1f}H{LEFT}Z", class_="under"),
        element("path", d=lower, class_="curve"),
    )


def _steps(plot: _Plot) -> Iterator[tuple[float, float, float]]:
    """Yield a place on the axis, and the heights of both edges from there on, where they change.

    At most one a pixel, whatever the number of operations.
    """
    tail, count = plot.group.tail, len(plot.group.tail)
    before: tuple[int, int] | None = None
    end = _end_of_sending(plot)
    for x in range(LEFT, int(end) + 1):
        longer = tail.longer_than(plot.across.time(x))
        if longer != before:
            least, most = longer
            yield float(x), plot.up.place(least / count), plot.up.place(most / count)
            before = longer
    least, most = before or (0, 0)
    yield end, plot.up.place(least / count), plot.up.place(most / count)
    yield end, _BASE, _BASE


def _end_of_sending(plot: _Plot) -> float:
    """Return the place after which nothing is sent: no open operation can reach beyond it."""
    group = plot.group
    window_ns = group.retention_ns if group.window_ns is None else group.window_ns
    largest = group.tail.largest
    if window_ns is None or largest is None or group.retention_s != group.retention_max_s:
        return RIGHT
    return plot.across.place(max(window_ns, largest.ns))


def _path(points: Sequence[tuple[float, float]]) -> str:
    # All are sent once, so that every line begins at the top.
    return f"M{LEFT} {_TOP:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in points)


def _limits(plot: _Plot) -> Markup:
    """The retention and the send deadline."""
    group, parts = plot.group, list[Markup]()
    if group.window_ns is not None:
        parts.append(_limit(plot, group.window_ns, "deadline", "last send before", 36))
    if group.retention_ns is not None:
        parts.append(_limit(plot, group.retention_ns, "retention", "key forgotten after", 20))
    return join(*parts)


def _limit(plot: _Plot, ns: int, name: str, words: str, label_y: float) -> Markup:
    x = plot.across.place(ns)
    to_left = x - LEFT > _LABEL_SPACE
    label_x, anchor = (x - 6, "end") if to_left else (x + 6, "start")
    label = _words(f"{words} {duration(ns)}", label_x, label_y, anchor)
    line = element("line", x1=x, x2=x, y1=label_y - 10, y2=_BASE, class_=name)
    return element("g", line, label, class_=f"limit {name}-label")


def _marks(plot: _Plot) -> Markup:
    """A dot for each percentile; those at one place share a name."""
    names: dict[tuple[float, float], tuple[list[str], Bound]] = {}
    for percent in _PERCENTILES:
        bound = plot.group.tail.percentile(percent)
        if bound is not None:
            place = plot.across.place(bound.ns), plot.up.place(1 - percent / 100)
            name = f"p{percent}" if percent < 100 else "largest"
            names.setdefault(place, ([], bound))[0].append(name)
    return join(*(_mark(x, y, *named) for (x, y), named in names.items()))


def _mark(x: float, y: float, names: list[str], bound: Bound) -> Markup:
    to_left = RIGHT - x < _LABEL_SPACE / 2
    said = f"{', '.join(names)} {bound_text(bound, '≥')}"
    dot = element("circle", cx=x, cy=y, r=4, class_="open-dot" if bound.at_least else "dot")
    label_x, anchor = (x - 8, "end") if to_left else (x + 8, "start")
    return element("g", dot, _words(said, label_x, y - 7, anchor), class_="mark")


def _rug_rows(group: Group) -> Iterator[tuple[str, Sequence[int]]]:
    if group.open.count:
        yield "open", group.open.ages_ns
    if group.unknown.count:
        yield "unknown", group.unknown.ages_ns


def _rug(plot: _Plot, row: int, named: tuple[str, Sequence[int]]) -> Markup:
    """A tick for each age, one a pixel; what is there more than once says so."""
    name, ages_ns = named
    y = _AXIS + 10 + row * _RUG_HEIGHT
    at = Counter(round(plot.across.place(ns)) for ns in ages_ns)
    ticks = (
        element(
            "line",
            element("title", f"{count_of(count, 'operation')} {name}"),
            x1=x,
            x2=x,
            y1=y,
            y2=y + 12,
            class_=name,
        )
        for x, count in sorted(at.items())
    )
    return element("g", _words(name, LEFT - 8, y + 10, "end"), *ticks, class_="rug")


def _words(text: str, x: float, y: float, anchor: str) -> Markup:
    return element("text", text, x=x, y=y, text_anchor=anchor)


def times_of(group: Group) -> Iterator[int]:
    """Yield the times in ns that a chart of the group has to have a place for."""
    for waiting in (group.open, group.unknown):
        yield waiting.oldest_ns
    yield from (ns for ns in (group.retention_ns, group.window_ns) if ns is not None)
    yield largest_ns(group.tail)


def largest_ns(tail: Tail) -> int:
    """Return the longest time of a tail; 0 of none."""
    return tail.largest.ns if tail.largest is not None else 0
