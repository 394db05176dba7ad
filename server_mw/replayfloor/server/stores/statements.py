"""Looks at a handler's SQL, as far as the receipt's transaction has to be protected from it.

Nothing is parsed but what hides the beginning of a statement: quotes, comments, semicolons.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from replayfloor.core.errors import UsageError

_CONTROL = re.compile(
    r"(?:begin|start\s+transaction|commit|end|abort|prepare\s+transaction"
    r"|rollback(?!\s+(?:(?:work|transaction)\s+)?to\b))\b",
    re.IGNORECASE,
)
"""Statements that begin or end a transaction. Savepoints are the handler's own."""

_WORTH_A_LOOK = ("begin", "start", "commit", "end", "abort", "prepare", "rollback")
"""Most statements hold none of the words, and are not looked at any closer."""

_POSTGRES_TOKEN = re.compile(
    r"""
      --[^\r\n]*                                     # a comment to the end of the line
    | /\*                                            # one that may hold further ones
    | (?<![\w$])[eE]'(?:[^'\\]|\\.|'')*(?:'|\Z)      # a string with escapes
    | '(?:[^']|'')*(?:'|\Z)                          # a string
    | "(?:[^"]|"")*(?:"|\Z)                          # a name
    | (?<![\w$])\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?(?:\$(?P=tag)\$|\Z)  # a string in dollars
    | ;
    """,
    re.VERBOSE | re.DOTALL,
)

_SQLITE_TOKEN = re.compile(
    r"""
      --[^\n]*
    | /\*.*?(?:\*/|\Z)                               # one that ends at the first end
    | '(?:[^']|'')*(?:'|\Z)
    | "(?:[^"]|"")*(?:"|\Z)
    | `(?:[^`]|``)*(?:`|\Z)
    | \[[^\]]*(?:\]|\Z)
    | ;
    """,
    re.VERBOSE | re.DOTALL,
)

_BLANKS = " \t\n\r\f\v\ufeff"
"""What the two databases skip; SQLite also a byte order mark."""

_COMMENT_EDGE = re.compile(r"/\*|\*/")


def refuse_postgres_control(query: str) -> None:
    """Raise UsageError if one of the statements would begin or end the receipt's transaction.

    The handler's writes would stand without a receipt then, and a retry would write them again.
    """
    _refuse(query, _POSTGRES_TOKEN)


def refuse_sqlite_control(query: str) -> None:
    """See `refuse_postgres_control`; SQLite's comments, for one, do not nest."""
    _refuse(query, _SQLITE_TOKEN)


def refuse_control(database: str, query: str) -> None:
    """Do it by the name that SQLAlchemy and Django have for a database."""
    refuse_sqlite_control(query) if database == "sqlite" else refuse_postgres_control(query)


def _refuse(query: str, token: re.Pattern[str]) -> None:
    lowered = query.lower()
    if not any(word in lowered for word in _WORTH_A_LOOK):
        return
    if any(_CONTROL.match(statement) for statement in _statements(query, token)):
        raise UsageError(
            "the transaction of the receipt is ended by the middleware, with the receipt; "
            "raise an exception to have it rolled back"
        )


def _statements(query: str, token: re.Pattern[str]) -> Iterator[str]:
    """Return the statements, with a blank in the place of each comment, without leading blanks."""
    statement, at = "", 0
    while found := token.search(query, at):
        statement += query[at : found.start()]
        text, at = found[0], found.end()
        if text == "/*":
            at = _end_of_nested_comment(query, at)
        if text == ";":
            yield statement.lstrip(_BLANKS)
            statement = ""
        else:
            statement += " " if text.startswith(("--", "/*")) else text
    yield (statement + query[at:]).lstrip(_BLANKS)


def _end_of_nested_comment(query: str, at: int) -> int:
    depth = 1
    while depth and (edge := _COMMENT_EDGE.search(query, at)):
        depth += 1 if edge[0] == "/*" else -1
        at = edge.end()
    return at if not depth else len(query)
