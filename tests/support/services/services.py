"""The servers of one run: started when first asked for, all gone after `close`."""

from __future__ import annotations

import contextlib
import os
from types import TracebackType
from typing import Self

from .account import Account
from .binaries import find_postgres, find_redis
from .postgres_server import Postgres
from .processes import Watchdog
from .redis_cluster import RedisCluster
from .redis_sentinels import RedisSentinels
from .redis_server import Redis
from .server import Server, Site


class Services:
    """`with Services() as services: services.postgres.url, services.redis.url`."""

    def __init__(self) -> None:
        account = Account.choose()
        base = account.make_dir()
        # Nothing else: PGHOST, PGDATA or LANG of the caller would leak in.
        env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C",
            "TZ": "UTC",
            "HOME": str(base),
        }
        self.site = Site(base=base, account=account, env=env, watchdog=Watchdog(base))
        self._servers: list[Server] = []
        self._postgres: Postgres | None = None
        self._redis: Redis | None = None
        self._redis_cluster: RedisCluster | None = None
        self._redis_sentinels: RedisSentinels | None = None

    @property
    def postgres(self) -> Postgres:
        """The Postgres, made and started by the first who asks."""
        if self._postgres is None:
            binaries = find_postgres()
            bin_dir = binaries.readable_by(self.site.account, self.site.base / "bin")
            postgres = Postgres(self.site, bin_dir)
            postgres.create()
            self.adopt(postgres)
            self._postgres = postgres
        return self._postgres

    @property
    def redis(self) -> Redis:
        """The Redis, started by the first who asks."""
        if self._redis is None:
            redis = Redis(self.site, find_redis())
            self.adopt(redis)
            self._redis = redis
        return self._redis

    @property
    def redis_cluster(self) -> RedisCluster:
        """The Redis Cluster, formed for the first who asks."""
        if self._redis_cluster is None:
            cluster = RedisCluster(self.site, find_redis())
            for node in cluster.nodes:
                self.adopt(node)
            cluster.form()
            self._redis_cluster = cluster
        return self._redis_cluster

    @property
    def redis_sentinels(self) -> RedisSentinels:
        """The Redis that sentinels watch, started by the first who asks."""
        if self._redis_sentinels is None:
            watched = RedisSentinels(self.site, find_redis())
            for server in watched.servers:
                self.adopt(server)
            watched.follow()
            for sentinel in watched.sentinels:
                self.adopt(sentinel)
            watched.wait_until_whole()
            self._redis_sentinels = watched
        return self._redis_sentinels

    def adopt(self, server: Server) -> None:
        """Start a further server that is stopped with the others."""
        self._servers.append(server)
        server.start()

    def close(self) -> None:
        """Stop every server and remove their files."""
        for server in reversed(self._servers):
            with contextlib.suppress(RuntimeError):
                if server.crashed:
                    # Else kill -9 of a Postgres leaves its shared memory behind.
                    server.start()
            server.stop()
        self.site.watchdog.close()  # removes the directory

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
