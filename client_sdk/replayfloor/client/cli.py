"""The client side's commands; `replayfloor.cli` finds them by entry point.

Put together here; what each does is in `cli_pending`, `cli_resume`, `cli_close`, `cli_upkeep`.
"""

from __future__ import annotations

from contextlib import suppress

import typer

from replayfloor.client.cli_close import close
from replayfloor.client.cli_pending import list_pending, show
from replayfloor.client.cli_resume import resume
from replayfloor.client.cli_upkeep import migrate, prune_journal

app = typer.Typer(help="Journals of the client side.", no_args_is_help=True)
client = typer.Typer(
    help="List, resume and settle the operations that a crash or an outage left.",
    no_args_is_help=True,
)
app.add_typer(client, name="client")

client.command("pending")(list_pending)
client.command()(show)
client.command()(resume)
client.command()(close)
client.command("prune")(prune_journal)
client.command()(migrate)

# Whatever that part lacks, this one has to work at night.
with suppress(ImportError):
    from replayfloor.client.tail.cli import tail_app

    app.add_typer(tail_app, name="tail")
