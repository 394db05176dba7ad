"""Making the Postgres journal's schema ahead of its first use, with a role that may make one.

The driver is imported when it is needed, so that the command line works without it.
"""

from __future__ import annotations

from time import monotonic
from typing import Final

from replayfloor.client.journal.postgres_driver import driver_needed

CREATE_S: Final = 30.0
"""How long making the schema may take, connecting and waiting for others included: a person or a
deployment waits, not a request."""


def create_schema(url: str) -> bool:
    """Make the schema `replayfloor_client` of a Postgres database; safe to repeat.

    Returns whether this call has made it: False if it stood already. Raises ConfigurationError for
    a URL that is none, without the driver, for a role that may not, and for a schema of that name
    that is not a journal of this release; StoreUnavailable if the database does not answer.
    """
    with driver_needed():
        from replayfloor.client.journal.postgres_link import connected, conninfo_of
        from replayfloor.client.journal.postgres_tables import ensure_schema
    with connected(conninfo_of(url), monotonic() + CREATE_S) as connection:
        return ensure_schema(connection)
