"""Looks at a handler's SQL, as far as the receipt's transaction has to be protected from it."""

from __future__ import annotations

import re

from replayfloor.core.errors import UsageError

_LEADING = re.compile(r"(?:\s|;|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)
"""White space, empty statements and comments ahead of the first word."""

_CONTROL = re.compile(
    r"(?:begin|start\s+transaction|commit|end|abort|prepare\s+transaction"
    r"|rollback(?!\s+(?:(?:work|transaction)\s+)?to\b))\b",
    re.IGNORECASE,
)
"""Statements that begin or end a transaction. Savepoints are the handler's own."""


def refuse_transaction_control(query: str) -> None:
    """Raise UsageError if a statement would begin or end the receipt's transaction.

    The handler's writes would stand without a receipt then, and a retry would write them again.
    """
    leading = _LEADING.match(query)
    if _CONTROL.match(query, leading.end() if leading else 0):
        raise UsageError(
            "the transaction of the receipt is ended by the middleware, with the receipt; "
            "raise an exception to have it rolled back"
        )
