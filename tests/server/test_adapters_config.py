"""Which engines the adapters take, where the receipts are then, and what importing them needs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Engine, create_engine
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from replayfloor.core.errors import ConfigurationError, UsageError
from replayfloor.server import ActiveClaim, AsyncActiveClaim
from replayfloor.server.adapters.libpq import conninfo
from replayfloor.server.adapters.sqlalchemy import SQLAlchemyReceipts, session
from replayfloor.server.adapters.sqlalchemy_async import AsyncSQLAlchemyReceipts, async_session
from replayfloor.server.adapters.sqlalchemy_common import postgres_conninfo
from replayfloor.server.stores.sqlite import SQLiteReceipts

ELSEWHERE = SimpleNamespace(paramstyle="pyformat", Error=Exception)
"""Passes for the driver of a database that is not installed here."""


def engine(url: str, **options: object) -> Engine:
    return cast("Callable[..., Engine]", create_engine)(url, **options)


def async_engine(url: str) -> AsyncEngine:
    return create_async_engine(url)


BLOCKING_USABLE = "postgresql.psycopg, postgresql.psycopg2, sqlite.pysqlite"
ASYNC_USABLE = "postgresql.psycopg, postgresql.asyncpg"

BLOCKING = [
    (lambda: engine("mysql+mysqldb://h/d", module=ELSEWHERE), BLOCKING_USABLE),
    (lambda: engine("postgresql+asyncpg://h/d"), BLOCKING_USABLE),
    (lambda: engine("sqlite+aiosqlite:///shop.db"), BLOCKING_USABLE),
    (lambda: engine("sqlite://"), "need a file"),
    (lambda: engine("sqlite:///:memory:"), "need a file"),
    (lambda: engine("sqlite:///file:shop.db?uri=true"), "need a file"),
    (lambda: async_engine("postgresql+asyncpg://h/d"), "there is AsyncSQLAlchemyReceipts"),
    (lambda: "postgresql://h/d", "expected an Engine"),
]
ASYNCHRONOUS = [
    (lambda: async_engine("sqlite+aiosqlite:///shop.db"), ASYNC_USABLE),
    (lambda: engine("postgresql+psycopg://h/d"), "there is SQLAlchemyReceipts"),
]


@pytest.mark.parametrize(("make", "advice"), BLOCKING)
def test_an_engine_that_cannot_be_used_is_refused_with_advice(
    make: Callable[[], Engine], advice: str
) -> None:
    with pytest.raises(ConfigurationError, match=advice):
        SQLAlchemyReceipts(make())


@pytest.mark.parametrize(("make", "advice"), ASYNCHRONOUS)
def test_an_asynchronous_engine_that_cannot_be_used_is_refused_with_advice(
    make: Callable[[], AsyncEngine], advice: str
) -> None:
    with pytest.raises(ConfigurationError, match=advice):
        AsyncSQLAlchemyReceipts(make())


def test_receipts_that_are_named_are_the_ones(tmp_path: Path) -> None:
    """For an engine that connects by other means than its URL says."""
    uri = engine(f"sqlite:///file:{tmp_path}/shop.db?uri=true")
    named = SQLAlchemyReceipts(uri, SQLiteReceipts(tmp_path / "shop.db"))
    named.open()
    named.close()

    assert (tmp_path / "shop.db").exists()


CONNINFO = [
    (
        "postgresql+psycopg://me:a%20b%27%2F@h:6000/d?sslmode=require&options=-csearch_path%3Da",
        "user=me password='a b\\'/' host=h port=6000 dbname=d sslmode=require"
        " options=-csearch_path=a",
    ),
    ("postgresql+psycopg2://me@/d?host=/run/pg", "user=me dbname=d host=/run/pg"),
    ("postgresql+psycopg://me@/d?host=a:1&host=b:2", "user=me dbname=d host=a,b port=1,2"),
    ("postgresql+psycopg://h/d?prepare_threshold=0", "host=h dbname=d"),
    ("postgresql+asyncpg://me@h/d?ssl=verify-full", "user=me host=h dbname=d sslmode=verify-full"),
    ("postgresql+asyncpg://me@/d?host=a:1&host=b:2", "user=me dbname=d host=a,b port=1,2"),
    ("postgresql+asyncpg://h/d?prepared_statement_cache_size=0", "host=h dbname=d"),
]


@pytest.mark.parametrize(("url", "expected"), CONNINFO)
def test_the_receipts_connect_as_the_engine_does(url: str, expected: str) -> None:
    made = engine(url)
    own = conninfo_to_dict(postgres_conninfo(made.dialect, made.url))
    own.pop("client_encoding", None)

    assert own == conninfo_to_dict(expected)


def test_what_only_a_driver_knows_is_left_out() -> None:
    options = {"dbname": "d", "port": 5433, "user": None, "cursor_factory": object}

    assert conninfo_to_dict(conninfo(options)) == {"dbname": "d", "port": "5433"}


class ElsewhereClaim:
    """A claim of receipts that are no SQLAlchemy's."""

    connection = object()


def test_a_session_needs_receipts_of_sqlalchemy() -> None:
    with pytest.raises(UsageError, match="SQLAlchemyReceipts"):
        session(cast("ActiveClaim", ElsewhereClaim()))
    with pytest.raises(UsageError, match="AsyncSQLAlchemyReceipts"):
        async_session(cast("AsyncActiveClaim", ElsewhereClaim()))


# -- imports --------------------------------------------------------------------------------------


def run_without(*missing: str, script: str) -> None:
    """Run a script in an interpreter in which these are not installed."""
    hide = "".join(f"sys.modules[{name!r}] = None; " for name in missing)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {hide}\n{script}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


SERVER_ALONE = """
from replayfloor.server import IdempotencyMiddleware, WSGIIdempotencyMiddleware
from replayfloor.server.stores import open_async_receipts, open_receipts
import replayfloor.server.adapters
for made in (open_receipts("sqlite:///a.db"), open_async_receipts("sqlite:///a.db")):
    assert made
assert not {"sqlalchemy", "django"} & set(sys.modules)
"""


def test_the_server_needs_neither_framework() -> None:
    run_without(script=SERVER_ALONE)


@pytest.mark.parametrize(
    ("module", "missing"),
    [("sqlalchemy", "sqlalchemy"), ("sqlalchemy_async", "sqlalchemy"), ("django", "django")],
)
def test_an_adapter_without_its_framework_is_an_import_error(module: str, missing: str) -> None:
    script = f"""
import replayfloor.server
try:
    import replayfloor.server.adapters.{module}
except ImportError as error:
    assert (error.name or "").startswith({missing!r}), error
else:
    raise AssertionError("imported")
"""
    run_without(missing, script=script)


def test_the_adapters_need_psycopg_for_postgres_only() -> None:
    script = """
from sqlalchemy import create_engine
from replayfloor.core.errors import ConfigurationError
from replayfloor.server.adapters.sqlalchemy import SQLAlchemyReceipts
SQLAlchemyReceipts(create_engine("sqlite:///shop.db"))
try:
    SQLAlchemyReceipts(create_engine("postgresql+psycopg2://h/d"))
except ConfigurationError as error:
    assert "psycopg" in str(error)
else:
    raise AssertionError("made")
"""
    run_without("psycopg", script=script)
