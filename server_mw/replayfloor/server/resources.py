"""Reads the SQL and Lua that ship beside this package. Nothing is put together from strings."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import LiteralString


@cache
def load(name: str) -> LiteralString:
    """Return the text of a file below this package, such as "sql/postgres/claim.sql".

    LiteralString is what psycopg wants: the text is part of the distribution, as literal as if it
    stood in the source, and never holds a value from outside.
    """
    resource = files("replayfloor.server").joinpath(name)
    text = resource.read_text(encoding="utf-8")
    return text  # pyright: ignore[reportReturnType]


@cache
def migrations() -> tuple[str, ...]:
    """Return the names of the Postgres migrations in the order they are applied."""
    folder = files("replayfloor.server").joinpath("sql/postgres")
    names = (entry.name for entry in folder.iterdir())
    return tuple(sorted(name for name in names if name[:4].isdigit()))
