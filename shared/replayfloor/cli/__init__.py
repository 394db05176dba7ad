"""The command `replayfloor`: puts together what the installed sides offer. No logic of its own.

Each side names a typer application under the entry point group `replayfloor.commands`.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

GROUP = "replayfloor.commands"


def command() -> typer.Typer:
    """Return the command line with the commands of every side that is installed.

    Raises ImportError without typer.
    """
    import typer

    application = typer.Typer(
        name="replayfloor",
        help="Idempotent writes: receipts on the server, journals on the client.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )

    @application.callback()
    def root() -> None:  # pyright: ignore[reportUnusedFunction] - registered by the decorator
        """Keep the commands' names even while there is only one."""

    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        # A side comes with the distribution, but what it requires may not be installed.
        with suppress(ImportError):
            application.add_typer(entry.load())
    return application


def main() -> None:
    """Run the command line."""
    try:
        application = command()
    except ImportError:
        sys.exit("The command line needs typer and rich: pip install 'replayfloor[cli]'")
    application()
