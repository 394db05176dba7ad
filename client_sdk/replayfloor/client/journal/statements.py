"""Reads the journals' statements, which ship beside this module. No value gets into a text."""

from __future__ import annotations

from importlib.resources import files

from replayfloor.client.journal.rows import COLUMNS

_VALUES = ", ".join(f"%({name})s" for name in COLUMNS.split(", "))


def sqlite_statement(name: str) -> str:
    """Return a statement of `sql/`."""
    return _text("sql", name)


def postgres_statement(name: str) -> bytes:
    """Return a statement of `sql_postgres/`: as bytes, which psycopg takes from anywhere."""
    return _text("sql_postgres", name).replace("/* values */", _VALUES).encode()


def _text(folder: str, name: str) -> str:
    resource = files("replayfloor.client.journal").joinpath(folder, f"{name}.sql")
    return resource.read_text("utf-8").replace("/* columns */", COLUMNS)
