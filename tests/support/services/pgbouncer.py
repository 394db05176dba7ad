"""A PgBouncer in transaction mode, in front of a private Postgres. It must have been installed."""

from __future__ import annotations

import contextlib
import shutil
import socket
from pathlib import Path

from .postgres_server import SUPERUSER, Postgres
from .server import LOOPBACK, Server

DEBIAN_PATH = Path("/usr/sbin/pgbouncer")
CONNECT_TIMEOUT_S = 1.0
# Fewer than the clients of a test, so that transactions of different clients do share one.
SERVER_CONNECTIONS = 5


def find_pgbouncer() -> Path | None:
    """Return the program, or None if there is none."""
    found = shutil.which("pgbouncer")
    if found:
        return Path(found)
    return DEBIAN_PATH if DEBIAN_PATH.exists() else None


class PgBouncer(Server):
    """Gives each transaction a server connection, which the next one of a client may not get."""

    def __init__(self, program: Path, postgres: Postgres, name: str = "pgbouncer") -> None:
        # As the account of Postgres: like that, it refuses to run as root.
        super().__init__(postgres.site, name, account=postgres.site.account)
        self._program = program
        self.dir.mkdir()
        users = self.dir / "users.txt"
        users.write_text(f'"{SUPERUSER}" ""\n')
        self._file.write_text(
            "[databases]\n"
            f"* = host={LOOPBACK} port={postgres.port}\n"
            "[pgbouncer]\n"
            f"listen_addr = {LOOPBACK}\n"
            f"listen_port = {self.port}\n"
            "unix_socket_dir =\n"
            "auth_type = trust\n"
            f"auth_file = {users}\n"
            "pool_mode = transaction\n"
            f"default_pool_size = {SERVER_CONNECTIONS}\n"
            "max_client_conn = 500\n"
            # After an outage it would refuse for 15 s without looking.
            "server_login_retry = 0.1\n"
        )
        for path in (self.dir, users, self._file):
            path.chmod(0o755)

    @property
    def _file(self) -> Path:
        return self.dir / "pgbouncer.ini"

    @property
    def url(self) -> str:
        """The address of the maintenance database."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """Return the address of a database behind it."""
        return f"postgresql://{SUPERUSER}@{LOOPBACK}:{self.port}/{database}"

    def argv(self) -> list[str]:
        """The command line."""
        return [str(self._program), str(self._file)]

    def ready(self) -> bool:
        """Say whether it takes connections."""
        with contextlib.suppress(OSError):
            socket.create_connection((LOOPBACK, self.port), CONNECT_TIMEOUT_S).close()
            return True
        return False
