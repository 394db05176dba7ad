"""The command `replayfloor`: puts together what the installed sides offer. No logic of its own.

Each side names a typer application under the entry point group `replayfloor.commands`.
"""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

GROUP = "replayfloor.commands"


def main() -> None:
    """Run the command line."""
    try:
        import typer
    except ImportError:
        sys.exit("The command line needs typer and rich: pip install 'replayfloor[cli]'")
    command = typer.Typer(
        name="replayfloor",
        help="Idempotent writes: receipts on the server, journals on the client.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )

    @command.callback()
    def root() -> None:
        """Keep the command's name even while there is only one subcommand."""

    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        command.add_typer(entry.load())
    command()
