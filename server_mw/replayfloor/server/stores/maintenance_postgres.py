"""The maintenance of receipts in Postgres: one connection a call, statements, rows as values.

What is done, and in which order, is in the database: `replayfloor.maintain_v1`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TypeAlias, cast

import psycopg

from replayfloor.core.errors import ConfigurationError, SchemaMissing, StoreUnavailable
from replayfloor.server.resources import load
from replayfloor.server.stores.maintenance import (
    Keeping,
    Layout,
    Outcome,
    Part,
    Run,
    Status,
    Step,
)
from replayfloor.server.stores.postgres_options import PostgresOptions
from replayfloor.server.stores.protocols import Row

CONNECT_S = 10
"""How long a connection is waited for: no request waits for a maintenance."""

SILENT_S = 60
"""After so long without a sign of life from the server's machine the run has failed: a run may take
as long as it takes, so there is no time for the whole of it."""

Connection: TypeAlias = psycopg.Connection[Row]


def maintain(
    url: str,
    keeping: Keeping,
    *,
    by: str,
    every_s: float = 0.0,
    accept_shorter: bool = False,
) -> Run:
    """Make partitions ahead and drop expired ones; see `replayfloor.maintain_v1`.

    Args:
        url: `postgresql://…` or any libpq connection string.
        keeping: how long receipts are kept.
        by: who does it, for the record.
        every_s: do nothing if the last run began within so many seconds.
        accept_shorter: also if receipts were kept for longer until now.

    Raises ConfigurationError, SchemaMissing, StoreUnavailable; other errors of the database pass.
    """
    values: dict[str, object] = {
        "retention_ms": keeping.retention_ms,
        "width_ms": keeping.width_ms,
        "ahead_ms": keeping.ahead_ms,
        "audit_ms": keeping.audit_ms,
        "by": by,
        "every_ms": round(every_s * 1000),
        "accept_shorter": accept_shorter,
    }
    with connected(url) as database:
        try:
            row = database.execute(load("sql/postgres/maintain.sql"), values).fetchone()
        except psycopg.Error as error:
            _note_failure(database, str(error.diag.message_primary or error))
            raise
        assert row is not None  # a procedure with an INOUT argument returns a row
        outcome = Outcome(str(row[0]))
        if outcome in (Outcome.BUSY, Outcome.NOT_DUE):
            return Run(outcome)
        last = _last(database)
    assert last is not None
    return last


def planned(url: str, keeping: Keeping) -> list[Step]:
    """Return what `maintain` would do now; changes nothing. Raises as it does."""
    values: dict[str, object] = {
        "retention_ms": keeping.retention_ms,
        "width_ms": keeping.width_ms,
        "ahead_ms": keeping.ahead_ms,
        "audit_ms": keeping.audit_ms,
    }
    with connected(url) as database:
        rows = database.execute(load("sql/postgres/maintain_plan.sql"), values).fetchall()
    return [_step(row) for row in rows]


def convert(url: str, keeping: Keeping) -> bool:
    """Turn a table without partitions into a partitioned one; say whether it is one now.

    Requests go on meanwhile. False: others hold locks; it can be repeated. Raises as `maintain`.
    """
    values = {"width_ms": keeping.width_ms, "ahead_ms": keeping.ahead_ms}
    with connected(url) as database:
        row = database.execute(load("sql/postgres/convert.sql"), values).fetchone()
    return row == (True,)


def status(url: str) -> Status:
    """Return what there is. Raises as `maintain` does."""
    with connected(url) as database:
        row = database.execute(load("sql/postgres/maintain_layout.sql")).fetchone()
        assert row is not None  # it returns one
        parts = database.execute(load("sql/postgres/maintain_status.sql")).fetchall()
        last = _last(database)
    partitioned, present, retention_ms, audit_ms = cast(
        "tuple[bool, datetime, int | None, int | None]", row
    )
    keeping = None
    if retention_ms is not None:
        keeping = Keeping(retention_ms / 1000, None if audit_ms is None else audit_ms / 1000)
    layout: Layout = "partitioned" if partitioned else "plain"
    return Status(layout, _utc(present), tuple(map(_part, parts)), keeping, last)


def _step(row: Row) -> Step:
    action, table, starts_at, ends_at = cast("tuple[str, str, datetime, datetime]", row)
    return Step(action, table, _utc(starts_at), _utc(ends_at))


def _part(row: Row) -> Part:
    table, name, starts_at, ends_at, rows, size, bounded = cast(
        "tuple[str, str, datetime | None, datetime | None, int, int, bool]", row
    )
    return Part(
        table,
        name,
        None if starts_at is None else _utc(starts_at),
        None if ends_at is None else _utc(ends_at),
        rows,
        size,
        bounded,
    )


def _last(database: Connection) -> Run | None:
    row = database.execute(load("sql/postgres/maintain_last.sql")).fetchone()
    if row is None:
        return None
    outcome, ran_at, took_ms, made, dropped, removed, proofs, by, detail, succeeded_at = cast(
        "tuple[str, datetime, int | None, int, int, int, int, str, str, datetime | None]", row
    )
    return Run(
        Outcome(outcome),
        _utc(ran_at),
        (took_ms or 0) / 1000,
        made,
        dropped,
        removed,
        proofs,
        by,
        detail,
        None if succeeded_at is None else _utc(succeeded_at),
    )


def _note_failure(database: Connection, detail: str) -> None:
    # Whoever asks for the status later is to find out; whoever waits now gets the error itself.
    with suppress(psycopg.Error):
        database.execute(load("sql/postgres/maintain_failed.sql"), {"detail": detail})


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)


@contextmanager
def connected(url: str) -> Generator[Connection]:
    """Give a connection on which each statement is a transaction of its own."""
    options = PostgresOptions.check(url, pool_connections=1, handler_connections=1, operation_s=1)
    try:
        # Not prepared: a pooler in front would not know them the next time.
        database: Connection = psycopg.connect(
            options.conninfo,
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=CONNECT_S,
            keepalives_idle=SILENT_S // 2,
            tcp_user_timeout=SILENT_S * 1000,
        )
    except psycopg.OperationalError as error:
        raise StoreUnavailable(f"no connection to Postgres: {error}", performed=False) from error
    with database, _errors_by_whose_fault_it_is(options.advice):
        yield database


@contextmanager
def _errors_by_whose_fault_it_is(advice: str) -> Generator[None]:
    try:
        yield
    except (
        psycopg.errors.UndefinedTable,
        psycopg.errors.UndefinedFunction,
        psycopg.errors.InvalidSchemaName,
    ) as error:
        raise SchemaMissing(f"the database lacks tables or functions; {advice}") from error
    except psycopg.errors.InvalidParameterValue as error:
        hint = f". {error.diag.message_hint}" if error.diag.message_hint else ""
        raise ConfigurationError(f"{error.diag.message_primary}{hint}") from error
    except psycopg.errors.InsufficientPrivilege as error:
        message = f"the database does not let this user do that: {error.diag.message_primary}"
        raise ConfigurationError(message) from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise StoreUnavailable(f"Postgres did not answer: {error}") from error
