"""When a failed server is asked again, and which failures count."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, tzinfo
from typing import Self

import pybreaker
import pytest
from redis import exceptions

from replayfloor.server.locks import circuit as circuit_module
from replayfloor.server.locks.circuit import (
    CIRCUITS_MAX,
    OPEN_S,
    Circuit,
    CircuitBreakerError,
    Circuits,
)
from replayfloor.server.locks.redis_failure import is_outage
from server.redis_locks import Clock

THREADS = 16
LOST = exceptions.ConnectionError("connection lost")
DAMAGED = exceptions.ResponseError("WRONGTYPE Operation against a key of another kind")


def circuit(clock: Clock) -> Circuit:
    return Circuit("a server", OPEN_S, clock)


def attempt(of: Circuit, error: BaseException | None = None) -> str:
    """Return what became of one operation."""
    try:
        with of.attempt() as is_probe:
            if error is not None:
                raise error
            return "probed" if is_probe else "done"
    except CircuitBreakerError:
        return "refused"
    except (exceptions.RedisError, asyncio.CancelledError):
        return "failed"


def test_the_first_failure_opens_and_the_first_success_after_the_time_closes() -> None:
    clock = Clock()
    each = circuit(clock)

    assert attempt(each, LOST) == "failed"
    clock.now_s += OPEN_S * 0.99
    assert attempt(each) == "refused"
    clock.now_s += OPEN_S * 0.02
    assert attempt(each) == "probed"
    assert attempt(each) == "done"


def test_a_failed_probe_opens_for_as_long_again() -> None:
    clock = Clock()
    each = circuit(clock)
    attempt(each, LOST)
    clock.let_probe()

    assert attempt(each, LOST) == "failed"
    clock.now_s += OPEN_S * 0.99
    assert attempt(each) == "refused"


def test_an_error_reply_about_one_value_neither_opens_nor_keeps_open() -> None:
    clock = Clock()
    each = circuit(clock)

    assert attempt(each, DAMAGED) == "failed"
    assert attempt(each) == "done"
    attempt(each, LOST)
    clock.let_probe()
    assert attempt(each, DAMAGED) == "failed"
    assert attempt(each) == "done"


def test_a_cancelled_operation_proves_nothing() -> None:
    clock = Clock()
    each = circuit(clock)

    assert attempt(each, asyncio.CancelledError()) == "failed"
    assert attempt(each) == "done"
    attempt(each, LOST)
    clock.let_probe()
    assert attempt(each, asyncio.CancelledError()) == "failed"
    assert attempt(each) == "refused"
    clock.let_probe()
    assert attempt(each) == "probed"


def test_of_threads_that_come_when_the_time_is_over_one_probes() -> None:
    clock = Clock()
    each = circuit(clock)
    attempt(each, LOST)
    clock.let_probe()
    start, end = threading.Barrier(THREADS), threading.Event()

    def come(_number: int) -> str:
        start.wait()
        try:
            with each.attempt():
                end.wait()
                return "probed"
        except CircuitBreakerError:
            return "refused"

    with ThreadPoolExecutor(THREADS) as pool:
        answers = [pool.submit(come, number) for number in range(THREADS)]
        while sum(answer.done() for answer in answers) < THREADS - 1:
            end.wait(0.01)
        end.set()

    assert sorted(answer.result() for answer in answers) == ["probed"] + ["refused"] * (THREADS - 1)


def test_a_wall_clock_that_is_set_back_does_not_keep_it_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    each = circuit(clock)
    attempt(each, LOST)
    clock.let_probe()
    for module in (pybreaker, circuit_module):
        monkeypatch.setattr(module, "datetime", SetBack)

    assert attempt(each) == "probed"


class SetBack(datetime):
    """The wall clock after somebody has set it back by an hour."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return super().now(tz) - timedelta(hours=1)


def test_the_log_tells_of_the_beginning_and_the_end_of_an_outage_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "replayfloor.server")
    clock = Clock()
    each = circuit(clock)
    for _ in range(3):
        attempt(each, LOST)
        clock.let_probe()
    attempt(each)
    attempt(each)

    assert [(record.levelname, record.message) for record in caplog.records] == [
        (
            "WARNING",
            "the lock in a server fails (ConnectionError: connection lost);"
            " every 2 s one request tries it again",
        ),
        ("INFO", "the lock in a server answers again"),
    ]


def test_the_log_repeats_no_password(caplog: pytest.LogCaptureFixture) -> None:
    client = "<redis.client.Redis(<ConnectionPool(<Connection(host=a,password=open-sesame)>)>)>"
    error = exceptions.ConnectionError(f"No master found for 'a' : {client} - timed out")
    attempt(circuit(Clock()), error)

    assert "No master found for 'a' : … - timed out" in caplog.text
    assert "open-sesame" not in caplog.text


def test_each_server_has_a_circuit_of_its_own() -> None:
    circuits = Circuits(OPEN_S, Clock())
    attempt(circuits.of("one"), LOST)

    assert attempt(circuits.of("one")) == "refused"
    assert attempt(circuits.of("other")) == "done"


def test_servers_that_come_and_go_do_not_fill_the_memory() -> None:
    circuits = Circuits(OPEN_S, Clock())
    kept = [circuits.of(f"server {number}") for number in range(10 * CIRCUITS_MAX)]

    assert sum(circuits.of(f"server {n}") is each for n, each in enumerate(kept)) <= CIRCUITS_MAX


@pytest.mark.parametrize(
    "error",
    [
        exceptions.ConnectionError("refused"),
        exceptions.TimeoutError("too late"),
        exceptions.BusyLoadingError("Redis is loading the dataset in memory"),
        exceptions.AuthenticationError("invalid username-password pair"),
        exceptions.ReadOnlyError("You can't write against a read only replica."),
        exceptions.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."),
        exceptions.NoPermissionError("this user has no permissions"),
        exceptions.ClusterDownError("The cluster is down"),
        exceptions.MasterDownError("Link with MASTER is down"),
        exceptions.ResponseError("MISCONF Redis is configured to save RDB snapshots"),
        exceptions.ResponseError("NOREPLICAS Not enough good replicas to write."),
        exceptions.ResponseError("BUSY Redis is busy running a script."),
        exceptions.ResponseError(
            "Error running script (call to f_1): @user_script:3: -OOM command"
        ),
        exceptions.ClusterError("TTL exhausted."),
        exceptions.RedisClusterException("Redis Cluster cannot be connected."),
        exceptions.InvalidResponse("Protocol Error"),
        TimeoutError("too late"),
        OSError("no route to host"),
        AttributeError("a defect"),
    ],
    ids=lambda error: f"{type(error).__name__}: {error}",
)
def test_what_the_next_key_would_meet_too_counts(error: Exception) -> None:
    assert is_outage(error)


@pytest.mark.parametrize(
    "error",
    [
        DAMAGED,
        exceptions.ResponseError("ERR value is not an integer or out of range"),
        exceptions.TryAgainError("Multiple keys request during rehashing of slot"),
        exceptions.MaxConnectionsError("Too many connections"),
    ],
    ids=lambda error: f"{type(error).__name__}: {error}",
)
def test_what_is_about_one_value_or_about_ourselves_does_not_count(error: Exception) -> None:
    assert not is_outage(error)
