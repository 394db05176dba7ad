"""The private servers keep what they promise to the other tests."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
import redis

from support.services import Postgres, Redis, Services, account
from support.services.binaries import PostgresBinaries
from support.services.processes import alive, children
from support.services.server import PORT_RANGE

STANDARD_PORTS = (5432, 6379)
# The watchdog gives the servers 3 s for a clean stop.
GONE_WITHIN_S = 15.0
TESTS = Path(__file__).parent

OWNER = """
import sys, time
from support.services import Services
from support.services.processes import children
services = Services()
parents = services.postgres.pid, services.redis.pid
services.postgres.freeze()
print(services.site.base, *parents, *children(parents[0]), flush=True)
time.sleep(600)
"""


def _rows(url: str, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
        return connection.execute(query.encode()).fetchall()


def _until_gone(pids: list[int]) -> list[int]:
    deadline = time.monotonic() + GONE_WITHIN_S
    while (left := [pid for pid in pids if alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def test_a_killed_postgres_keeps_every_acknowledged_row(
    postgres_server: Postgres, postgres_url: str
) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("create table ledger (entry int)")
        connection.execute("insert into ledger values (42)")

    postgres_server.crash()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(postgres_url, connect_timeout=5)
    postgres_server.start()

    assert _rows(postgres_url, "select entry from ledger") == [(42,)]


def test_a_killed_redis_keeps_every_acknowledged_write(redis_server: Redis, redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.set("key", "value")

    redis_server.crash()
    redis_server.start()

    with redis.Redis.from_url(redis_url) as client:
        assert client.get("key") == b"value"


def test_a_busy_backend_does_not_survive_the_crash(
    postgres_server: Postgres, postgres_url: str
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        backend = connection.info.backend_pid
        postgres_server.crash()

        assert _until_gone([backend]) == []


def test_a_frozen_postgres_lets_a_client_hang(postgres_server: Postgres, postgres_url: str) -> None:
    postgres_server.freeze()
    with pytest.raises(psycopg.errors.ConnectionTimeout):
        psycopg.connect(postgres_url, connect_timeout=2)
    postgres_server.thaw()

    assert _rows(postgres_url, "select 1") == [(1,)]


def test_a_frozen_redis_lets_a_client_hang(redis_server: Redis, redis_url: str) -> None:
    with redis.Redis.from_url(redis_url, socket_timeout=0.5, retry=None) as client:
        client.set("key", "value")
        redis_server.freeze()
        with pytest.raises(redis.TimeoutError):
            client.get("key")
        redis_server.thaw()

        assert client.get("key") == b"value"


def test_flush_forgets_everything(redis_server: Redis, redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.set("key", "value")
        redis_server.flush()

        assert client.get("key") is None


def test_every_test_gets_an_empty_database_and_it_is_gone_afterwards(services: Services) -> None:
    tables = "select count(*) from pg_tables where schemaname = 'public'"
    url = services.postgres.database("fresh")
    assert _rows(url, tables) == [(0,)]

    with psycopg.connect(url):  # a client that a test forgot
        services.postgres.drop("fresh")

    named = "select count(*) from pg_database where datname = 'fresh'"
    assert _rows(services.postgres.url, named) == [(0,)]


@pytest.mark.parametrize("why", ["TMPDIR", "too little memory"])
def test_the_servers_files_are_on_disk_if_asked_for_or_if_memory_is_short(
    monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    if why == "TMPDIR":
        monkeypatch.setenv("TMPDIR", account.SHARED_TEMP_DIRS[0])
    else:
        monkeypatch.delenv("TMPDIR", raising=False)
        monkeypatch.setattr(account, "MEMORY_MIN_BYTES", 1 << 60)

    made = account.Account.choose().make_dir()

    assert made.parent in {Path(parent).resolve() for parent in account.SHARED_TEMP_DIRS}
    made.rmdir()


def test_two_servers_may_need_a_copy_of_the_same_programs(
    services: Services, tmp_path: Path
) -> None:
    program = tmp_path / "wheel" / "bin" / "postgres"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o600)  # so that nobody can run it where it is
    found = PostgresBinaries(program.parent, program.parents[1])

    copies = [found.readable_by(services.site.account, tmp_path / "bin") for _ in range(2)]

    assert copies == [tmp_path / "bin" / "wheel" / "bin"] * 2
    assert (copies[0] / "postgres").read_text() == program.read_text()


def test_postgres_is_as_durable_as_in_production(services: Services) -> None:
    query = "select current_setting('fsync'), current_setting('max_connections')::int"

    assert _rows(services.postgres.url, query) == [("on", 200)]
    assert _rows(services.postgres.socket_url, query) == [("on", 200)]


def test_a_standby_takes_over() -> None:
    with Services() as own:
        primary = own.postgres
        _execute(primary.url, "create table ledger as select 42 as entry")
        standby = primary.standby()
        own.adopt(standby)
        primary.crash()
        standby.promote()
        _execute(standby.url, "insert into ledger values (43)")

        assert _rows(standby.url, "select entry from ledger order by 1") == [(42,), (43,)]


def _execute(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
        connection.execute(statement.encode())


def test_nothing_is_left_behind_after_close() -> None:
    with Services() as own:
        parents = [own.postgres.pid, own.redis.pid]
        pids = [*parents, *children(own.postgres.pid)]
        own.postgres.crash()

    assert _until_gone(pids) == []
    assert not own.site.base.exists()


def test_nothing_is_left_behind_when_the_run_itself_is_killed() -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, cwd=TESTS, text=True
    )
    assert owner.stdout is not None
    with owner, owner.stdout as output:
        base, *pids = output.readline().split()
        owner.send_signal(signal.SIGKILL)

    assert _until_gone([int(pid) for pid in pids]) == []
    _until_removed(Path(base))
    assert not Path(base).exists()


def _until_removed(path: Path) -> None:
    deadline = time.monotonic() + GONE_WITHIN_S
    while path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)


def test_a_server_on_the_standard_ports_is_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPORT", str(STANDARD_PORTS[0]))
    monkeypatch.setenv("PGHOST", "127.0.0.1")
    with contextlib.ExitStack() as stack:
        listeners = []
        for port in STANDARD_PORTS:
            with contextlib.suppress(OSError):  # a real server is there
                listener = stack.enter_context(socket.create_server(("127.0.0.1", port)))
                listener.setblocking(False)
                listeners.append(listener)
        with Services() as own:
            ports = (own.postgres.port, own.redis.port)

        assert all(PORT_RANGE[0] <= port <= PORT_RANGE[1] for port in ports)
        for listener in listeners:
            with pytest.raises(BlockingIOError):  # nobody has called
                listener.accept()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to change the user")
def test_postgres_does_not_run_as_root(services: Services) -> None:
    owner = Path(f"/proc/{services.postgres.pid}").stat().st_uid

    assert owner == services.site.account.uid != 0
