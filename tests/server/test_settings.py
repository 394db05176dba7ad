"""The constructor: what cannot be honoured is refused at once, helpfully, and without secrets."""

from __future__ import annotations

import math
from datetime import timedelta
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send

from replayfloor.core.errors import ConfigurationError
from replayfloor.server import IdempotencyMiddleware, Route
from replayfloor.server.stores.postgres_async import AsyncPostgresReceipts, redacted
from replayfloor.server.stores.sqlite_async import AsyncSQLiteReceipts
from replayfloor.server.stores.sqlite_work import path_of

SECRET = "s3cr3t-pa55"


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Never called: nothing is served here."""


def _make(**options: object) -> IdempotencyMiddleware:
    complete = {"receipts": "sqlite:///r.db", "principal": None} | options
    return IdempotencyMiddleware(app, **complete)  # type: ignore[arg-type]


GOOD: list[dict[str, object]] = [
    {},
    {"receipts": "sqlite:////var/r.db"},
    {"receipts": "postgresql://u@h/d"},
    {"receipts": "postgres://u:p@h:5432/d?sslmode=require"},
    {"lock": "local"},
    {"lock": "redis://h:6379/0"},
    {"lock": "rediss://:p@h/0"},
    {"retention": timedelta(days=35)},
    {"retention": 1},
    {"lease_s": 0.05},
    {"wait_for_s": 5},
    {"body_bytes_max": 0, "response_bytes_max": 0},
    {"methods": ()},
    {"methods": ["post", "PUT"]},
    {"routes": [Route("POST", "/pay")]},
    {"principal": lambda scope: "p"},
]
BAD: list[tuple[dict[str, object], str]] = [
    ({"receipts": ""}, "expected"),
    ({"receipts": "mysql://h/d"}, "expected postgresql://"),
    ({"receipts": "r.db"}, "expected postgresql://"),
    ({"receipts": "sqlite:r.db"}, "sqlite:///"),
    ({"receipts": "sqlite:///"}, "sqlite:///"),
    ({"receipts": "sqlite:///r.db?mode=ro"}, "sqlite:///"),
    ({"receipts": "sqlite:///:memory:"}, "sqlite"),
    ({"receipts": "postgresql://h/d?no_such_option=1"}, "Postgres"),
    ({"receipts": None}, "receipts"),
    ({"receipts": Path("r.db")}, "receipts"),
    ({"lock": "memcached://h"}, "'local' or redis://"),
    ({"lock": ""}, "'local' or redis://"),
    ({"lock": "redis://h:port/0"}, "Redis"),
    ({"lock": None}, "lock"),
    ({"effects": "exactly-once"}, "'atomic' or 'external'"),
    ({"lease_s": 0}, "lease_s"),
    ({"lease_s": -1}, "lease_s"),
    ({"lease_s": math.nan}, "lease_s"),
    ({"lease_s": math.inf}, "lease_s"),
    ({"lease_s": 10.0**9}, "lease_s"),
    ({"wait_for_s": -1}, "wait"),
    ({"wait_for_s": math.inf}, "wait"),
    ({"retention": 0}, "retention"),
    ({"retention": timedelta(seconds=-5)}, "retention"),
    ({"retention": math.nan}, "retention"),
    ({"body_bytes_max": -1}, "body_bytes_max"),
    ({"response_bytes_max": -1}, "response_bytes_max"),
    ({"methods": "POST"}, "methods"),
    ({"routes": [("POST", "/pay")]}, "routes"),
    ({"principal": "tenant-1"}, "principal"),
    ({"documentation": "https://h/a\r\nx: y"}, "documentation"),
]


@pytest.mark.parametrize("options", GOOD)
def test_good_options_are_taken_and_nothing_is_opened(
    options: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    _make(**options)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("options", "words"), BAD)
def test_a_bad_option_is_refused_at_once_and_named(options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        _make(**options)


def test_principal_has_to_be_given() -> None:
    with pytest.raises(TypeError, match="principal"):
        IdempotencyMiddleware(app, receipts="sqlite:///r.db")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "options",
    [
        {"receipts": f"postgresql://u:{SECRET}@h/d?no_such_option=1"},
        {"receipts": f"postgresql://u:{SECRET}%zz@h/d"},
        {"receipts": f"postgresql://u:{SECRET}@[h/d"},
        {"receipts": f"postgres+psycopg://u:{SECRET}@h/d"},
        {"receipts": f"mysql://u:{SECRET}@h/d"},
        {"lock": f"redis+tls://:{SECRET}@h/0"},
        {"lock": f"redis//:{SECRET}@h/0"},
        {"lock": f"redis://:{SECRET}@h:port/0"},
    ],
)
def test_no_refusal_repeats_a_password(options: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        _make(**options)

    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "conninfo",
    [
        f"postgresql://user:{SECRET}@host:5433/database",
        f"postgresql://user@host/database?password={SECRET}",
        f"host=host dbname=database user=user password='{SECRET}'",
        f"postgresql://user@host/database?sslmode=require&sslpassword={SECRET}",
    ],
)
def test_what_is_logged_of_a_connection_string_has_the_database_and_no_secret(
    conninfo: str,
) -> None:
    shown = redacted(conninfo)

    assert SECRET not in shown
    assert "host=host" in shown
    assert "dbname=database" in shown


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///r.db", "r.db"),
        ("sqlite:////var/lib/r.db", "/var/lib/r.db"),
        ("sqlite:///a%20b.db", "a b.db"),
    ],
)
def test_a_sqlite_url_names_its_file(url: str, path: str) -> None:
    assert path_of(url) == Path(path)


@pytest.mark.parametrize("operation_s", [0, -1])
def test_a_store_that_could_never_answer_is_refused(operation_s: float, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="operation_s"):
        AsyncSQLiteReceipts(tmp_path / "r.db", operation_s=operation_s)
    with pytest.raises(ConfigurationError, match="operation_s"):
        AsyncPostgresReceipts("postgresql://u@h/d", operation_s=operation_s)


def test_a_pool_without_connections_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="pool"):
        AsyncPostgresReceipts("postgresql://u@h/d", pool_connections=0)
    with pytest.raises(ConfigurationError, match="pool"):
        AsyncPostgresReceipts("postgresql://u@h/d", handler_connections=0)
