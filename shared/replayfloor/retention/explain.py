"""A policy in lines for a person: how its number came about, what it covers, what it costs.

Text only; what a terminal can show is decided by whoever prints it (`picture.Ink`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from replayfloor.retention.coverage import Coverage, percent
from replayfloor.retention.derivation import Derivation, Horizon
from replayfloor.retention.durations import exact_us, format_duration, in_words, seconds
from replayfloor.retention.errors import PolicyError, RetentionTooShort
from replayfloor.retention.inbound import ADDED_TERMS, InboundPolicy
from replayfloor.retention.layout import Partitioned, advise_layout
from replayfloor.retention.outbound import OutboundPolicy
from replayfloor.retention.picture import COLUMNS, Ink, bar, cells, pad, wrapped
from replayfloor.retention.storage import DAY_S, Estimate, render_estimate, size_text
from replayfloor.retention.terms import Term

DEFAULT_RATE_PER_S: Final = 20.0
"""New keys a second that costs are shown for, if nobody says how many there are."""

DEFAULT_AGAINST_S: Final = 86_400.0
"""The retention that people choose when they do not derive one."""

LABEL_WIDTH: Final = 30
LENGTH_WIDTH: Final = 12
DETAIL_INDENT: Final = 6
BAR_WIDTH_MIN: Final = 10


@dataclass(frozen=True, slots=True)
class Setting:
    """What an explanation is made for.

    `rate_per_s` new keys a second, of which `rate_is_given` tells whether the user said so;
    `against_s` a retention to compare with, in seconds.
    """

    ink: Ink
    rate_per_s: float = DEFAULT_RATE_PER_S
    rate_is_given: bool = False
    against_s: float = DEFAULT_AGAINST_S


def explain_inbound(policy: InboundPolicy, place: str, setting: Setting) -> list[str]:
    """Return a policy for receipts in lines; `place` is the file and line where it stands."""
    lines = [f"inbound.{policy.name} ({place})", "", "  The longest of"]
    floor = _derived(policy)
    for horizon in policy.horizons:
        mark = f" {setting.ink.arrow} decides" if floor and horizon == floor.driver else ""
        lines += _figure(horizon.label, horizon.term, mark)
    lines.append("  plus")
    stated = {term.name: term for term in policy.additions}
    for kind in ADDED_TERMS:
        if kind in stated:
            lines += _figure(kind.words, stated[kind])
        else:
            lines += _row(kind.words, "0 s", " not stated")
    lines += _result(policy, floor, setting)
    return [*lines, "", f"  Digest {policy.digest}"]


def _derived(policy: InboundPolicy) -> Derivation | None:
    try:
        return policy.floor
    except PolicyError:
        return None


def _figure(label: str, term: Term, mark: str = "") -> list[str]:
    return [*_row(label, str(term), mark), *wrapped(str(term.provenance), DETAIL_INDENT)]


def _row(label: str, length: str, rest: str = "", indent: int = 4) -> list[str]:
    width = LABEL_WIDTH + 4 - indent
    if cells(label) <= width:
        return [f"{' ' * indent}{pad(label, width)} {length:>{LENGTH_WIDTH}}{rest}"]
    return [*wrapped(label, indent), *_row("", length, rest, indent)]


def _result(policy: InboundPolicy, floor: Derivation | None, setting: Setting) -> list[str]:
    try:
        kept_s = policy.retention_s
    except RetentionTooShort as error:
        # The picture shows what the number that is refused would cover; it has no cost.
        asked = policy.retention.seconds if policy.retention else None
        lines = [*_floor(floor), *wrapped(f"REFUSED: {error}", 2)]
        return lines + _coverage(policy.horizons, floor, asked or 0.0, setting)
    except PolicyError as error:
        return ["", *wrapped(f"NO FLOOR: {error}", 2)]
    return [
        *_floor(floor),
        *_kept(policy, floor),
        *_coverage(policy.horizons, floor, kept_s, setting),
        *_cost(kept_s, setting),
    ]


def _floor(floor: Derivation | None) -> list[str]:
    if floor is None:
        return []
    return [
        *_row("is the floor", in_words(floor.floor_s), indent=2),
        *wrapped(f"{floor.formula}; {floor.driver.label} decides", DETAIL_INDENT),
    ]


def _kept(policy: InboundPolicy, floor: Derivation | None) -> list[str]:
    if policy.retention is None or floor is None:
        return _row("Receipts are kept for", in_words(policy.retention_s), ", the floor", 2)
    more_s = seconds(exact_us(policy.retention_s) - exact_us(floor.floor_s))
    rest = f", {in_words(more_s)} longer" if more_s else ", the floor"
    return [
        *_row("Receipts are kept for", in_words(policy.retention_s), rest, 2),
        *wrapped(str(policy.retention.provenance), DETAIL_INDENT),
    ]


def _coverage(
    horizons: Iterable[Horizon], floor: Derivation | None, kept_s: float, setting: Setting
) -> list[str]:
    every = [each for each in horizons if each.term.seconds]
    against_s = setting.against_s
    lines = ["", f"  Covered by {in_words(kept_s)}"]
    lines += _bars(every, kept_s, setting.ink)
    if against_s < kept_s:
        lines += ["", f"  It would be, by {in_words(against_s)}"]
        lines += _bars(every, against_s, setting.ink)
    if floor is not None and against_s < floor.floor_s:
        bought = Coverage(against_s, floor.floor_s)
        text = (
            f"{in_words(floor.floor_s)} instead of {in_words(against_s)} buys "
            f"{bought.open_percent} of the floor: {in_words(bought.open_s)}"
        )
        lines += ["", *wrapped(text, 2)]
    return lines


def _bars(horizons: list[Horizon], kept_s: float, ink: Ink) -> list[str]:
    rows: list[tuple[str, str, Fraction, str]] = []
    for horizon in horizons:
        covered = Coverage(kept_s, horizon.seconds)
        left = "" if covered.is_complete else f", {in_words(covered.open_s)} open"
        length = in_words(horizon.seconds)
        rows.append((horizon.label, length, covered.exact_share, f"{covered.percent}{left}"))
    return bar_rows(rows, ink)


def bar_rows(rows: list[tuple[str, str, Fraction, str]], ink: Ink) -> list[str]:
    """Return rows of label, length, share and words as lines with bars, each within COLUMNS.

    A label that leaves no room for the bar stands on a line of its own.
    """
    if not rows:
        return []
    lengths = max(len(length) for _, length, _, _ in rows)
    words = max(len(text) for _, _, _, text in rows)
    label_width = min(max(cells(label) for label, *_ in rows), LABEL_WIDTH)
    room = COLUMNS - 4 - lengths - words - 2
    label_width = min(label_width, max(0, room - BAR_WIDTH_MIN - 1))
    width = max(BAR_WIDTH_MIN, min(30, room - label_width - 1))
    lines: list[str] = []
    for label, length, share, text in rows:
        own = label
        if cells(label) > label_width:
            lines += wrapped(label, 4)
            own = ""
        picture = bar(share, ink, width)
        lines.append(f"    {pad(own, label_width)} {length:>{lengths}} {picture} {text}")
    return lines


def _cost(retention_s: float, setting: Setting) -> list[str]:
    rate = setting.rate_per_s
    said = "" if setting.rate_is_given else " (the default; say yours with --rate)"
    layout = advise_layout(rate, retention_s)
    lines = ["", f"  At {rate:g} new keys a second{said}"]
    if isinstance(layout, Partitioned):
        name = f"partitions of {format_duration(layout.width_s)}"
    else:
        name = "one plain table"
    lines += wrapped(f"{name}: {'; '.join(layout.reasons)}", 4)
    if not rate:
        return lines
    estimate = Estimate(rate, retention_s / DAY_S)
    for line in render_estimate(estimate):
        lines += wrapped(line, 4)
    if isinstance(layout, Partitioned):
        waits = size_text(estimate.bytes_until_dropped(layout.width_s))
        lines += wrapped(f"and up to {waits} in the partition that waits to be dropped", 4)
    return lines


def explain_outbound(policy: OutboundPolicy, place: str, setting: Setting) -> list[str]:
    """Return a policy for the client in lines; `place` is the file and line where it stands."""
    lines = [f"outbound.{policy.name} ({place})", ""]
    lines += _figure(f"{policy.provider.name} keeps a key for", policy.provider.key_retention)
    if policy.safety_margin is None:
        lines += _default_margin(policy)
    else:
        lines += _figure("less the safety margin", policy.safety_margin)
    lines += _window(policy, setting)
    return [*lines, "", f"  Digest {policy.digest}"]


def _default_margin(policy: OutboundPolicy) -> list[str]:
    try:
        length = in_words(policy.margin_s)
    except PolicyError:
        return []
    return _row("less the safety margin", length, " the default")


def _window(policy: OutboundPolicy, setting: Setting) -> list[str]:
    try:
        window_s, reach = policy.send_window_s, policy.reach
    except PolicyError as error:
        return ["", *wrapped(f"NO SEND WINDOW: {error}", 2)]
    lines = [*_row("may be sent again within", in_words(window_s), indent=2), "", "  By plan"]
    lines += _figure("retry budget of a call", policy.retry_budget)
    for pause in policy.pauses:
        mark = f" {setting.ink.arrow} the longest pause" if pause == reach.driver else ""
        lines += _figure(pause.name.words, pause, mark)
    lines += _row("it is sent again up to", in_words(reach.reach_s), indent=2)
    if reach.driver is not None:
        lines += wrapped(f"{reach.formula}: a call, the longest pause, a call", DETAIL_INDENT)
    share = Fraction(exact_us(reach.reach_s), exact_us(window_s))
    spare_us = exact_us(window_s) - exact_us(reach.reach_s)
    if spare_us >= 0:
        text = f"{percent(share)}, {in_words(seconds(spare_us))} to spare"
        return [*lines, "", *bar_rows([("used of it", "", share, text)], setting.ink)]
    return [*lines, "", *wrapped(f"REFUSED: {_refusal(policy)}", 2)]


def _refusal(policy: OutboundPolicy) -> str:
    try:
        policy.require_plan()
    except PolicyError as error:
        return str(error)
    return ""
