"""Opening the journal of a command, and finding an operation in it. A look never makes a journal.

A mistyped path or name would otherwise answer "nothing is pending": a lie that somebody relies on.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Final
from urllib.parse import unquote

import typer

from replayfloor.client.cli_common import WRONG_COMMAND, complain, refuse
from replayfloor.client.journal import Journal, open_journal
from replayfloor.core.errors import UsageError
from replayfloor.core.journal import JournalEntry, ReadHistory, ReadOperation
from replayfloor.core.journal_rules import is_storable

SQLITE: Final = "sqlite:///"
POSTGRES: Final = ("postgresql://", "postgres://")

LOOK_S: Final = 5.0
"""Until a database has to have said whether it holds a journal; it is a person who waits."""

_AFTER_EVERY_ID: Final = "\U0010ffff" * 256
"""Sorts after every operation id, none of which is as long: the last character, more often."""


@contextmanager
def journal_at(url: str) -> Generator[Journal]:
    """Open a journal that is there, for as long as the block lasts.

    Raises UsageError for what is no URL of a journal, and ends the command if there is none.
    """
    if url.startswith(SQLITE):
        _require_file(Path(unquote(url.removeprefix(SQLITE))))
    elif url.startswith("memory:"):
        raise UsageError("a journal in memory is gone with its process: there is nothing to see")
    elif not url.startswith(POSTGRES):
        # Not repeated: it may hold a password.
        raise UsageError("a journal URL is sqlite:///path or postgresql://user@host/database")
    journal = open_journal(url, creates=False)
    try:
        if url.startswith(POSTGRES):
            _require_schema(url)
        yield journal
    finally:
        journal.close()


def _require_file(path: Path) -> None:
    if not path.is_file():
        refuse(f"There is no journal at {path}. Nothing was made.")
    if path.stat().st_size == 0:
        refuse(f"{path} is an empty file, and no journal. Nothing was made.")


def _require_schema(url: str) -> None:
    """End the command if a database holds nothing yet; what it does hold, the journal checks."""
    import psycopg

    from replayfloor.client.journal.postgres_link import connected, conninfo_of, unavailable
    from replayfloor.client.journal.statements import postgres_statement

    look = postgres_statement("schema_look")
    try:
        with connected(conninfo_of(url), monotonic() + LOOK_S) as connection:
            row = connection.execute(look).fetchone()
    except psycopg.Error as error:
        raise unavailable(error, performed=False) from error
    if row is None or not row["filled"]:
        refuse("There is no journal in this database. Nothing was made.")


def namespaces(journal: Journal) -> Iterator[str]:
    """Return the namespaces of a journal in order: one look for each, however many entries."""
    after: tuple[str, str] | None = None
    while found := journal.history(ReadHistory(after=after, limit=1)):
        namespace = found[0].namespace
        yield namespace
        after = (namespace, _AFTER_EVERY_ID)


def find(journal: Journal, operation_id: str, namespace: str | None) -> JournalEntry:
    """Return the entry of an operation; end the command if there is none, or more than one."""
    if not is_storable(operation_id, namespace):
        raise UsageError("no operation has such an id: it is not text")
    where = [namespace] if namespace is not None else list(namespaces(journal))
    effects = (ReadOperation(each, operation_id) for each in where)
    found = [entry for entry in map(journal.read, effects) if entry is not None]
    match found:
        case [entry]:
            return entry
        case []:
            there = f" in {namespace!r}" if namespace is not None else ""
            refuse(
                f"There is no operation {operation_id!r}{there}: it was never begun with this "
                "journal, or it was finished and pruned."
            )
        case _:
            complain(f"There are {len(found)} operations {operation_id!r}. Add one of:")
            for entry in found:
                complain(f"    --namespace {entry.namespace}")
            raise typer.Exit(WRONG_COMMAND)
