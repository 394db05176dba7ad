"""Everything that the stores of a backend hold, as bytes: to look for what must not be there."""

from __future__ import annotations

from pathlib import Path

import psycopg
from redis import Redis

from server.backends import Backend


def at_rest(backend: Backend) -> bytes:
    """Return the files or tables of the receipts, and the values of the lock, all in one."""
    if not backend.is_postgres:
        path = backend.receipts_url.removeprefix("sqlite:///")
        files = (Path(path + suffix) for suffix in ("", "-wal", "-shm", "-journal"))
        return b"".join(file.read_bytes() for file in files if file.exists())
    return _tables(backend.receipts_url) + _values(backend.lock_url)


def _tables(url: str) -> bytes:
    held = b""
    with psycopg.connect(url, autocommit=True) as connection:
        names = connection.execute(
            "select format('%I.%I', schemaname, tablename) from pg_tables"
            " where schemaname = 'replayfloor'"
        ).fetchall()
        for (name,) in names:
            for row in connection.execute(f"select * from {name}".encode()).fetchall():
                for value in row:
                    held += value if isinstance(value, bytes) else str(value).encode()
    return held


def _values(url: str) -> bytes:
    held = b""
    with Redis.from_url(url) as client:
        for name in client.scan_iter("*"):
            assert client.type(name) == b"string", name
            value = client.get(name)
            held += bytes(name) + (value if isinstance(value, bytes) else b"")
    return held
