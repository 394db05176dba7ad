"""The options of `replayfloor conform`, and how what they say is read. Nothing is run here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from replayfloor.conform.shell import TOGETHER_MAX
from replayfloor.conform.target import Kind
from replayfloor.core.errors import UsageError
from replayfloor.core.message import Headers

KINDS: Final = ", ".join(Kind)

UrlArgument: TypeAlias = Annotated[
    str, typer.Argument(help="Where the operation is; no other server is asked.")
]
MethodOption: TypeAlias = Annotated[str, typer.Option("--method", help="POST or PATCH.")]
PathOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--path",
        help=f"NAME=PATH of the same server, for answers of a kind; NAME is one of {KINDS}."
        " Without NAME: the path of the operation. May be repeated.",
    ),
]
HeaderOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--header", help="'Name: value', for every request. May be repeated."),
]
BodyOption: TypeAlias = Annotated[
    str,
    typer.Option("--body", help="The payload, or a file; {id} is new for each operation."),
]
OtherOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--other-body", help="Another valid payload. Default: made of the first."),
]
ContentTypeOption: TypeAlias = Annotated[str, typer.Option("--content-type")]
SecondOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--second-principal-header", help="What another principal sends instead."),
]
CountOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--count-url",
        help="Where the same server tells how many effects it has had: PATH#/json/pointer. "
        "With {id}, those of one operation.",
    ),
]
OriginOption: TypeAlias = Annotated[
    str,
    typer.Option("--origin", help="The origin of a page that may ask: https://shop.example"),
]
TogetherOption: TypeAlias = Annotated[
    int, typer.Option("--concurrency", min=2, max=TOGETHER_MAX, help="Duplicates at once.")
]
BareOption: TypeAlias = Annotated[
    bool, typer.Option("--bare-keys", help="Send keys without double quotes.")
]
OnlyOption: TypeAlias = Annotated[
    str, typer.Option("--only", help="Ids of checks or rules, separated by commas.")
]
TimeoutOption: TypeAlias = Annotated[
    float, typer.Option("--timeout", min=0.1, help="Seconds for one answer.")
]
TimeLimitOption: TypeAlias = Annotated[
    float, typer.Option("--time-limit", min=1.0, help="Seconds for all checks.")
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="For a program.")]
JUnitOption: TypeAlias = Annotated[
    Path | None, typer.Option("--junit", help="Also write a JUnit file.")
]


def read_paths(given: list[str] | None) -> tuple[str | None, dict[Kind, str]]:
    """Return the path of the operation, if one is given, and those of answers of a kind.

    Raises UsageError for a kind that is none.
    """
    main: str | None = None
    kinds: dict[Kind, str] = {}
    for each in given or []:
        name, mark, path = each.partition("=")
        if each.startswith("/"):
            main = each
        elif mark and name in tuple(Kind) and path.startswith("/"):
            kinds[Kind(name)] = path
        else:
            raise UsageError(f"--path is NAME=/path, NAME one of {KINDS}, or /path: {each}")
    return main, kinds


def path_of(url: str) -> str:
    """Return the path and the query of an address."""
    _, _, rest = url.partition("://")
    _, slash, path = rest.partition("/")
    return slash + path.partition("#")[0] if slash else "/"


def read_lines(given: list[str] | None) -> Headers:
    """Return header lines. Raises UsageError, without the value, for what is none."""
    lines: Headers = ()
    for each in given or []:
        name, mark, value = each.partition(":")
        if not mark or not name.strip():
            raise UsageError("a header is 'Name: value'")
        lines += ((name.strip().encode("latin-1"), value.strip().encode("latin-1")),)
    return lines


def read_payload(given: str) -> bytes:
    """Return a payload: JSON, or of a file (`@FILE` or its name), or the text as it stands.

    Raises OSError for a file that cannot be read.
    """
    try:
        json.loads(given)
    except ValueError:
        file = Path(given.removeprefix("@"))
        return file.read_bytes() if given.startswith("@") or file.is_file() else given.encode()
    return given.encode()
