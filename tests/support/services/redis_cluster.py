"""A Redis Cluster: three primaries, each with a replica. Made by hand, since no wheel has a
redis-cli to do it."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from .redis_server import Redis
from .redis_words import ask, ask_list, info, replication
from .server import LOOPBACK, POLL_S, START_TIMEOUT_S, Site, free_port

PRIMARIES = 3
SLOTS = 16384
# Every node's bus is at a port that much higher, which PORT_RANGE gives to nobody.
BUS_OFFSET = 10000
# After this long without an answer a primary counts as failed, and its replica takes over. Short,
# because a test waits for it; long against the pauses of a busy machine.
NODE_TIMEOUT_MS = 1000
OPTIONS = {
    "cluster_enabled": "yes",
    "cluster_config_file": "nodes.conf",
    "cluster_node_timeout": str(NODE_TIMEOUT_MS),
    # A replica takes over however long ago it last heard of its primary.
    "cluster_replica_validity_factor": "0",
    "cluster_require_full_coverage": "no",
    # Else a replica's first copy begins after 5 s.
    "repl_diskless_sync_delay": "0",
    "appendfsync": "everysec",
}


class RedisCluster:
    """Six nodes. Which of them are primaries changes; ask `primary_of`."""

    def __init__(self, site: Site, program: Path) -> None:
        self.nodes = [
            Redis(site, program, f"cluster{number}", **OPTIONS) for number in range(2 * PRIMARIES)
        ]
        for node in self.nodes:
            node.port = _free_pair()

    @property
    def url(self) -> str:
        """The address as our own constructors take it."""
        return "redis+cluster://" + ",".join(f"{LOOPBACK}:{node.port}" for node in self.nodes)

    def form(self) -> None:
        """Make one cluster of the nodes, which run and know nothing of each other."""
        for number, node in enumerate(self.nodes[:PRIMARIES]):
            begin, end = (SLOTS * edge // PRIMARIES for edge in (number, number + 1))
            ask(node.port, "CLUSTER", "ADDSLOTS", *range(begin, end))
        self._until(self._have_met)
        for primary, replica in zip(self.nodes[:PRIMARIES], self.nodes[PRIMARIES:], strict=True):
            name = ask(primary.port, "CLUSTER", "MYID")
            # Refused by a node that has not heard of the primary's slots yet.
            self._until(partial(_is_ok, replica, "CLUSTER", "REPLICATE", name))
        self.wait_until_whole()

    def _have_met(self) -> bool:
        met = all(len(self._known(node)) == len(self.nodes) for node in self.nodes)
        first, *others = self.nodes
        for node in () if met else others:
            # Again and again: who is slow to answer, within NODE_TIMEOUT_MS, is forgotten.
            ask(first.port, "CLUSTER", "MEET", LOOPBACK, node.port)
        return met

    def primary_of(self, key: str) -> Redis:
        """Return the node in charge of a key, as a running node sees it."""
        return self._in_charge(key)[0]

    def replica_of(self, key: str) -> Redis:
        """Return a replica of the node in charge of a key."""
        return self._in_charge(key)[1]

    def _in_charge(self, key: str) -> list[Redis]:
        witness = next(node for node in self.nodes if node.answering)
        slot = int(ask(witness.port, "CLUSTER", "KEYSLOT", key))
        for begin, end, *members in ask_list(witness.port, "CLUSTER", "SLOTS"):
            if begin <= slot <= end:
                return [self._node(int(port)) for _host, port, *_rest in members]
        raise AssertionError(f"nobody is in charge of {key}")

    def _node(self, port: int) -> Redis:
        return next(node for node in self.nodes if node.port == port)

    def promote(self, replica: Redis) -> None:
        """Let a replica take over at once, without a vote: its primary is known to be dead."""
        ask(replica.port, "CLUSTER", "FAILOVER", "TAKEOVER")
        self._until(lambda: replication(replica.port)["role"] == "master")

    def restore(self) -> None:
        """Bring it back, whatever a test did to it."""
        for node in self.nodes:
            node.restore()
        self.wait_until_whole()

    def wait_until_whole(self) -> None:
        """Wait until every node sees every slot served, and each primary has a copy."""
        self._until(lambda: all(self._is_whole(node) for node in self.nodes))

    def _is_whole(self, node: Redis) -> bool:
        state = info(node.port, "CLUSTER", "INFO")
        of_node = replication(node.port)
        copied = (
            int(of_node["connected_slaves"]) > 0
            if of_node["role"] == "master"
            else of_node["master_link_status"] == "up"
        )
        healthy = not any("fail" in line.split()[2] for line in self._known(node))
        # A range is its edges, then a primary and its replicas.
        ranges = [each for each in ask_list(node.port, "CLUSTER", "SLOTS") if len(each) > 3]
        served = sum(end - begin + 1 for begin, end, *_nodes in ranges) == SLOTS
        return state["cluster_state"] == "ok" and copied and healthy and served

    def _known(self, node: Redis) -> list[str]:
        lines = ask(node.port, "CLUSTER", "NODES").splitlines()
        return [line for line in lines if "handshake" not in line.split()[2]]

    def _until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, RuntimeError):
                if is_so():
                    return
            time.sleep(POLL_S)
        raise RuntimeError("the cluster did not come about")


def _is_ok(node: Redis, *words: str) -> bool:
    return ask(node.port, *words) == "OK"


def _free_pair() -> int:
    """Return a free port whose bus port is free as well."""
    while True:
        port = free_port()
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((LOOPBACK, port + BUS_OFFSET))
            return port
