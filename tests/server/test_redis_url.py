"""The forms of a Redis URL, and options that are refused before anything is connected."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import pytest
import redis
import redis.asyncio

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.locks import open_async_lock, open_lock
from replayfloor.server.locks.redis import RedisLock
from replayfloor.server.locks.redis_async import AsyncRedisLock
from replayfloor.server.locks.redis_url import Address, Cluster, OneServer, Sentinels, parse

SECRET = "open-sesame"

OPENERS: list[Callable[[str], object]] = [open_async_lock, open_lock]


def test_one_server() -> None:
    assert parse("redis://user:p%40ss@host:1/3") == OneServer(
        {"username": "user", "password": "p@ss", "host": "host", "port": 1, "db": 3}, tls=False
    )
    assert parse("redis://host") == OneServer({"host": "host", "db": 0}, tls=False)
    assert parse("rediss://[::1]:7/?ssl_ca_certs=ca.pem") == OneServer(
        {"host": "::1", "port": 7, "db": 0, "ssl_ca_certs": "ca.pem"}, tls=True
    )


def test_a_socket_in_the_file_system() -> None:
    assert parse("unix:///run/redis.sock?db=2") == OneServer(
        {"path": "/run/redis.sock", "db": 2}, tls=False
    )


def test_sentinels() -> None:
    assert parse("redis+sentinel://a,[::1]:2,c:3/service") == Sentinels(
        (Address("a", 26379), Address("::1", 2), Address("c", 3)),
        "service",
        {"db": 0},
        {},
        tls=False,
    )


def test_sentinels_and_their_servers_have_passwords_of_their_own() -> None:
    url = (
        "rediss+sentinel://user:pw@a:1,b:2/service/4"
        "?sentinel_username=watch&sentinel_password=p%20w&ssl_ca_certs=ca.pem"
    )
    assert parse(url) == Sentinels(
        (Address("a", 1), Address("b", 2)),
        "service",
        {"username": "user", "password": "pw", "db": 4, "ssl_ca_certs": "ca.pem"},
        {"username": "watch", "password": "p w", "ssl_ca_certs": "ca.pem"},
        tls=True,
    )


def test_a_cluster() -> None:
    assert parse("redis+cluster://:pw@a:1,b") == Cluster(
        (Address("a", 1), Address("b", 6379)), {"password": "pw"}, tls=False
    )
    assert parse("rediss+cluster://[::1]:7/0?socket_timeout=2") == Cluster(
        (Address("::1", 7),), {"socket_timeout": 2.0}, tls=True
    )


@pytest.mark.parametrize(
    "url",
    [
        f"redis://:{SECRET}@host/database",
        f"redis://:{SECRET}@host:port/0",
        f"redis://user:{SECRET}",
        f"redis+cluster://a:1,user:{SECRET}",
        f"redis://:{SECRET}@[::1/0",
        f"redis://:{SECRET}@a:1,b:2/0",
        f"redis://:{SECRET}/x@host:1/0",
        f"redis://:{SECRET}@host/0?socket_timeout=soon",
        f"redis://:{SECRET}@host/0?no_such_option=1",
        f"redis://:{SECRET}@host/0?decode_responses=1",
        f"rediss://:{SECRET}@host/0?ssl_cert_reqs=perhaps",
        f"unix://:{SECRET}@",
        f"redis+sentinel://:{SECRET}@host:1",
        f"redis+sentinel://:{SECRET}@/service",
        f"redis+sentinel://:{SECRET}@host:1/service/database",
        f"redis+sentinel://:{SECRET}@host:1/service?no_such_option=1",
        f"redis+cluster://:{SECRET}@a:1,,b:2",
        f"redis+cluster://:{SECRET}@a:1/1",
        f"redis+cluster://:{SECRET}@a:1?db=1",
        f"redis+cluster://:{SECRET}@a:1?no_such_option=1",
        f"redis://:{SECRET}@a:1?max_connections=-1",
        f"redis+ring://:{SECRET}@a:1",
        f"http://:{SECRET}@host",
        f"{SECRET}",
    ],
)
@pytest.mark.parametrize("open_one", OPENERS)
def test_a_url_that_means_nothing_is_refused_and_not_repeated(
    open_one: Callable[[str], object], url: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        open_one(url)

    assert SECRET not in "".join(traceback.format_exception(refused.value))
    assert "redis://" in str(refused.value)


@pytest.mark.parametrize("open_one", OPENERS)
@pytest.mark.parametrize(
    "url",
    [
        "redis://192.0.2.1/0",
        "rediss://192.0.2.1/0",
        "unix:///nowhere",
        "redis+sentinel://192.0.2.1/service/1",
        "rediss+sentinel://192.0.2.1/service?ssl_cert_reqs=none",
        "redis+cluster://192.0.2.1,192.0.2.2",
        "rediss+cluster://192.0.2.1?max_connections=20",
    ],
)
def test_opening_a_lock_connects_nothing(open_one: Callable[[str], object], url: str) -> None:
    open_one(url)


def test_an_option_that_redis_py_would_leave_out_in_silence_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="options"):
        open_lock("rediss+cluster://192.0.2.1?ssl_ciphers=ECDHE")


def test_a_client_that_returns_text_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="bytes"):
        RedisLock(redis.Redis(decode_responses=True))
    with pytest.raises(ConfigurationError, match="bytes"):
        AsyncRedisLock(redis.asyncio.Redis(decode_responses=True))


def test_a_blocking_client_that_could_wait_for_ever_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="socket_timeout"):
        RedisLock(redis.Redis(socket_timeout=None))


def test_a_client_of_the_other_colour_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="URL"):
        RedisLock(redis.asyncio.Redis())  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="URL"):
        AsyncRedisLock(redis.Redis())  # type: ignore[arg-type]
