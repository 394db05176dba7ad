"""The blocking lock puts together what its threads ask; each thread has its own answer."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest
import redis

from replayfloor.core.claims import (
    Acquired,
    Cached,
    Held,
    LockUnavailable,
    Release,
)
from replayfloor.server.locks.redis import RedisLock
from replayfloor.server.locks.redis_wire import key_of
from replayfloor.testing.contract import LONG_MS, receipt
from server.coalescing import LIMIT_S, together
from server.redis_locks import request
from server.wsgi_client import Worker, environ, serve

MANY = 24


# -- the lock -------------------------------------------------------------------------------------


@pytest.fixture
def lock(redis_url: str) -> Iterator[RedisLock]:
    """A blocking lock, with patience."""
    lock = RedisLock(redis_url, timeout_s=LIMIT_S)
    yield lock
    lock.close()


def test_operations_on_the_lock_that_wait_together_are_one_script_call(
    lock: RedisLock, redis_url: str
) -> None:
    crowd, one, other = together(lock._operations), request(), request()
    lock.acquire(one)
    lock.acquire(other)
    with redis.Redis.from_url(redis_url) as client:
        client.config_resetstat()
        answers = crowd.ask(
            lambda: lock.acquire(request()),
            lambda: lock.acquire(request(one.id)),
            lambda: lock.release(Release(other.id, other.fence, receipt(), LONG_MS)),
        )
        stats = cast("dict[str, dict[str, int]]", client.info("commandstats"))

    assert answers[0] == Acquired()
    assert isinstance(answers[1], Held)
    assert answers[2] is True
    assert lock.acquire(request(other.id)) == Cached(receipt())
    # A server that has not seen the script yet is given its text.
    ran = [stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "eval")]
    assert ran in ([1, 0], [1, 1])


def test_a_value_that_is_no_lock_costs_its_own_key_the_lock_and_no_other(
    lock: RedisLock, redis_url: str
) -> None:
    spoilt = request()
    with redis.Redis.from_url(redis_url) as client:
        client.rpush(key_of(spoilt.id), "x")
    answers = together(lock._operations).ask(
        lambda: lock.acquire(request()),
        lambda: lock.acquire(spoilt),
        lambda: lock.acquire(request()),
    )

    assert answers == [Acquired(), LockUnavailable(), Acquired()]


def test_a_retry_directly_after_the_answer_never_meets_the_old_lock(lock: RedisLock) -> None:
    """The release is not waited for, and it comes before whatever comes later."""
    met: list[object] = []

    def rounds() -> None:
        one = request()
        for _ in range(200):
            taken = lock.acquire(one)
            lock.release_soon(Release(one.id, one.fence))
            one = request(one.id)
            if taken != Acquired():
                met.append(taken)

    with ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(rounds) for _ in range(4)]:
            each.result(60)

    assert met == []


def test_a_retry_directly_after_the_answer_is_replayed_by_the_middleware(
    worker: Worker, redis_url: str
) -> None:
    lock = RedisLock(redis_url, timeout_s=LIMIT_S)
    app = worker.protect(worker.answering(), lock=lock)
    for number in range(200):
        first, retry = (serve(app, environ(key=f'"{number}"')) for _ in range(2))
        assert (first.status, retry.status) == (201, 201), number
        assert retry.brief[2] is True
    lock.close()

    assert worker.rows == 200


def test_closing_the_lock_performs_what_was_put_off(redis_url: str) -> None:
    lock, ones = RedisLock(redis_url, timeout_s=LIMIT_S), [request() for _ in range(MANY)]
    for one in ones:
        lock.acquire(one)
    crowd, closing = together(lock._operations), threading.Thread(target=lock.close)
    letting_go = crowd.hold()
    for one in ones:
        lock.release_soon(Release(one.id, one.fence))
    closing.start()
    closing.join(0.1)
    assert closing.is_alive()
    letting_go()
    closing.join(LIMIT_S)

    with redis.Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0


ENDS = """
import sys
from replayfloor.core.claims import Release
from replayfloor.server.locks.redis import RedisLock
from server.redis_locks import request

lock, one = RedisLock(sys.argv[1], timeout_s=5.0), request()
lock.acquire(one)
lock.release_soon(Release(one.id, one.fence))
sys.exit(0)
"""


def test_a_worker_that_ends_leaves_no_lock_behind(redis_url: str) -> None:
    tests = Path(__file__).parents[1]
    code = f"import sys; sys.path[:0] = {[str(tests), *sys.path]!r}\n{ENDS}"
    with redis.Redis.from_url(redis_url) as client:
        for _ in range(3):
            subprocess.run([sys.executable, "-c", code, redis_url], timeout=60, check=True)
            assert client.dbsize() == 0
