"""What the server side's commands share: output that is safe to look at, failures as exit codes.

Exit codes: 0 it was done; 1 it was not (nothing found, the state does not allow it, the database
did not answer, the person said no); 2 the command cannot be carried out as written.
"""

from __future__ import annotations

import getpass
import importlib
import logging
import os
import socket
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, TypeAlias

import typer
from rich.console import Console

from replayfloor.core.errors import IdempotencyError, UsageError

out = Console(highlight=False, markup=False, emoji=False)
err = Console(highlight=False, markup=False, emoji=False, stderr=True)

NOT_DONE, WRONG_COMMAND = 1, 2

Url: TypeAlias = Annotated[
    str, typer.Argument(help="postgresql://user@host/database or sqlite:///path", metavar="URL")
]
IdText: TypeAlias = Annotated[
    str, typer.Argument(help="32 hex digits, or at least the first 8.", metavar="ID")
]
By: TypeAlias = Annotated[
    str | None, typer.Option(help="Who does this, for the audit trail. Default: user@host.")
]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


def say(text: str) -> None:
    """Print a line of our own to stdout, in one piece however long it is."""
    out.print(text, soft_wrap=True)


def complain(text: str) -> None:
    """Print a line to stderr, made safe: what it repeats may come from outside."""
    err.print(plain(text), soft_wrap=True)


def plain(text: str) -> str:
    """Escape every character that is not printable.

    Stored data may come from anybody who can send a request. Raw, an escape sequence in it would
    be obeyed by the terminal of whoever looks at it.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def as_lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table in columns, one line a row, nothing cut off: lines are for grep too."""
    table = [header, *rows]
    widths = [max(len(row[at]) for row in table) for at in range(len(header))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]


def moment(time: datetime) -> str:
    """Return a time in UTC, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%SZ")


@contextmanager
def failures_as_exit_codes() -> Generator[None]:
    """End the command with a message and an exit code instead of a traceback."""
    try:
        yield
    except UsageError as error:
        complain(str(error))
        raise typer.Exit(WRONG_COMMAND) from None
    except IdempotencyError as error:
        complain(str(error))
        raise typer.Exit(NOT_DONE) from None


def person(by: str | None) -> str:
    """Return who is at the keyboard, as far as this machine knows."""
    if by:
        return by
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        # A container may run under a number that has no name.
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def confirm(question: str, *, yes: bool) -> None:
    """Go on only if the person agrees."""
    if not yes and not typer.confirm(question):
        complain("Nothing was changed.")
        raise typer.Exit(NOT_DONE)


def load_object(spec: str) -> object:
    """Return what `module:attribute` names; modules in the current folder are found too.

    Raises UsageError if there is no such thing. What the module itself raises passes through.
    """
    module_name, colon, attribute = spec.partition(":")
    if not (module_name and colon and attribute):
        raise UsageError(f"{spec!r}: expected module:attribute, such as payments.ops:reconciler")
    # As uvicorn and gunicorn do: a command that was installed looks in its own folder only.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: object = importlib.import_module(module_name)
        for name in attribute.split("."):
            found = getattr(found, name)
    except ModuleNotFoundError as error:
        raise UsageError(f"{spec}: there is no module {error.name!r}") from error
    except AttributeError as error:
        raise UsageError(f"{spec}: {error}") from error
    return found


def start_log() -> None:
    """Let what the package logs reach stderr, with the time."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
