"""The server side's commands; `replayfloor.cli` finds them by entry point."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from replayfloor.core.errors import StoreUnavailable, UsageError
from replayfloor.retention.layout import Plain, advise_layout
from replayfloor.server import cli_inbox, cli_partitions, cli_policy, cli_receipts
from replayfloor.server.cli_doctor import doctor
from replayfloor.server.cli_keeping import (
    AcceptShorter,
    AuditText,
    PolicyText,
    RetentionText,
    keeping,
    require,
)
from replayfloor.server.cli_reconcile import reconcile
from replayfloor.server.stores.maintenance import Keeping, Layout

if TYPE_CHECKING:
    from replayfloor.server.stores.migrate import Checked, Migrated

app = typer.Typer(help="Receipts and claims of the server side.")
app.add_typer(cli_receipts.app, name="receipts")
app.add_typer(cli_inbox.app, name="inbox")
app.add_typer(cli_partitions.app, name="partitions")
app.add_typer(cli_policy.app, name="retention")
app.command()(reconcile)
app.command()(doctor)
with suppress(ImportError):  # its figures are Postgres', and so is what it imports
    app.add_typer(import_module("replayfloor.server.cli_storage").app, name="storage")
out, err = Console(highlight=False), Console(stderr=True, highlight=False)


@app.command()
def migrate(
    url: Annotated[str, typer.Argument(help="postgresql://user@host/database")],
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; status 1 if there is anything to do.")
    ] = False,
    retention: RetentionText = None,
    policy: PolicyText = None,
    audit: AuditText = None,
    layout: Annotated[
        str | None, typer.Option(help="plain or partitioned. Default: what is there, or advised.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="New keys a second, for advice on the layout.")
    ] = None,
    accept_shorter: AcceptShorter = False,
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
        kept = keeping(retention, policy, audit)
        if check:
            _say_what_lacks(schema.check(url))
        else:
            wanted = _layout(layout, rate, kept)
            done = schema.migrate(url, keeping=kept, layout=wanted, accept_shorter=accept_shorter)
            _say_what_was_done(done)
    except (UsageError, StoreUnavailable, psycopg.Error) as error:
        did = "Not checked" if check else "Not migrated, nothing was changed"
        err.print(f"{did}: {error}", markup=False)
        raise typer.Exit(1) from None


def _layout(layout: str | None, rate: float | None, kept: Keeping | None) -> Layout | None:
    """Return the layout that is asked for, or advised at this rate. Raises UsageError."""
    if layout == "plain":
        return "plain"
    if layout == "partitioned":
        return "partitioned"
    if layout is not None:
        raise UsageError(f"--layout {layout}: expected plain or partitioned")
    if rate is None:
        return None
    advice = advise_layout(rate, require(kept).retention_s)
    chosen: Layout = "plain" if isinstance(advice, Plain) else "partitioned"
    out.print(f"layout {chosen}: {'; '.join(advice.reasons)}", markup=False, soft_wrap=True)
    return chosen


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
