"""What the client side's commands share: safe output, failures as exit codes, common arguments.

Exit codes: 0 it was done; 1 it was not (nothing found, the state does not allow it, the journal
did not answer, the outcome is still open); 2 the command cannot be carried out as written.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, NoReturn, TypeAlias

import typer
from rich.console import Console

from replayfloor.core.errors import IdempotencyError, UsageError

out = Console(highlight=False, markup=False, emoji=False)
err = Console(highlight=False, markup=False, emoji=False, stderr=True)

NOT_DONE, WRONG_COMMAND = 1, 2

Url: TypeAlias = Annotated[
    str,
    typer.Argument(help="The journal: sqlite:///path or postgresql://user@host/db", metavar="URL"),
]
OperationId: TypeAlias = Annotated[str, typer.Argument(metavar="OPERATION_ID")]
Namespace: TypeAlias = Annotated[
    str | None, typer.Option(help="Look there only, such as stripe-v1/acct_1/live.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]


# -- output ---------------------------------------------------------------------------------------


def say(text: str) -> None:
    """Print a line of our own to stdout, in one piece however long it is."""
    out.print(text, soft_wrap=True)


def complain(text: str) -> None:
    """Print a line to stderr, made safe: what it repeats may come from outside."""
    err.print(plain(text), soft_wrap=True)


def refuse(text: str) -> NoReturn:
    """End the command: it was not done, and this is why."""
    complain(text)
    raise typer.Exit(NOT_DONE)


def plain(text: str) -> str:
    """Escape every character that is not printable.

    An id, or evidence, may come from outside. Raw, an escape sequence in it would be obeyed by the
    terminal of whoever looks at it.
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
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def span(seconds: float) -> str:
    """Return a length of time in its two largest units, rounded down."""
    left, parts = int(seconds), list[str]()
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or parts or unit == "s":
            parts.append(f"{count} {unit}")
        if len(parts) == 2:
            break
    return " ".join(part for at, part in enumerate(parts) if at == 0 or not part.startswith("0 "))


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


def load_object(spec: str) -> object:
    """Return what `module:attribute` names; modules in the current folder are found too.

    Raises UsageError if there is no such thing. What the module itself raises passes through.
    """
    module_name, colon, attribute = spec.partition(":")
    if not (module_name and colon and attribute):
        raise UsageError(f"{spec!r}: expected module:attribute, such as payments.ops:resend")
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
