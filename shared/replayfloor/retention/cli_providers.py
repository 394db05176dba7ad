"""`replayfloor providers list|show|check`: what is published, from where, and how old that is.

What they print is made in `providers_show`: here are the arguments, and the only clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Annotated, TypeAlias

import typer

from replayfloor.retention.cli_common import (
    WRONG,
    FileOption,
    JsonOption,
    failures_as_exit_codes,
    say,
    say_json,
)
from replayfloor.retention.durations import format_duration, parse_duration
from replayfloor.retention.errors import PolicyError
from replayfloor.retention.providers import ProviderRow, get_provider, providers
from replayfloor.retention.providers_check import Overdue, overdue
from replayfloor.retention.providers_files import load_rows
from replayfloor.retention.providers_show import (
    CHECK_HEADER,
    LIST_HEADER,
    as_lines,
    check_cells,
    check_json,
    list_cells,
    row_json,
    show_lines,
)

app = typer.Typer(
    name="providers",
    help="How long providers remember keys and repeat webhooks: figures, sources, dates.",
    no_args_is_help=True,
)

DirectionOption: TypeAlias = Annotated[
    str | None, typer.Option("--direction", help="outbound, inbound or broker. Default: all.")
]


@app.command("list")
def list_providers(
    *, direction: DirectionOption = None, file: FileOption = None, as_json: JsonOption = False
) -> None:
    """List every row: its figures, and what a sender may rely on or a receiver has to keep."""
    with failures_as_exit_codes():
        rows = providers(direction, rows=load_rows(file))
        if as_json:
            say_json([row_json(row) for row in rows])
        else:
            say(as_lines(LIST_HEADER, [list_cells(row) for row in rows]))


@app.command("show")
def show_provider(
    name: Annotated[str, typer.Argument(help="As `list` has it.", metavar="NAME")],
    *,
    direction: DirectionOption = None,
    file: FileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show all that is known of a provider: figures, sources, dates, confidence, conflicts."""
    with failures_as_exit_codes():
        rows = _named(name, direction, load_rows(file))
        if as_json:
            say_json([row_json(row) for row in rows])
            return
        for at, row in enumerate(rows):
            say([""] if at else [])
            say(show_lines(row))


@app.command("check")
def check_providers(
    names: Annotated[
        list[str] | None, typer.Argument(help="Only these. Default: all.", metavar="[NAME]...")
    ] = None,
    *,
    older_than: Annotated[str, typer.Option(help="A length of time, such as 180d.")] = "180d",
    at: Annotated[
        str | None, typer.Option(help="The day to count from, as 2026-11-30. Default: today, UTC.")
    ] = None,
    direction: DirectionOption = None,
    file: FileOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the figures that have to be read again: too old, or without a date. Exit 1 if any.

    What you have read again goes into your file, with the day, as [providers.inbound.NAME].
    """
    with failures_as_exit_codes():
        rows = _chosen(names or [], direction, load_rows(file))
        limit_s = parse_duration(older_than)
        found = overdue(rows, at=_day(at), older_than_s=limit_s)
        if as_json:
            say_json([check_json(each) for each in found])
        else:
            say(_told(found, limit_s))
    if found:
        raise typer.Exit(WRONG)


def _told(found: Sequence[Overdue], limit_s: float) -> list[str]:
    limit = format_duration(limit_s)
    if not found:
        return [f"Every figure was read within {limit}."]
    days: dict[tuple[str, str, int | None], list[Overdue]] = {}
    for each in found:
        days.setdefault((each.row.direction, each.row.name, each.age_days), []).append(each)
    return [
        *as_lines(CHECK_HEADER, [check_cells(group) for group in days.values()]),
        "",
        f"{len(found)} figures were read more than {limit} ago, or nobody knows when: "
        "read them again, and note the day.",
    ]


def _chosen(
    names: Sequence[str], direction: str | None, rows: tuple[ProviderRow, ...]
) -> list[ProviderRow]:
    if not names:
        return list(providers(direction, rows=rows))
    return [row for name in dict.fromkeys(names) for row in _named(name, direction, rows)]


def _named(name: str, direction: str | None, rows: tuple[ProviderRow, ...]) -> list[ProviderRow]:
    """Return the rows of a name, in each direction; raises PolicyError if there is none."""
    found = [row for row in providers(direction, rows=rows) if row.name == name]
    # Where there is none, the error of `get_provider` says what was meant.
    return found or [get_provider(name, direction=direction, rows=rows)]


def _day(text: str | None) -> date:
    if text is None:
        return datetime.now(UTC).date()
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise PolicyError(f"{text!r} is no day", advice="write it as 2026-11-30") from None
