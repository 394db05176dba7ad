"""The constructors: what cannot be honoured is refused at once, helpfully, and without secrets."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import cast, get_type_hints

import pytest

from replayfloor.core.errors import ConfigurationError
from replayfloor.server import IdempotencyMiddleware, Route
from replayfloor.server.options import MiddlewareOptions
from replayfloor.server.settings import Arguments, Settings
from replayfloor.server.stores.postgres import PostgresReceipts
from replayfloor.server.stores.postgres_async import AsyncPostgresReceipts
from replayfloor.server.stores.postgres_options import redacted
from replayfloor.server.stores.sqlite import SQLiteReceipts
from replayfloor.server.stores.sqlite_async import AsyncSQLiteReceipts
from replayfloor.server.stores.sqlite_work import path_of
from replayfloor.server.wsgi import WSGIIdempotencyMiddleware

SECRET = "s3cr3t-pa55"

Make = Callable[..., "IdempotencyMiddleware | WSGIIdempotencyMiddleware"]
MIDDLEWARES = [IdempotencyMiddleware, WSGIIdempotencyMiddleware]
every_middleware = pytest.mark.parametrize("middleware", MIDDLEWARES, ids=["asgi", "wsgi"])


def app(*_arguments: object) -> object:
    """Never called: nothing is served here."""
    raise AssertionError


def _make(middleware: object, **options: object) -> Settings:
    complete = {"receipts": "sqlite:///r.db", "principal": None} | options
    return cast("Make", middleware)(app, **complete).settings


class NoCipher:
    """Encrypts and cannot decrypt."""

    def encrypt(self, data: bytes) -> bytes:
        return data


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
    {"retention": 60, "require_uuid7": True},
    {"lease_s": 0.05},
    {"wait_for_s": 5},
    {"body_bytes_max": 0, "response_bytes_max": 0, "response_headers_max": 0},
    {"methods": ()},
    {"methods": ["post", "PUT"]},
    {"routes": [Route("POST", "/pay")]},
    {"principal": lambda scope: "p"},
    {"effects": "repeatable", "ambiguous": "release"},
    {"store": {503}, "free": [404, 410]},
    {"on_outage": "execute"},
    {"key_length_min": 16, "key_length_max": 36, "key_pattern": "[0-9a-f-]+"},
    {"key_pattern": re.compile("[a-z]+")},
    {"fingerprint": "off"},
    {"exclude": ["/sent_at"]},
    {"response_cipher": None},
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
    ({"lock": "memcached://h"}, "'local' or a Redis URL"),
    ({"lock": ""}, "'local' or a Redis URL"),
    ({"lock": "redis://h:port/0"}, "Redis"),
    ({"lock": None}, "lock"),
    ({"effects": "exactly-once"}, "'atomic' or 'external' or 'repeatable'"),
    ({"ambiguous": "retry"}, "'store' or 'release'"),
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
    ({"require_uuid7": True}, "require_uuid7 needs a retention"),
    ({"body_bytes_max": -1}, "body_bytes_max"),
    ({"response_bytes_max": -1}, "response_bytes_max"),
    ({"response_headers_max": -1}, "response_headers_max"),
    ({"methods": "POST"}, "methods"),
    ({"routes": [("POST", "/pay")]}, "routes"),
    ({"principal": "tenant-1"}, "principal"),
    ({"documentation": "https://h/a\r\nx: y"}, "documentation"),
    ({"store": "503"}, "store"),
    ({"store": ["503"]}, "store"),
    ({"store": [True]}, "store"),
    ({"free": [99]}, "99"),
    ({"free": [201]}, "freed after a success"),
    ({"store": [404], "free": [404]}, "404.* both"),
    ({"on_outage": "ignore"}, "'refuse' or 'execute'"),
    ({"key_length_min": 0}, "key length"),
    ({"key_length_min": 10, "key_length_max": 9}, "key length"),
    ({"key_length_max": 10_000}, "key length"),
    ({"key_pattern": "["}, "key_pattern"),
    ({"fingerprint": "nothing"}, "fingerprint"),
    ({"exclude": "/sent_at"}, "exclude"),
    ({"exclude": ["sent_at"]}, "JSON pointer"),
    ({"response_cipher": "secret"}, "response_cipher"),
    ({"response_cipher": NoCipher()}, "response_cipher"),
    ({"lease_seconds": 3}, "unknown option lease_seconds; there are .*lease_s"),
    ({"retention_s": 3, "wait_s": 1}, "unknown option retention_s, wait_s"),
]


@every_middleware
@pytest.mark.parametrize("options", GOOD)
def test_good_options_are_taken_and_nothing_is_opened(
    middleware: object, options: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    _make(middleware, **options)

    assert list(tmp_path.iterdir()) == []


@every_middleware
@pytest.mark.parametrize(("options", "words"), BAD)
def test_a_bad_option_is_refused_at_once_and_named(
    middleware: object, options: dict[str, object], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        _make(middleware, **options)


@every_middleware
def test_principal_has_to_be_given(middleware: object) -> None:
    with pytest.raises(TypeError, match="principal"):
        cast("Make", middleware)(app, receipts="sqlite:///r.db")


def test_the_options_that_are_announced_are_those_that_are_taken() -> None:
    announced = get_type_hints(MiddlewareOptions)
    taken = {each.name for each in fields(Arguments)}

    assert set(announced) == taken
    described = MiddlewareOptions.__doc__ or ""
    assert [name for name in taken if not re.search(rf"\b{name}\b", described)] == []


@every_middleware
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
def test_no_refusal_repeats_a_password(middleware: object, options: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        _make(middleware, **options)

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
    for files in (AsyncSQLiteReceipts, SQLiteReceipts):
        with pytest.raises(ConfigurationError, match="operation_s"):
            files(tmp_path / "r.db", operation_s=operation_s)
    for servers in (AsyncPostgresReceipts, PostgresReceipts):
        with pytest.raises(ConfigurationError, match="operation_s"):
            servers("postgresql://u@h/d", operation_s=operation_s)


@pytest.mark.parametrize("kind", [AsyncPostgresReceipts, PostgresReceipts])
def test_a_pool_without_connections_is_refused(
    kind: type[AsyncPostgresReceipts] | type[PostgresReceipts],
) -> None:
    with pytest.raises(ConfigurationError, match="pool"):
        kind("postgresql://u@h/d", pool_connections=0)
    with pytest.raises(ConfigurationError, match="pool"):
        kind("postgresql://u@h/d", handler_connections=0)


def test_an_asynchronous_store_is_refused_where_calls_block(tmp_path: Path) -> None:
    store = AsyncSQLiteReceipts(tmp_path / "receipts.db")
    with pytest.raises(ConfigurationError, match="AsyncSQLiteReceipts is asynchronous"):
        WSGIIdempotencyMiddleware(
            lambda _environ, _start: [],
            receipts=cast("SQLiteReceipts", store),
            principal=None,
        )
