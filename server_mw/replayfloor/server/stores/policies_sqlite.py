"""The noted policies of a SQLite file, inside whatever transaction is open; it blocks."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import cast

from replayfloor.server.resources import load
from replayfloor.server.stores.policies import (
    Declaration,
    Declared,
    NotedPolicy,
    PolicyState,
    declaration_parameters,
    state_of,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def declare_policy(
    database: sqlite3.Connection, *, declaration: Declaration, now_ms: Callable[[], int]
) -> Declared:
    """Note a policy; the whole runs under the write lock, so look and write see one state."""
    database.execute(load("sql/sqlite/policies_table.sql"))
    parameters = {**declaration_parameters(declaration), "now_ms": now_ms()}
    row = database.execute(load("sql/sqlite/policy_find.sql"), parameters).fetchone()
    before = None if row is None else _noted((declaration.namespace, *row))
    state = state_of(declaration, before)
    if state not in (PolicyState.SAME, PolicyState.REFUSED):
        database.execute(load("sql/sqlite/policy_note.sql"), parameters)
    return Declared(state, before)


def read_policies(database: sqlite3.Connection) -> list[NotedPolicy]:
    """Return the noted policies of all namespaces; none in a file that was never told of one."""
    if database.execute(load("sql/sqlite/policies_there.sql")).fetchone() is None:
        return []
    return [_noted(row) for row in database.execute(load("sql/sqlite/read_policies.sql"))]


def _noted(row: tuple[object, ...]) -> NotedPolicy:
    namespace, digest, retention_s, text, noted_ms = cast("tuple[str, str, float, str, int]", row)
    noted_at = EPOCH + timedelta(milliseconds=noted_ms)
    return NotedPolicy(namespace, digest, retention_s, text, noted_at)
