"""What the commands of this package share: output that is safe to look at, failures as exit codes.

Exit codes: 0 nothing is wrong; 1 something is (a policy that is refused, a figure that is old, a
retention that shortens); 2 the command, or the file, cannot be read as written.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Annotated, Final, TypeAlias

import typer
from rich.console import Console
from rich.text import Text

from replayfloor.core.errors import UsageError
from replayfloor.retention.picture import Ink, ink_for, printable
from replayfloor.retention.report import Json

out = Console(highlight=False, markup=False, emoji=False)
err = Console(highlight=False, markup=False, emoji=False, stderr=True)

WRONG, WRONG_COMMAND = 1, 2

STYLES: Final = ((r"[█#]{2,}", "green"), (r"[░.]{5,}", "red"), (r"^ *(REFUSED|NO [A-Z ]+):", "red"))
"""What is coloured, where there is colour: nothing is told by colour alone."""

FileOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--file", help="The file, or a folder. Default: looked for from here upwards."),
]
NameOption: TypeAlias = Annotated[
    str | None, typer.Option("--name", help="Only this policy, such as hooks or inbound.hooks.")
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="For a program.")]


def ink() -> Ink:
    """Return the characters that stdout can show."""
    return ink_for(out.encoding)


def say(lines: Iterable[str]) -> None:
    """Print lines to stdout, each in one piece however long it is."""
    for line in lines:
        text = Text(printable(line, out.encoding))
        for pattern, style in STYLES:
            text.highlight_regex(pattern, style)
        out.print(text, soft_wrap=True)


def complain(text: str) -> None:
    """Print a line to stderr, made safe."""
    err.print(printable(text, err.encoding), soft_wrap=True)


def say_json(value: Json) -> None:
    """Print a value to stdout as one JSON document."""
    # Everything beyond ASCII is escaped: no terminal's encoding can break it.
    out.print(json.dumps(value, indent=2), soft_wrap=True)


@contextmanager
def failures_as_exit_codes() -> Generator[None]:
    """End the command with a message and an exit code instead of a traceback."""
    try:
        yield
    except UsageError as error:
        complain(str(error))
        raise typer.Exit(WRONG_COMMAND) from None
