"""What is to be said of the server of the receipts: version, clock, replicas, limits. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from replayfloor.server.doctor.facts_postgres import Answering, Clock, Connections, PostgresFacts
from replayfloor.server.doctor.findings import Finding, Level, ok, unseen
from replayfloor.server.doctor.limits import Limits
from replayfloor.server.doctor.unread import Read, Unread
from replayfloor.server.doctor.wanted import Wanted
from replayfloor.server.margins import margin_ms, skew_ms
from replayfloor.server.stores.migrate import VERSIONS_TESTED

ANY_RETENTION_S: Final = 86_400.0
"""Where nobody has said one: the margins are the same for all that are longer than an hour."""

POOLS: Final = 2
"""Each worker has one for the protocol and one for the handlers' transactions."""


def check_answering(answering: Read[Answering]) -> Iterator[Finding]:
    """Yield what is to be said of the process that answers."""
    if isinstance(answering, Unread):
        yield unseen("postgres.version", answering.reason)
        return
    yield _version(answering)
    if answering.pooled:
        yield Finding(
            "postgres.pooler",
            Level.NOTE,
            "a pooler such as PgBouncer is in front",
            "that is fine, in transaction mode too; but how many connections there may be is "
            "decided there, and a doctor cannot see it",
            "let its pool (default_pool_size) have room for all workers at their peak; run "
            "doctor, migrate and partitions maintain on the server's own address too",
        )
    else:
        yield ok("postgres.pooler", "no pooler is in front")


def _version(answering: Answering) -> Finding:
    name, major = "postgres.version", answering.version // 10_000
    first, last = VERSIONS_TESTED[0], VERSIONS_TESTED[-1]
    found = f"Postgres {major}.{answering.version % 10_000}"
    if major in VERSIONS_TESTED:
        return ok(name, found, version=answering.version)
    level = Level.WARNING if major < first else Level.NOTE
    why = f"the tests run on {first} to {last}; nobody has seen it work on this one"
    do = f"upgrade to {first} or later" if major < first else "look for a newer replayfloor"
    return Finding(name, level, found, why, do, data={"version": answering.version})


def check_clock(clock: Read[Clock], limits: Limits, retention_s: float | None) -> Finding:
    """Return what is to be said of the difference to this host's clock.

    What it may be follows from the margin before a retention's end, of which senders' clocks take
    the larger part.
    """
    name = "postgres.clock"
    if isinstance(clock, Unread):
        return unseen(name, clock.reason)
    data = {"least_s": clock.least_s, "most_s": clock.most_s}
    middle = (clock.least_s + clock.most_s) / 2
    side = "ahead of" if middle > 0 else "behind"
    found = (
        f"the database's clock is {abs(middle):.3f} s {side} this host's, "
        f"give or take {clock.uncertain_s / 2:.3f} s"
    )
    if clock.off_s < limits.clock_note_s:
        if clock.uncertain_s <= limits.clock_uncertain_s:
            return ok(name, found, **data)
        why = "the round trip was too long to tell"
        return Finding(name, Level.NOTE, found, why, "run it on a worker's host", data=data)
    level, why = _clock_matters(clock, retention_s)
    do = "synchronise both clocks (chrony, systemd-timesyncd)"
    return Finding(name, level, found, why, do, data=data)


def _clock_matters(clock: Clock, retention_s: float | None) -> tuple[Level, str]:
    retention_ms = round((ANY_RETENTION_S if retention_s is None else retention_s) * 1000)
    skew_s = skew_ms(retention_ms) / 1000
    left_s = margin_ms(retention_ms) / 1000 - skew_s
    behind = clock.least_s > 0
    if behind:
        why = (
            "whether a key is too old is judged by this host's clock, and when its receipt has "
            f"expired by the database's: {left_s:g} s are allowed for; with this host further "
            "behind, a retry that comes after its receipt's end can pass for one in time and be "
            f"executed a second time, and beyond {skew_s:g} s fresh keys are refused as of the "
            "future"
        )
    else:
        why = (
            "whether a key is too old is judged by this host's clock: with it ahead, retries are "
            f"refused that much too early; {left_s:g} s are allowed for"
        )
    if clock.off_s < left_s:
        return Level.NOTE, why
    return (Level.CRITICAL if behind else Level.WARNING), why


def check_replicas(facts: PostgresFacts) -> Finding:
    """Return what is to be said of what survives a failover."""
    name, replicas, settings = "postgres.replicas", facts.replicas, facts.settings
    if isinstance(replicas, Unread):
        return unseen(name, replicas.reason)
    standbys = "" if isinstance(settings, Unread) else settings.get("synchronous_standby_names", "")
    names = ", ".join(sorted({each.name for each in replicas}))
    data: dict[str, float | str] = {"replicas": len(replicas), "synchronous": standbys}
    hidden = sum(each.sync is None for each in replicas)
    if standbys:
        if hidden:
            return unseen(
                name,
                f"commits wait for {standbys}; whether it follows is not shown to this role",
                "GRANT pg_read_all_stats to this role",
            )
        waited = [each.name for each in replicas if each.sync in ("sync", "quorum")]
        if waited:
            found = f"commits wait for {', '.join(waited)}: what was answered survives a failover"
            return ok(name, found, **data)
        return Finding(
            name,
            Level.CRITICAL,
            f"commits wait for {standbys}, and no such standby follows",
            "every claim waits without end: requests are answered 503",
            "start the standby, or set synchronous_standby_names to ''",
            data=data,
        )
    if not replicas:
        return ok(name, "no replica follows; receipts are as safe as this server's disk", **data)
    return Finding(
        name,
        Level.WARNING,
        f"{len(replicas)} replicas follow ({names}), and no commit waits for them",
        "if one of them takes over, the last claims and receipts are missing there, and a retry of "
        "just these is executed a second time; for replicas that only serve reads or backups this "
        "is of no matter",
        "if one may take over: set synchronous_standby_names, such as 'ANY 1 (*)', with two or "
        "more replicas; if none may: --accept postgres.replicas",
        data=data,
    )


def check_connections(facts: PostgresFacts, wanted: Wanted, limits: Limits) -> Finding:
    """Return whether all workers at their peak fit into the limit."""
    name, counted, settings = "postgres.connections", facts.connections, facts.settings
    for each in (counted, settings):
        if isinstance(each, Unread):
            return unseen(name, each.reason)
    assert isinstance(counted, Connections)  # else it is Unread
    assert not isinstance(settings, Unread)
    most = _limit(counted, settings)
    others = max(0, counted.used - counted.ours - 1)
    found = f"{counted.used} of {most} connections are in use, {counted.ours} by workers"
    data: dict[str, float | None] = {
        "limit": most,
        "used": counted.used,
        "ours": counted.ours,
        "wanted": None,
    }
    if wanted.workers is None:
        if counted.used <= most * limits.connections_share:
            found += "; say --workers (in all) and --pool to compare with their peak"
            return ok(name, found, **data)
        peak = counted.used
    else:
        peak = wanted.workers * POOLS * wanted.pool + others
        found += (
            f"; {wanted.workers} workers take up to {wanted.workers * POOLS * wanted.pool} "
            f"({POOLS} pools of {wanted.pool} each), others have {others}"
        )
        data["wanted"] = peak
    if peak <= most * limits.connections_share:
        return ok(name, found, **data)
    why = (
        "a worker that gets no connection within 5 s answers 503; and while one release replaces "
        "another, the workers of both are there"
    )
    do = (
        "lower pool_connections and handler_connections, run fewer workers, put a pooler in front, "
        "or raise max_connections"
    )
    level = Level.WARNING if peak > most else Level.NOTE
    return Finding(name, level, found, why, do, data=data)


def _limit(counted: Connections, settings: Mapping[str, str]) -> int:
    # Of a worker, which is no superuser: so what is kept free for those is not for it.
    reserved = ("superuser_reserved_connections", "reserved_connections")
    most = int(settings.get("max_connections", 100))
    most -= sum(int(settings.get(each, 0)) for each in reserved)
    own = [each for each in (counted.role_limit, counted.database_limit) if each >= 0]
    return min([most, *own])
