"""How a journal's SQLite file is opened: durable, ours or new, and with the schema of this release.

Nothing here knows of threads, forks or statements on entries.
"""

from __future__ import annotations

import sqlite3
import time
from typing import Final

from replayfloor.core.errors import ConfigurationError

APPLICATION_ID: Final = 0x52504C46
"""Marks a file as ours ("RPLF"), so that another program's file is not taken for one."""

SCHEMA_VERSION: Final = 2

BUSY_TIMEOUT_S: Final = 5.0
"""How long a write waits for another process. A write takes one flush of the disk, some ms."""

_WAL_RETRY_S: Final = 0.01

FULL: Final = "pragma synchronous = full"
"""A commit waits until the write-ahead log is on the disk, with all that is in it."""


def open_journal(path: str, schema: str) -> sqlite3.Connection:
    """Open the file, or make it. Raises ConfigurationError for anybody else's, sqlite3.Error."""
    # Autocommit: a statement that fails, or whose caller is cancelled, leaves no transaction open.
    connection = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    try:
        # Before anything is written: another program's file is left as it is.
        ours = _is_ours(connection, path)
        _use_wal(connection)
        connection.executescript(FULL)
        if not ours:
            connection.executescript(schema)
            _is_ours(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection) -> None:
    # The switch fails at once, whatever the busy timeout, when several processes open the file.
    give_up_at = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("pragma journal_mode = wal").fetchall()
            return
        except sqlite3.OperationalError:
            if time.monotonic() >= give_up_at:
                raise
            time.sleep(_WAL_RETRY_S)


def _is_ours(connection: sqlite3.Connection, path: str) -> bool:
    """Return False for an empty file; raises ConfigurationError for anybody else's."""
    application = _number(connection, "pragma application_id")
    version = _number(connection, "pragma user_version")
    if (application, version) == (APPLICATION_ID, SCHEMA_VERSION):
        return True
    if application == APPLICATION_ID:
        raise ConfigurationError(
            f"the journal {path} has schema version {version}, this release knows "
            f"{SCHEMA_VERSION}: {_advice(version)}"
        )
    if application or version or _number(connection, "select count(*) from sqlite_master"):
        raise ConfigurationError(f"{path} is a SQLite database, but not a journal of replayfloor")
    return False


def _advice(version: int) -> str:
    if version > SCHEMA_VERSION:
        return "use the release that wrote it, or a newer one"
    # No release wrote an older one, so that none is brought up to date.
    return (
        "reconcile what is pending in it, then move the file (with its -wal and -shm) away; "
        "a new one is made in its place"
    )


def _number(connection: sqlite3.Connection, statement: str) -> int:
    (value,) = connection.execute(statement).fetchone()
    return int(value)
