"""`replayfloor client prune` and `migrate`: keeping a journal small, and making one in Postgres."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Final

import typer

from replayfloor.client.cli_common import (
    Url,
    failures_as_exit_codes,
    say,
    span,
)
from replayfloor.client.cli_journal import POSTGRES, SQLITE, journal_at
from replayfloor.client.clock import system_clock
from replayfloor.client.journal import Journal
from replayfloor.client.upkeep import FINISHED_KEPT_S, prune, prune_effect
from replayfloor.core.errors import UsageError
from replayfloor.core.journal import HISTORY_MAX, JournalEntry, ReadHistory
from replayfloor.core.journal_rules import may_be_pruned

_DURATION: Final = re.compile(r"(?P<count>[0-9]{1,9})(?P<unit>[smhdw])")
_UNITS_S: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def prune_journal(
    url: Url,
    *,
    keep: Annotated[
        str,
        typer.Option(help="How long finished operations are kept: 90m, 12h, 35d, 8w."),
    ] = f"{FINISHED_KEPT_S / 86_400:.0f}d",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Remove nothing, and say how many would be.")
    ] = False,
) -> None:
    """Remove what was finished long ago.

    Never removed is what has no known end, nor what could still be sent under its key. Whoever
    calls with the id of an operation that was removed begins a new one: keep them for longer than
    your queues and jobs may repeat themselves.
    """
    with failures_as_exit_codes():
        keep_s = duration_s(keep)
        with journal_at(url) as journal:
            now = system_clock()
            if dry_run:
                effect = prune_effect(now, keep_s)
                count = sum(may_be_pruned(entry, effect) for entry in _history(journal))
            else:
                count = prune(journal, now, keep_finished_s=keep_s)
    what = f"{count} finished operations that ended more than {span(keep_s)} ago"
    say(f"Would remove {what}." if dry_run else f"Removed {what}.")


def duration_s(text: str) -> float:
    """Return the seconds of a length of time such as 12h. Raises UsageError."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is no length of time: expected such as 90m, 12h, 35d or 8w")
    return int(match["count"]) * _UNITS_S[match["unit"]]


def _history(journal: Journal) -> Iterator[JournalEntry]:
    after: tuple[str, str] | None = None
    while found := journal.history(ReadHistory(after=after, limit=HISTORY_MAX)):
        yield from found
        after = (found[-1].namespace, found[-1].operation_id)


def migrate(url: Url) -> None:
    """Make the journal's table in a Postgres database. Safe to repeat."""
    if url.startswith(SQLITE):
        say("There is nothing to do: SQLite makes the file when it is first written to.")
        return
    with failures_as_exit_codes():
        if not url.startswith(POSTGRES):
            raise UsageError("a database URL is postgresql://user@host/database")
        from replayfloor.client.journal.postgres_schema import create_schema

        made = create_schema(url)
    say("The journal was made." if made else "There is nothing to do: the journal stands.")
