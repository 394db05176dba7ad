"""Every exception of the project, by whose fault it is. Refusals to an HTTP client are not here.

    IdempotencyError
    ├── UsageError (also ValueError)     the programmer's or the caller's: nothing was sent or run
    │   ├── InvalidKey                   a key, or the header field that should carry one
    │   └── ConfigurationError           options that contradict each other or cannot be met
    ├── SchemaMissing                    the operator's: the database was not migrated
    ├── StoreUnavailable                 the infrastructure's: a store did not answer in time
    ├── ReceiptCorrupt                   the data's: a stored receipt cannot be decoded
    └── ClaimLost                        nobody's: another execution holds the claim by now

The client adds its own branch, which also inherits from httpx (see `replayfloor.client`).
A refusal that an HTTP client gets to see is a value, `replayfloor.core.problem.Problem`.
"""

from __future__ import annotations

from typing import Literal


class IdempotencyError(Exception):
    """Base of every exception that replayfloor raises on purpose."""


class UsageError(IdempotencyError, ValueError):
    """The call cannot be carried out as written; nothing was sent and nothing was executed."""


class InvalidKey(UsageError):
    """The text is not a usable idempotency key (draft -07, section 2.1; RFC 9651, 3.3.3)."""


class ConfigurationError(UsageError):
    """An option has a value, or a combination of values, that cannot be honoured."""


class SchemaMissing(IdempotencyError):
    """The database lacks tables or functions of this version: run `replayfloor migrate`."""


class StoreUnavailable(IdempotencyError):
    """A store did not answer in time.

    `performed` says whether the operation may have been carried out all the same: False when no
    connection was had, None ("not known") when the answer is what was lost.
    """

    def __init__(self, message: str, *, performed: Literal[False] | None = None) -> None:
        """Take a message for the operator, and what is known of the operation."""
        super().__init__(message)
        self.performed = performed


class ReceiptCorrupt(IdempotencyError):
    """A stored receipt is truncated, altered, or of a version this release does not read."""


class ClaimLost(IdempotencyError):
    """The claim's lease ran out and another execution took it over; this one must not commit."""
