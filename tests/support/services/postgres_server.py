"""The private Postgres: its cluster, its settings, databases for single tests, a standby."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path

import psycopg
from psycopg import sql

from .server import LOOPBACK, Server, Site

SUPERUSER = "postgres"
SETTINGS = {
    "listen_addresses": LOOPBACK,
    "max_connections": "200",
    # As in production: the crash tests are about what a commit is worth.
    "fsync": "on",
    "synchronous_commit": "on",
    "timezone": "UTC",
    # Compiling costs more than any query of a test.
    "jit": "off",
}
# postmaster.pid: line 1 is the pid, line 8 the state.
STATE_LINE = 7
STATES_READY = ("ready", "standby")
ADMIN_TIMEOUT_S = 10


class Postgres(Server):
    """A cluster with one superuser and no password; settings are those of postgresql.conf."""

    stop_signal = signal.SIGINT  # "fast": does not wait for the clients to leave

    def __init__(self, site: Site, bin_dir: Path, name: str = "pg", **settings: str) -> None:
        super().__init__(site, name, account=site.account)
        self._bin_dir = bin_dir
        self._settings = SETTINGS | settings

    @property
    def url(self) -> str:
        """The address of the maintenance database."""
        return self.url_of("postgres")

    @property
    def socket_url(self) -> str:
        """The same by Unix socket."""
        return f"postgresql://{SUPERUSER}@/postgres?host={self.site.base}&port={self.port}"

    def url_of(self, database: str) -> str:
        """Return the address of a database."""
        return f"postgresql://{SUPERUSER}@{LOOPBACK}:{self.port}/{database}"

    def create(self) -> None:
        """Make the cluster; `start` comes after."""
        # Without --no-sync it flushes a thousand files that no crash of ours can lose.
        self._tool(
            "initdb", "--pgdata", str(self.dir), "--username", SUPERUSER, "--auth", "trust",
            "--encoding", "UTF8", "--locale", "C", "--no-sync",
        )  # fmt: skip

    def database(self, name: str, *, template: str = "template1") -> str:
        """Create a database as a copy of another one, and return its address."""
        names = sql.Identifier(name), sql.Identifier(template)
        self._admin(sql.SQL("create database {} template {} strategy wal_log").format(*names))
        return self.url_of(name)

    def drop(self, name: str) -> None:
        """Drop a database, also under the feet of clients that a test left connected."""
        query = sql.SQL("drop database if exists {} with (force)")
        self._admin(query.format(sql.Identifier(name)))

    def standby(self, name: str = "standby") -> Postgres:
        """Copy the running cluster into a second one that can follow it; `start` comes after."""
        other = Postgres(self.site, self._bin_dir, name, **self._settings)
        self._tool(
            "pg_basebackup", "--pgdata", str(other.dir), "--dbname", self.url,
            "--write-recovery-conf", "--wal-method", "stream", "--checkpoint", "fast", "--no-sync",
        )  # fmt: skip
        return other

    def promote(self) -> None:
        """Make a standby the primary, and return once it takes writes."""
        self._admin(sql.SQL("select pg_promote()"))

    def argv(self) -> list[str]:
        """The command line; the cluster's own configuration file stays as initdb wrote it."""
        options = self._settings | {
            "port": str(self.port),
            "unix_socket_directories": str(self.site.base),
        }
        settings = (f"--{name}={value}" for name, value in options.items())
        return [str(self._bin_dir / "postgres"), "-D", str(self.dir), *settings]

    def ready(self) -> bool:
        """Ask the file that the postmaster keeps; a connection would only be refused meanwhile."""
        with contextlib.suppress(OSError, IndexError, ValueError):
            lines = (self.dir / "postmaster.pid").read_text().splitlines()
            return int(lines[0]) == self.pid and lines[STATE_LINE].strip() in STATES_READY
        return False

    def _admin(self, statement: sql.SQL | sql.Composed) -> None:
        with psycopg.connect(
            self.url, autocommit=True, connect_timeout=ADMIN_TIMEOUT_S
        ) as connection:
            connection.execute(statement)

    def _tool(self, name: str, *args: str) -> None:
        argv = [str(self._bin_dir / name), *args]
        done = self._account.run(argv, cwd=self.site.base, env=self.site.env)
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stderr or done.stdout}")
