"""The server side's commands; `replayfloor.cli` finds them by entry point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from replayfloor.core.errors import StoreUnavailable, UsageError
from replayfloor.server import cli_receipts
from replayfloor.server.cli_reconcile import reconcile

if TYPE_CHECKING:
    from replayfloor.server.stores.migrate import Checked, Migrated

app = typer.Typer(help="Receipts and claims of the server side.")
app.add_typer(cli_receipts.app, name="receipts")
app.command()(reconcile)
out, err = Console(highlight=False), Console(stderr=True, highlight=False)


@app.command()
def migrate(
    url: Annotated[str, typer.Argument(help="postgresql://user@host/database")],
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; status 1 if there is anything to do.")
    ] = False,
) -> None:
    """Create or extend the schema `replayfloor` in a Postgres database. Safe to repeat."""
    if url.startswith("sqlite:"):
        out.print("SQLite needs no migration: the file is made when it is first opened.")
        return
    try:
        import psycopg

        from replayfloor.server.stores import migrate as schema
    except ImportError:
        err.print("Postgres needs psycopg: pip install 'replayfloor[server]'")
        raise typer.Exit(2) from None
    try:
        if check:
            _say_what_lacks(schema.check(url))
        else:
            _say_what_was_done(schema.migrate(url))
    except (UsageError, StoreUnavailable, psycopg.Error) as error:
        did = "Not checked" if check else "Not migrated, nothing was changed"
        err.print(f"{did}: {error}", markup=False)
        raise typer.Exit(1) from None


def _say_what_was_done(done: Migrated) -> None:
    for name in done.applied:
        out.print(f"applied {name}")
    out.print(f"The schema is up to date; {done.partitions} partitions were made.")


def _say_what_lacks(checked: Checked) -> None:
    for warning in checked.warnings:
        err.print(f"warning: {warning}", markup=False, soft_wrap=True)
    for each in checked.lacking:
        out.print(each, markup=False, soft_wrap=True)
    if checked.lacking:
        raise typer.Exit(1)
    out.print("Nothing is to be done.")
