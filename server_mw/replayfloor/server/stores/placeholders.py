"""The parameters of a statement in the other way that libraries write them. No I/O."""

from __future__ import annotations

import re
from functools import cache
from typing import LiteralString

_PERCENT = re.compile(r"%\((\w+)\)s")


@cache
def with_colons(statement: LiteralString) -> LiteralString:
    """Return a statement of sql/postgres with `:name` for `%(name)s`, as SQLAlchemy takes it.

    The statements of sql/sqlite are written like that. The text stays as literal as it was: no
    value gets into it.
    """
    return _PERCENT.sub(r":\1", statement)  # pyright: ignore[reportReturnType]
