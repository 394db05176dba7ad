"""How long, how often and how much at once Redis is asked. Pure: numbers and their reasons."""

from __future__ import annotations

LOCK_S = 0.5
"""How long the lock is waited for, all in all: connecting, finding the server that is in charge,
and a second attempt included. It answers in well under a millisecond; what takes longer is an
outage, and Postgres alone is enough then."""

RETRIES = 1
"""A connection that a restarted server has closed fails on first use, and so does the first command
after a failover. Every script may run twice: it recognises its own fence."""

ROUND_TRIPS_MAX = 64
"""Operations on one lock that are under way at once; more wait for their turn, which comes within
some milliseconds. Each takes a connection, and redis-py's pools end at 100 and refuse the next.
With 256 requests at once, 8, 16, 32 and 64 were equally fast: Redis is single-threaded."""

ANY_SERVER = "Redis"
"""Stands for the server where there is but one, or where it is not known yet which it is."""


def sentinel_step_s(timeout_s: float, sentinels: int) -> float:
    """Return how long one sentinel may take, so that the last one and the primary are reached.

    They are asked one after the other, and those that hang are asked first next time as well.
    """
    return timeout_s / (sentinels + 1)


def step_options(step_s: float) -> dict[str, object]:
    """Return a connection's options: what one step may take, and the shortest greeting.

    RESP2, because RESP3 begins with a round trip or two, and changes nothing in our answers.
    """
    return {"socket_timeout": step_s, "socket_connect_timeout": step_s, "protocol": 2}


def whole_options(timeout_s: float) -> dict[str, object]:
    """Return the options of a connection on which a single step has no limit but connecting.

    For what is cancelled as a whole at its end: a limit of a step would never be met before, and
    redis-py makes a task of every write that has one.
    """
    return {**step_options(timeout_s), "socket_timeout": None}


def cluster_options(timeout_s: float) -> dict[str, object]:
    """Return a cluster client's options.

    One node may take half of the time, so that the other half is left to ask another one who is
    in charge now. A shard that is lost does not take the others with it. And a key that has moved
    changes the map for its range, no more: redis-py's asyncio side, when it draws the whole map
    anew, cuts the connections on which other requests wait.
    """
    return {
        **step_options(timeout_s / 2),
        "require_full_coverage": False,
        "reinitialize_steps": 0,
    }
