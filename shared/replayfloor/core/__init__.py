"""The pure core: values, flows, parsers. No I/O, clock, randomness or logging lives here.

Both sides import it; it imports neither. Its names are for people who write a store or a shell;
users of the middleware and of the transport find theirs in `replayfloor.server` and
`replayfloor.client`.
"""

from replayfloor.core.errors import (
    ClaimLost,
    ConfigurationError,
    IdempotencyError,
    InvalidKey,
    ReceiptCorrupt,
    SchemaMissing,
    StoreUnavailable,
    UsageError,
)
from replayfloor.core.key import KeyRules, parse_key, write_key
from replayfloor.core.message import Response
from replayfloor.core.problem import Problem, ProblemKind
from replayfloor.core.receipt import Receipt

__all__ = [
    "ClaimLost",
    "ConfigurationError",
    "IdempotencyError",
    "InvalidKey",
    "KeyRules",
    "Problem",
    "ProblemKind",
    "Receipt",
    "ReceiptCorrupt",
    "Response",
    "SchemaMissing",
    "StoreUnavailable",
    "UsageError",
    "parse_key",
    "write_key",
]
