"""The options of the Postgres receipts, checked, in the forms that psycopg and libpq want. No I/O.

The protocol runs on connections of one pool, and each operation is one function call and one
commit. The handlers' transactions take theirs from a second pool: handlers that hold every
connection could otherwise keep the finishes, which would free them, from getting one. All are in
autocommit mode, so that a transaction is what was begun as one and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal, TypedDict

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from replayfloor.core.errors import ConfigurationError

POOL_CONNECTIONS = 10
"""Connections for the protocol. An operation holds one for a round trip, so ten carry thousands
of operations a second; Postgres allows 100 unless told otherwise, shared by all workers."""

LANES_FROM = 4
"""Connections of the protocol's pool from which on claims and finishes keep one each; two are left
then for renewals, and for whoever comes while a lane is in use. Of a larger pool, threads keep the
others."""

HANDLER_CONNECTIONS = 10
"""Connections for handlers' transactions: how many `atomic` handlers run at a time per process."""

OPERATION_S = 5.0
"""How long one operation may take before the store counts as unavailable, waiting for a connection
included: far above a slow commit, below the patience of common HTTP clients (10 s and more)."""

CONNECT_S_MIN = 2
"""libpq takes no shorter time for connecting."""

RECONNECT_S = 2.0
"""How long the pool itself keeps trying to connect before it leaves it to the next request. Its
pauses double; after a long outage a larger value would go on refusing when Postgres is back."""

REOPEN_PAUSE_S = 1.0
"""After a failed opening, requests are refused at once for this long."""


class PoolOptions(TypedDict):
    """What both pools of psycopg_pool, of either colour, are made with."""

    kwargs: dict[str, object]
    min_size: int
    max_size: int
    timeout: float
    reconnect_timeout: float
    open: Literal[False]


@dataclass(frozen=True, slots=True)
class PostgresOptions:
    """Where the receipts are, and what an operation may take."""

    conninfo: str
    pool_connections: int
    handler_connections: int
    operation_s: float

    @classmethod
    def check(
        cls, url: str, *, pool_connections: int, handler_connections: int, operation_s: float
    ) -> PostgresOptions:
        """Return the options, if they can be honoured. Raises ConfigurationError."""
        if pool_connections < 1 or handler_connections < 1 or operation_s <= 0:
            raise ConfigurationError("pool sizes and operation_s must be positive")
        return cls(conninfo_of(url), pool_connections, handler_connections, operation_s)

    @property
    def own_lanes(self) -> int:
        """How many connections of the protocol's pool threads may keep for themselves."""
        return max(0, self.pool_connections - LANES_FROM)

    @property
    def sizes(self) -> tuple[int, int]:
        """Connections of the protocol's pool, and of the handlers'."""
        return self.pool_connections, self.handler_connections

    @property
    def advice(self) -> str:
        """The command that makes the schema what it should be."""
        return "run: replayfloor migrate " + redacted(self.conninfo)

    def pool(self, max_size: int) -> PoolOptions:
        """Return what a pool of up to `max_size` connections is made with."""
        return {
            # No prepared statements: behind PgBouncer in transaction mode the next transaction
            # may meet another server connection. The functions' own plans are cached anyway.
            "kwargs": {
                "autocommit": True,
                "prepare_threshold": None,
                "connect_timeout": max(CONNECT_S_MIN, ceil(self.operation_s)),
            },
            "min_size": 0,
            "max_size": max_size,
            "timeout": self.operation_s,
            "reconnect_timeout": RECONNECT_S,
            "open": False,
        }


def conninfo_of(url: str) -> str:
    """Return the connection string of a URL. Raises ConfigurationError."""
    try:
        return make_conninfo(url, application_name="replayfloor")
    except psycopg.Error:
        # Without the cause: libpq repeats the text, which may hold a password.
        raise ConfigurationError(
            "not a valid Postgres URL or connection string: check its parts, and that special "
            "characters in a user name or password are percent-encoded"
        ) from None


def redacted(conninfo: str) -> str:
    """Return the connection string without its password, quoted for a shell."""
    parts = conninfo_to_dict(conninfo)
    shown = {
        name: value
        for name, value in parts.items()
        if "password" not in name and name != "application_name"
    }
    return f'"{make_conninfo("", **shown)}"'
