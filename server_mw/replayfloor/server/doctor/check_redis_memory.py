"""What is to be said of a lock server's memory: what it throws out, and how full it is. Pure."""

from __future__ import annotations

from typing import Final

from replayfloor.retention.storage import size_text
from replayfloor.server.doctor.facts_redis import Server
from replayfloor.server.doctor.findings import Finding, Level, ok, unseen
from replayfloor.server.doctor.limits import Limits

NOEVICTION: Final = "noeviction"

NO_HOT_SET: Final = (
    "an idempotency store has no hot set: each key is written once and, if all goes well, never "
    "read again, and the one that matters is the one whose late retry is still to come; neither "
    "how recently nor how often a key was used says which that is"
)

COSTS_TIME: Final = (
    "it costs no correctness: who finds no lock goes to Postgres, which refuses the second claim "
    "and has the receipt; it costs a round trip to Postgres for each duplicate and each replay "
    "that Redis would have answered"
)

THROWN_OUT: Final = {
    "volatile": "each of our keys has a time to live, so they are among what it throws out",
    "volatile-ttl": (
        "each of our keys has a time to live, and volatile-ttl throws out what would end soonest: "
        "the locks of requests that are being executed (30 s by default) go before the answers of "
        "finished ones"
    ),
    "allkeys": "the server's other keys, without a time to live, can go as well",
}

UNLIMITED: Final = "0"


def check_eviction(server: Server) -> Finding:
    """Return what it would throw out, were it full."""
    name = "redis.eviction"
    policy = server.text("maxmemory_policy") or server.option("maxmemory-policy")
    limit = server.text("maxmemory") or server.option("maxmemory")
    if policy is None:
        return unseen(name, "neither INFO nor CONFIG tells maxmemory-policy")
    if policy == NOEVICTION:
        return ok(name, "maxmemory-policy is noeviction: nothing is thrown out", policy=policy)
    detail = THROWN_OUT.get(policy) or THROWN_OUT.get(policy.partition("-")[0], "")
    why = f"{NO_HOT_SET}{'; ' + detail if detail else ''}; {COSTS_TIME}"
    found = f"maxmemory-policy is {policy}: under pressure it throws out keys that have not ended"
    do = "CONFIG SET maxmemory-policy noeviction, on a server of its own for the locks"
    level = Level.WARNING
    if limit == UNLIMITED:
        found += "; there is no maxmemory yet, so it never comes to that"
        level = Level.NOTE
    return Finding(name, level, found, why, do, data={"policy": policy})


def check_evicted(server: Server) -> Finding:
    """Return what it has thrown out."""
    name = "redis.evicted_keys"
    count = server.number("evicted_keys")
    if count is None:
        return unseen(name, "INFO does not tell evicted_keys")
    if not count:
        return ok(name, "no key was thrown out since the server started", evicted_keys=0)
    return Finding(
        name,
        Level.WARNING,
        f"{count:,.0f} keys were thrown out since the server started",
        f"locks or kept answers may be among them; {COSTS_TIME}",
        "give the server more memory or a lower load, and set maxmemory-policy to noeviction; "
        "CONFIG RESETSTAT sets the count back",
        data={"evicted_keys": count},
    )


def check_memory(server: Server, limits: Limits) -> Finding:
    """Return how full it is, and what happens when it is."""
    name = "redis.memory"
    used, most = server.number("used_memory"), server.number("maxmemory")
    if used is None or most is None:
        return unseen(name, "INFO does not tell used_memory and maxmemory")
    if not most:
        return Finding(
            name,
            Level.NOTE,
            f"{size_text(int(used))} are used, and there is no maxmemory",
            "a server that grows beyond its machine is killed, and the lock is away for as long as "
            "it takes to start again; requests go on, on Postgres alone",
            "set maxmemory below what the machine has, and watch it",
            data={"used_bytes": used, "maxmemory_bytes": None},
        )
    share = used / most
    found = f"{size_text(int(used))} of {size_text(int(most))} are used ({share:.0%})"
    data = {"used_bytes": used, "maxmemory_bytes": most}
    if share < limits.redis_memory_share:
        return ok(name, found, **data)
    refusing = (server.text("maxmemory_policy") or NOEVICTION) == NOEVICTION
    why = (
        "a full server refuses every new lock, and the first refusal takes the lock out of use for "
        "some seconds: all requests go to Postgres, none is executed twice"
        if refusing
        else f"a full server throws out keys that have not ended; {COSTS_TIME}"
    )
    do = "give it more memory, or keep the answers for a shorter time"
    return Finding(name, Level.WARNING, found, why, do, data=data)


def check_stale(server: Server, limits: Limits) -> Finding:
    """Return how much memory is held by what has ended."""
    name = "redis.expired_stale"
    percent = server.number("expired_stale_perc")
    if percent is None:
        return unseen(name, "INFO does not tell expired_stale_perc")
    found = f"about {percent:g} % of the keys have ended and still take memory"
    if percent <= limits.redis_stale_percent:
        return ok(name, found, expired_stale_percent=percent)
    return Finding(
        name,
        Level.NOTE,
        found,
        "it is memory only: a key that has ended is never shown, removed or not",
        "if memory is short, raise active-expire-effort",
        data={"expired_stale_percent": percent},
    )
