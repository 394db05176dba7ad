"""The parameters of a statement in the two ways that libraries write them. No I/O.

A statement with other placeholders is as literal as it was: no value gets into its text.
"""

from __future__ import annotations

import re
from functools import cache
from typing import LiteralString

_PERCENT = re.compile(r"%\((\w+)\)s")
_COLON = re.compile(r"(?<![\w:]):(\w+)")


@cache
def with_colons(statement: LiteralString) -> LiteralString:
    """Return a statement of sql/postgres with `:name` for `%(name)s`, as SQLAlchemy takes it."""
    return _PERCENT.sub(r":\1", statement)  # pyright: ignore[reportReturnType]


@cache
def with_percents(statement: LiteralString) -> LiteralString:
    """Return a statement of sql/sqlite with `%(name)s` for `:name`, as Django takes it."""
    return _COLON.sub(r"%(\1)s", statement)  # pyright: ignore[reportReturnType]
