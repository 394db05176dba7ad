"""A Redis, its replica, and three sentinels that watch them and name the one in charge."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from .redis_server import Redis
from .redis_words import ask, ask_list, pairs, replication
from .server import LOOPBACK, POLL_S, START_TIMEOUT_S, Site

SERVICE = "locks"
SENTINELS = 3
QUORUM = 2
# After this long without an answer the primary counts as down, and the replica is promoted. Short,
# because a test waits for it; long against the pauses of a busy machine.
DOWN_AFTER_MS = 700
# Also the least time between two failovers is twice this.
FAILOVER_TIMEOUT_MS = 1000
DATA_OPTIONS = {"repl_diskless_sync_delay": "0", "appendfsync": "everysec"}


class _Sentinel(Redis):
    """A sentinel: the same program, with a file that it rewrites itself."""

    def __init__(self, site: Site, program: Path, name: str) -> None:
        super().__init__(site, program, name)
        self.id = f"{self.port:040x}"

    def watch(self, primary: Redis, replica: Redis, others: list[_Sentinel]) -> None:
        """Write its file: what it would else find out in some seconds."""
        told = [
            f"port {self.port}",
            f"bind {LOOPBACK}",
            f"dir {self.dir}",
            f"sentinel myid {self.id}",
            f"sentinel monitor {SERVICE} {LOOPBACK} {primary.port} {QUORUM}",
            f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}",
            f"sentinel failover-timeout {SERVICE} {FAILOVER_TIMEOUT_MS}",
            f"sentinel known-replica {SERVICE} {LOOPBACK} {replica.port}",
            *(f"sentinel known-sentinel {SERVICE} {LOOPBACK} {o.port} {o.id}" for o in others),
        ]
        self._file.write_text("\n".join(told) + "\n")

    @property
    def _file(self) -> Path:
        return self.dir / "sentinel.conf"

    def argv(self) -> list[str]:
        return [str(self._program), str(self._file), "--sentinel"]


class RedisSentinels:
    """Two servers, of which one is in charge, and the sentinels."""

    def __init__(self, site: Site, program: Path) -> None:
        self.servers = [
            Redis(site, program, f"watched{number}", **DATA_OPTIONS) for number in range(2)
        ]
        self.sentinels = [
            _Sentinel(site, program, f"sentinel{number}") for number in range(SENTINELS)
        ]
        for sentinel in self.sentinels:
            others = [other for other in self.sentinels if other is not sentinel]
            sentinel.watch(self.servers[0], self.servers[1], others)

    def follow(self) -> None:
        """Let the second server follow the first.

        To be done before the sentinels start: they look at a replica when they start, and then
        every 10 s.
        """
        first, second = self.servers
        ask(second.port, "REPLICAOF", LOOPBACK, first.port)
        self._until(lambda: _link_of(second) == "up")

    @property
    def url(self) -> str:
        """The address as our own constructors take it."""
        hosts = ",".join(f"{LOOPBACK}:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{hosts}/{SERVICE}"

    @property
    def primary(self) -> Redis:
        """The server that the sentinels name."""
        witness = next(sentinel for sentinel in self.sentinels if sentinel.answering)
        port = _named_by(witness)
        return next(server for server in self.servers if str(server.port) == port)

    def has_replaced(self, server: Redis) -> bool:
        """Say whether another server is in charge, and every sentinel that answers names it.

        One of them is the first to know; who asks the next is sent to the old one for a while.
        """
        named = {_named_by(sentinel) for sentinel in self.sentinels if sentinel.answering}
        others = {str(other.port) for other in self.servers if other is not server}
        return named == others and replication(int(named.pop()))["role"] == "master"

    @property
    def replica(self) -> Redis:
        """The other one."""
        return next(server for server in self.servers if server is not self.primary)

    def restore(self) -> None:
        """Bring it back, whatever a test did to it: both run, and one follows the other."""
        for server in (*self.servers, *self.sentinels):
            server.restore()
        self.wait_until_whole()

    def wait_until_whole(self) -> None:
        """Wait until one server follows the other and the sentinels would know what to do."""
        self._until(self._is_whole)

    def _until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, RuntimeError, StopIteration):
                if is_so():
                    return
            time.sleep(POLL_S)
        raise RuntimeError("the sentinels did not come about")

    def _is_whole(self) -> bool:
        primary, replica = self.primary, self.replica
        state = replication(replica.port)
        if replication(primary.port)["role"] != "master":
            return False  # a failover is not over
        if state["role"] == "master" or state["master_port"] != str(primary.port):
            # The sentinels would do this as well, in some 10 s.
            ask(replica.port, "REPLICAOF", LOOPBACK, primary.port)
            return False
        seen = all(self._is_content(sentinel, primary) for sentinel in self.sentinels)
        return seen and _link_of(replica) == "up"

    def _is_content(self, sentinel: Redis, primary: Redis) -> bool:
        ask(sentinel.port, "SENTINEL", "CKQUORUM", SERVICE)  # an error if it could not act
        state = pairs(ask_list(sentinel.port, "SENTINEL", "MASTER", SERVICE))
        replicas = ask_list(sentinel.port, "SENTINEL", "REPLICAS", SERVICE)
        return (
            state["port"] == str(primary.port)
            and state["flags"] == "master"
            and [pairs(replica)["flags"] for replica in replicas] == ["slave"]
        )


def _link_of(replica: Redis) -> str:
    return replication(replica.port).get("master_link_status", "")


def _named_by(sentinel: Redis) -> str:
    _host, port = ask_list(sentinel.port, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
    return str(port)
