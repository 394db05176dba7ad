"""The private Redis (a Valkey, if it comes from the wheel). It speaks the few words it needs
itself, so that no client library is in between."""

from __future__ import annotations

import contextlib
import itertools
import socket
from pathlib import Path

from .server import LOOPBACK, Server, Site

# Durable at every write, so that a test may expect after kill -9 what it was promised before.
DURABLE = {"save": "", "appendonly": "yes", "appendfsync": "always"}
DATABASES = 64
CONNECT_TIMEOUT_S = 1.0
ANSWER_TIMEOUT_S = 10.0


class Redis(Server):
    """A Redis with an append-only file; options are those of redis.conf, `_` for `-`."""

    def __init__(self, site: Site, program: Path, name: str = "redis", **options: str) -> None:
        # As ourselves: unlike Postgres it does not mind root.
        super().__init__(site, name, account=site.account.ourselves())
        self.dir.mkdir()
        self._program = program
        self._options = DURABLE | options
        self._numbers = itertools.cycle(range(1, DATABASES))

    @property
    def url(self) -> str:
        """The address of database 0."""
        return self.url_of(0)

    def url_of(self, number: int) -> str:
        """Return the address of a logical database."""
        return f"redis://{LOOPBACK}:{self.port}/{number}"

    def database(self) -> str:
        """Return the address of an empty database that no earlier test still writes to."""
        number = next(self._numbers)
        self._say(f"SELECT {number}", "FLUSHDB")
        return self.url_of(number)

    def flush(self) -> None:
        """FLUSHALL: forget everything, as an operator's mistake would."""
        self._say("FLUSHALL")

    def argv(self) -> list[str]:
        """The command line."""
        options = self._options | {
            "bind": LOOPBACK,
            "port": str(self.port),
            "dir": str(self.dir),
            "databases": str(DATABASES),
            "daemonize": "no",
        }
        pairs = ((f"--{name.replace('_', '-')}", value) for name, value in options.items())
        return [str(self._program), *itertools.chain.from_iterable(pairs)]

    def ready(self) -> bool:
        """Say whether it answers; while it loads its file, it answers with an error."""
        with contextlib.suppress(OSError, RuntimeError):
            self._say("PING")
            return True
        return False

    def _say(self, *commands: str) -> None:
        address = (LOOPBACK, self.port)
        with socket.create_connection(address, CONNECT_TIMEOUT_S) as connection:
            connection.settimeout(ANSWER_TIMEOUT_S)
            with connection.makefile("rwb") as stream:
                for command in commands:
                    stream.write(command.encode() + b"\r\n")
                    stream.flush()
                    answer = stream.readline()
                    if not answer.startswith(b"+"):
                        raise RuntimeError(f"{command}: {answer!r}")
