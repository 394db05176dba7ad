"""The server side's commands; `replayfloor.cli` finds them by entry point."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from replayfloor.core.errors import StoreUnavailable

app = typer.Typer(help="Receipts and claims of the server side.")
out, err = Console(highlight=False), Console(stderr=True, highlight=False)


@app.command()
def migrate(
    url: Annotated[str, typer.Argument(help="postgresql://user@host/database")],
) -> None:
    """Create or extend the schema `replayfloor` in a Postgres database. Safe to repeat."""
    if url.startswith("sqlite:"):
        out.print("SQLite needs no migration: the file is made when it is first opened.")
        return
    try:
        import psycopg

        from replayfloor.server.stores.migrate import migrate as run
    except ImportError:
        err.print("Postgres needs psycopg: pip install 'replayfloor[server]'")
        raise typer.Exit(2) from None
    try:
        done = run(url)
    except (StoreUnavailable, psycopg.Error) as error:
        err.print(f"Not migrated, nothing was changed: {error}", markup=False)
        raise typer.Exit(1) from None
    for name in done.applied:
        out.print(f"applied {name}")
    out.print(f"The schema is up to date; {done.partitions} partitions were made.")
