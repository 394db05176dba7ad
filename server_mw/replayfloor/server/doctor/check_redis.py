"""What is to be said of one server that holds locks. Pure.

Nothing here is critical: the lock is a fast path, and whatever becomes of it, Postgres refuses the
second claim of a key. What a Redis in trouble costs is time, and load on Postgres.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Final

from replayfloor.server.doctor.check_redis_memory import (
    check_evicted,
    check_eviction,
    check_memory,
    check_stale,
)
from replayfloor.server.doctor.facts_redis import Server
from replayfloor.server.doctor.findings import Finding, Level, ok, unseen
from replayfloor.server.doctor.limits import Limits
from replayfloor.server.locks.redis_limits import LOCK_S, ROUND_TRIPS_MAX

VERSION_NEEDED: Final = (2, 6, 12)
"""The first with SET ... PX, the youngest of what our scripts use."""

SWITCH: Final = {"yes": "1", "no": "0"}


def check_server(server: Server, limits: Limits, workers: int | None) -> Iterator[Finding]:
    """Yield what is to be said of a server that has answered."""
    yield _latency(server, limits)
    if server.info is None:
        yield unseen(
            "redis.info",
            "this user may not use INFO",
            "grant it (ACL SETUSER ... +info), or look at the provider's own metrics for "
            "evictions, memory and the version",
        )
    else:
        yield _version(server)
        yield check_memory(server, limits)
        yield check_stale(server, limits)
        yield from _writes(server)
        yield _connections(server, workers)
    yield check_eviction(server)
    yield check_evicted(server)
    yield _persistence(server)
    if server.config is None:
        yield unseen(
            "redis.config",
            "this user may not use CONFIG GET, as is usual where Redis is managed",
            "look at the provider's parameters for save, appendfsync, min-replicas-to-write and "
            "stop-writes-on-bgsave-error",
        )


def _persistence(server: Server) -> Finding:
    name = "redis.persistence"
    aof = server.text("aof_enabled") or SWITCH.get(server.option("appendonly") or "")
    saves = server.option("save")
    if aof is None and saves is None:
        return unseen(name, "neither INFO nor CONFIG tells of it; none is needed")
    kept = "an append-only file" if aof == "1" else "no append-only file"
    if saves is not None:
        kept += ", snapshots" if saves else ", no snapshots"
    fact = f"{kept}; none is needed for correctness: the receipts are in Postgres"
    if aof == "1" and server.option("appendfsync") == "always":
        return Finding(
            name,
            Level.NOTE,
            f"{fact}; appendfsync is always",
            "each request waits for the disk twice, for a durability that nothing here relies on",
            "on a server that only holds locks: CONFIG SET appendfsync everysec, or appendonly no",
        )
    return ok(name, fact)


def _writes(server: Server) -> Iterator[Finding]:
    """Yield why the server would refuse to write, if it would."""
    name = "redis.writes"
    needed = server.number("min_slaves_good_slaves")
    wanted = int(server.option("min-replicas-to-write") or 0)
    reason, do = "", ""
    if server.text("loading") == "1" or server.text("async_loading") == "1":
        reason, do = "it is still loading its file", "wait"
    elif server.text("role") in ("slave", "replica"):
        reason = "it is a replica"
        do = "name the primary in the URL, or the sentinels: redis+sentinel://host:26379/service"
    elif server.text("aof_last_write_status") == "err":
        reason, do = "its last write to the append-only file failed", "look at its disk"
    elif (
        server.text("rdb_last_bgsave_status") == "err"
        and server.option("save") != ""
        and server.option("stop-writes-on-bgsave-error") != "no"
    ):
        reason = "its last snapshot failed, and stop-writes-on-bgsave-error is on"
        do = "look at its disk, or switch snapshots off: no persistence is needed"
    elif wanted and needed is not None and needed < wanted:
        reason = f"min-replicas-to-write is {wanted}, and {needed:.0f} replicas follow"
        do = "repair the replicas, or CONFIG SET min-replicas-to-write 0"
    if reason:
        why = (
            "a lock is a write: each is refused, and every request goes to Postgres, slower; none "
            "is executed twice"
        )
        yield Finding(name, Level.WARNING, f"it refuses to write: {reason}", why, do)
    else:
        yield ok(name, "nothing keeps it from writing")


def _version(server: Server) -> Finding:
    name = "redis.version"
    valkey, redis = server.text("valkey_version"), server.text("redis_version")
    if redis is None:
        return unseen(name, "INFO does not tell redis_version")
    shown = f"Valkey {valkey} (as Redis {redis})" if valkey else f"Redis {redis}"
    numbers = tuple(int(part) for part in redis.split(".") if part.isdecimal())
    if numbers >= VERSION_NEEDED:
        return ok(name, shown, version=valkey or redis)
    needed = ".".join(map(str, VERSION_NEEDED))
    why = f"the lock's scripts need {needed}: without them every request goes to Postgres"
    return Finding(name, Level.WARNING, shown, why, "upgrade it", data={"version": redis})


def _connections(server: Server, workers: int | None) -> Finding:
    name = "redis.connections"
    most, used = server.number("maxclients"), server.number("connected_clients")
    if most is None:
        most = _option_number(server, "maxclients")
    if most is None or used is None:
        return unseen(name, "INFO does not tell maxclients")
    data: dict[str, float | None] = {"connected": used, "maxclients": most, "workers": workers}
    found = f"{used:,.0f} of {most:,.0f} connections are in use"
    if rejected := server.number("rejected_connections"):
        found += f"; {rejected:,.0f} were refused since the server started"
    wanted = (workers or 0) * ROUND_TRIPS_MAX
    if wanted:
        found += f"; {workers} workers take up to {wanted:,}"
    if wanted <= most:
        return ok(name, found, **data)
    why = (
        f"each worker takes up to {ROUND_TRIPS_MAX} at the peak; one that is refused finds no "
        "lock, and its requests go to Postgres"
    )
    return Finding(name, Level.NOTE, found, why, f"raise maxclients to {wanted:,}", data=data)


def _option_number(server: Server, name: str) -> float | None:
    text = server.option(name)
    return float(text) if text is not None and text.isdecimal() else None


def _latency(server: Server, limits: Limits) -> Finding:
    name = "redis.latency"
    if not server.pings_s:
        return unseen(name, "no round trip was measured")
    middle = median(server.pings_s)
    found = f"a round trip takes {middle * 1000:.2f} ms (median of {len(server.pings_s)})"
    data = {"median_s": middle, "longest_s": max(server.pings_s)}
    if middle >= limits.redis_latency_warning_s:
        why = (
            f"the lock is waited for {LOCK_S:g} s at most, connecting included: it will count as "
            "away now and then, and until then it holds up every request"
        )
        do = "find out what slows it down (SLOWLOG, the network), or run without it: lock='local'"
        return Finding(name, Level.WARNING, found, why, do, data=data)
    if middle >= limits.redis_latency_note_s:
        why = "Postgres alone would answer a duplicate about as fast as this fast path does"
        return Finding(name, Level.NOTE, found, why, "run it nearer to the workers", data=data)
    return ok(name, found, **data)
