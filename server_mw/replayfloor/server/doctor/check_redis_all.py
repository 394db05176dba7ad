"""What is to be said of the servers together: can they be reached, who is in charge. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from replayfloor.server.doctor.check_redis import check_server
from replayfloor.server.doctor.facts_redis import Kind, RedisFacts, Sentinel, Words, number
from replayfloor.server.doctor.findings import Finding, Level, ok
from replayfloor.server.doctor.limits import Limits

REACHABLE: Final = "redis.reachable"

SLOTS: Final = 16384
"""Of every cluster."""

WITHOUT_IT: Final = (
    "Postgres alone is enough, so nothing is executed twice; every duplicate and every replay "
    "costs it a claim, and the first request after each pause waits for the lock in vain"
)


def check_redis(
    facts: RedisFacts, limits: Limits | None = None, *, workers: int | None = None
) -> list[Finding]:
    """Return everything that is to be said of the lock.

    `workers` is how many processes there are in all.
    """
    limits = limits or Limits()
    return [*_together(facts), *_each(facts, limits, workers)]


def _together(facts: RedisFacts) -> Iterator[Finding]:
    if not facts.usable:
        why = "a middleware with this lock= raises when it is made: no worker starts"
        yield Finding(REACHABLE, Level.CRITICAL, facts.failed, why, "correct the URL")
    elif facts.failed:
        do = "start it, or look at the address, the password and the network between"
        yield Finding(REACHABLE, Level.WARNING, f"no answer: {facts.failed}", WITHOUT_IT, do)
    elif silent := [f"{each.name}: {each.failed}" for each in facts.servers if each.failed]:
        found = f"{len(silent)} of {len(facts.servers)} do not answer: {'; '.join(silent)}"
        do = "start them, or let their replicas take over"
        yield Finding(REACHABLE, Level.WARNING, found, f"for their keys, {WITHOUT_IT}", do)
    else:
        names = ", ".join(each.name for each in facts.servers)
        yield ok(REACHABLE, f"{facts.kind.value}: {names}")
    if facts.kind is Kind.SENTINELS and facts.usable:
        yield _sentinels(facts)
    if facts.cluster is not None:
        yield _cluster(facts.cluster)
    if facts.kind is not Kind.CLUSTER:
        yield from _mode(facts)


def _each(facts: RedisFacts, limits: Limits, workers: int | None) -> Iterator[Finding]:
    several = len(facts.servers) > 1
    for server in facts.servers:
        if server.failed:
            continue
        for finding in check_server(server, limits, workers):
            yield replace(finding, where=server.name) if several else finding


def _sentinels(facts: RedisFacts) -> Finding:
    name = "redis.sentinels"
    silent = [each for each in facts.sentinels if each.failed]
    wrong = [f"{each.name}: {each.failed}" for each in silent]
    answering = [each for each in facts.sentinels if not each.failed]
    wrong += [problem for each in answering for problem in _says(each)]
    named = {f"{each.says.get('ip')}:{each.says.get('port')}" for each in answering}
    if len(named) > 1:
        wrong.append(f"they name different servers: {', '.join(sorted(named))}")
    if not wrong:
        found = f"{len(answering)} sentinels watch {facts.service} and agree on its primary"
        return ok(name, found)
    why = (
        "who is in charge is asked whenever a connection is made; sentinels that are silent are "
        "waited for first, and without a majority of them nobody takes over from a lost primary: "
        "the lock stays away, and Postgres carries the load"
    )
    do = "repair the sentinels; run three or more, and name all of them in the URL"
    return Finding(name, Level.WARNING, "; ".join(wrong), why, do)


def _says(sentinel: Sentinel) -> Iterator[str]:
    says = sentinel.says
    flags = set(says.get("flags", "").split(","))
    if flags & {"s_down", "o_down"}:
        yield f"{sentinel.name} takes the primary for down"
    others, quorum = number(says.get("num-other-sentinels")), number(says.get("quorum"))
    if others is not None and quorum is not None and others + 1 < quorum:
        yield f"{sentinel.name} knows {others:.0f} others, and {quorum:.0f} have to agree"
    if number(says.get("num-slaves")) == 0:
        yield f"{sentinel.name} knows no replica that could take over"


def _cluster(words: Words) -> Finding:
    name = "redis.cluster"
    lost = sum(number(words.get(f"cluster_slots_{kind}")) or 0 for kind in ("fail", "pfail"))
    assigned = number(words.get("cluster_slots_assigned"))
    total = SLOTS
    wrong: list[str] = []
    if words.get("cluster_state") != "ok":
        wrong.append(f"cluster_state is {words.get('cluster_state')}")
    if lost:
        wrong.append(f"{lost:.0f} slots have no server that answers")
    if assigned is not None and assigned < total:
        wrong.append(f"{total - assigned:.0f} slots belong to no server")
    if not wrong:
        return ok(name, f"the cluster is whole: {words.get('cluster_size')} primaries")
    why = f"keys of those slots have no lock: for them, {WITHOUT_IT}"
    return Finding(name, Level.WARNING, "; ".join(wrong), why, "repair the cluster")


def _mode(facts: RedisFacts) -> Iterator[Finding]:
    """Yield what is wrong if the URL names another kind of server than there is."""
    for server in facts.servers:
        mode = server.text("redis_mode") or server.text("server_mode")
        if mode in (None, "standalone"):
            continue
        scheme = "redis+cluster://" if mode == "cluster" else "redis+sentinel://"
        found = f"{server.name} runs as a {mode}, and the URL is one of a single server"
        why = (
            "keys that belong to other nodes are refused here, so that most requests have no lock"
            if mode == "cluster"
            else "a sentinel holds no keys, so that no request has a lock"
        )
        do = f"write the URL as {scheme}..."
        yield Finding("redis.mode", Level.WARNING, found, f"{why}; {WITHOUT_IT}", do)
