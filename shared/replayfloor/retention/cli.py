"""`replayfloor policy …` and `replayfloor providers …`, which `replayfloor.cli` finds by name.

Put together here; what each command does is in `cli_policy`, `cli_providers`, `cli_measure`.
"""

from __future__ import annotations

from contextlib import suppress

import typer

from replayfloor.retention.cli_policy import check, diff, explain

app = typer.Typer(help="How long keys live, and why.", no_args_is_help=True)
policy = typer.Typer(
    help="How long receipts are kept, and until when a client may retry: derived from figures.",
    no_args_is_help=True,
)
app.add_typer(policy, name="policy")

policy.command()(explain)
policy.command()(check)
policy.command()(diff)

# A part that lacks what it needs takes its own commands away, and not these.
with suppress(ImportError):
    from replayfloor.retention.cli_providers import app as providers

    app.add_typer(providers, name="providers")
with suppress(ImportError):
    from replayfloor.retention.cli_measure import app as measure

    policy.add_typer(measure, name="measure")
