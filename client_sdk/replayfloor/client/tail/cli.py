"""`replayfloor tail …`: the commands. What they show is in `text`, `machine` and `page`.

Exit codes: 0 it was reported; 1 it was, and `--check` refuses it; 2 it was not (a source cannot be
read, the command is wrong).
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from replayfloor.client.tail import text
from replayfloor.client.tail.check import refusals
from replayfloor.client.tail.gathering import build
from replayfloor.client.tail.machine import as_json
from replayfloor.client.tail.page import write_page
from replayfloor.client.tail.report import (
    LISTED_DEFAULT,
    NS_PER_S,
    SHARE_DEFAULT,
    By,
    Report,
    Terms,
)
from replayfloor.client.tail.scratch import open_scratch
from replayfloor.client.tail.sightings import operation
from replayfloor.client.tail.sources import Source, expand, read
from replayfloor.client.tail.words import moment_ns, plain
from replayfloor.core.errors import IdempotencyError, UsageError

tail_app = typer.Typer(help="How long operations are retried, against the provider's retention.")

REFUSED, NOT_REPORTED = 1, 2

_WIDTH_OF_A_FILE: Final = 240
"""Columns where the output is no terminal: a row stays one line, for grep."""

_PERIOD: Final = re.compile(r"(\d{1,9})(min|h|d|w)")
_UNIT_S: Final = {"min": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}


@tail_app.callback()
def tail() -> None:
    """How long operations are retried, against the provider's retention."""


@tail_app.command()
def report(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="A journal (sqlite:///path, postgresql://…), a file of JSON lines or a pattern "
            "of such files, or - for JSON lines on stdin. Of any number of processes.",
        ),
    ],
    *,
    by: Annotated[By, typer.Option(help="What a row is.")] = By.PROVIDER,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Leave out what ended before: 90min, 24h, 7d, 2w ago, or a moment (ISO 8601, "
            "UTC). What is still open is never left out.",
        ),
    ] = None,
    share: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="The share of the retention past which it becomes dangerous."
        ),
    ] = SHARE_DEFAULT,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Status 1 if p99 or the largest passes --share of the retention."
        ),
    ] = False,
    listed: Annotated[
        int, typer.Option("--list", min=0, help="Operations to list of each kind at risk.")
    ] = LISTED_DEFAULT,
    as_object: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with the tail, too.")
    ] = None,
    at: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Show how long after its first attempt each operation was last sent, and what is at risk.

    Reads journals and JSON lines of several processes; an operation that is in more than one of
    them counts once. Sends nothing and changes nothing.
    """
    with _failures_as_exit_codes():
        at_ns = time.time_ns() if at is None else moment_ns(_moment(at))
        terms = Terms(
            at_ns=at_ns, share=share, listed=listed, by=by, since_ns=_since_ns(since, at_ns)
        )
        found = gather([each for given in sources for each in expand(given)], terms)
        refused = [each for group in found.groups for each in refusals(group, share)]
        _show(found, refused if check else None, as_object=as_object)
        if html is not None:
            write_page(html, found)
    if check and refused:
        raise typer.Exit(REFUSED)


def gather(sources: list[Source], terms: Terms) -> Report:
    """Read the sources and return the report. Raises what `sources.read` raises."""
    with open_scratch() as scratch:
        for source in sources:
            scratch.add(read(source, terms.at_ns))
        groups = build((operation(seen, terms.at_ns) for seen in scratch.read()), terms)
    return Report(terms, tuple(source.found() for source in sources), groups)


def _show(found: Report, refused: list[str] | None, *, as_object: bool) -> None:
    out, err = _console(stderr=False), _console(stderr=True)
    for line in chain(text.complaints(found.found), refused or ()):
        err.print(plain(line), soft_wrap=True)
    if as_object:
        # Not through the console, which would wrap and style it.
        sys.stdout.write(as_json(found, refused) + "\n")
        return
    if found.groups:
        out.print(text.table(found))
    for line in text.notes(found):
        out.print(line, soft_wrap=True)


def _console(*, stderr: bool) -> Console:
    console = Console(highlight=False, markup=False, emoji=False, stderr=stderr)
    if not console.is_terminal:
        console.width = _WIDTH_OF_A_FILE
    return console


def _moment(told: str) -> datetime:
    try:
        return datetime.fromisoformat(told)
    except ValueError:
        raise UsageError(f"{told!r} is no moment: write 2026-01-31 or 2026-01-31T12:00Z") from None


def _since_ns(since: str | None, at_ns: int) -> int | None:
    if since is None:
        return None
    if period := _PERIOD.fullmatch(since):
        return at_ns - int(period[1]) * _UNIT_S[period[2]] * NS_PER_S
    return moment_ns(_moment(since))


@contextmanager
def _failures_as_exit_codes() -> Generator[None]:
    """End the command with a message and an exit code instead of a traceback."""
    try:
        yield
    except (IdempotencyError, OSError) as error:
        _console(stderr=True).print(plain(str(error)), soft_wrap=True)
        raise typer.Exit(NOT_REPORTED) from None
