"""What is wrong with the server of the receipts: clock, pooler, limits, replicas."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from replayfloor.server.doctor.check_postgres import check_postgres
from replayfloor.server.doctor.facts_postgres import Answering, Clock, PostgresFacts
from replayfloor.server.doctor.read_postgres import read_postgres
from replayfloor.server.doctor.wanted import Wanted
from server.doctor.examined import (
    CRITICAL,
    NOTE,
    OK,
    WARNING,
    Patient,
    role,
    the,
    until,
)
from support.services import Postgres
from support.services.pgbouncer import PgBouncer


@pytest.mark.parametrize(
    ("version", "level"), [(140012, WARNING), (150003, OK), (180006, OK), (190001, NOTE)]
)
def test_a_version_that_nobody_has_tested_is_told(version: int, level: int) -> None:
    found = check_postgres(PostgresFacts(answering=Answering(version)))

    assert the(found, "postgres.version").level is level


@pytest.mark.parametrize(
    ("ahead_s", "level", "says"),
    [
        (0.0, OK, ""),
        (5.0, NOTE, "too early"),
        (-5.0, NOTE, "behind"),
        (59.0, NOTE, "too early"),
        (61.0, WARNING, "too early"),
        (-59.0, NOTE, "in time"),
        (-61.0, CRITICAL, "second time"),
        (400.0, WARNING, "too early"),
        (-400.0, CRITICAL, "fresh keys are refused"),
    ],
)
def test_a_difference_of_the_clocks_is_found_and_what_it_does(
    patient: Patient, ahead_s: float, level: int, says: str
) -> None:
    facts = read_postgres(patient.url, host_clock=lambda: time.time() + ahead_s)

    found = the(check_postgres(facts), "postgres.clock")

    assert found.level is level
    assert says in found.why
    least, most = (float(str(found.data[name])) for name in ("least_s", "most_s"))
    assert least <= -ahead_s + 0.01
    assert most >= -ahead_s - 0.01


def test_a_long_round_trip_is_no_difference_of_the_clocks() -> None:
    def level(least_s: float, most_s: float) -> int:
        found = check_postgres(PostgresFacts(clock=Clock(least_s, most_s)))
        return the(found, "postgres.clock").level

    assert level(-2.0, 2.0) is OK
    assert level(-0.5, 100.0) is NOTE
    assert level(2.0, 6.0) is NOTE
    assert level(-200.0, -100.0) is WARNING
    assert level(100.0, 200.0) is CRITICAL


def test_a_pooler_in_front_is_noticed(patient: Patient) -> None:
    assert patient.level("postgres.pooler") is OK
    with _greeting_proxy(patient) as url:
        found = check_postgres(read_postgres(url))

    assert the(found, "postgres.pooler").level is NOTE
    assert the(found, "postgres.partitions").level is OK


def test_a_real_pgbouncer_is_noticed_and_all_is_read_through_it(
    patient: Patient, pgbouncer: PgBouncer
) -> None:
    found = check_postgres(read_postgres(pgbouncer.url_of(patient.name)))

    assert the(found, "postgres.pooler").level is NOTE
    assert all(each.seen for each in found)


@contextmanager
def _greeting_proxy(patient: Patient) -> Iterator[str]:
    """Stand in front of a server as a pooler does: with a process number of its own."""
    host, port = "127.0.0.1", int(patient.url.rpartition(":")[2].partition("/")[0])
    own = struct.pack("!ci", b"K", 12)

    def carry(source: socket.socket, target: socket.socket, *, alter: bool) -> None:
        while data := _received(source):
            if alter and (at := data.find(own)) >= 0:
                pid = struct.pack("!i", 1 + struct.unpack("!i", data[at + 5 : at + 9])[0])
                data, alter = data[: at + 5] + pid + data[at + 9 :], False
            with suppress(OSError):
                target.sendall(data)
        for each in (source, target):
            each.close()

    def serve(listener: socket.socket) -> None:
        while client := _accepted(listener):
            server = socket.create_connection((host, port))
            for source, target, alter in ((client, server, False), (server, client, True)):
                threading.Thread(
                    target=carry, args=(source, target), kwargs={"alter": alter}, daemon=True
                ).start()

    with closing(socket.create_server((host, 0))) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield patient.url.replace(f":{port}/", f":{listener.getsockname()[1]}/")
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def _received(source: socket.socket) -> bytes:
    try:
        return source.recv(65536)
    except OSError:
        return b""


def _accepted(listener: socket.socket) -> socket.socket | None:
    try:
        return listener.accept()[0]
    except OSError:
        return None


def test_workers_whose_pools_do_not_fit_into_the_limit_are_found(careless_patient: Patient) -> None:
    def level(workers: int | None, pool: int) -> int:
        wanted = Wanted(workers=workers, pool=pool)
        return careless_patient.level("postgres.connections", wanted=wanted)

    # 20 connections, of which 3 are kept for superusers.
    assert level(None, 10) is OK
    assert level(1, 5) is OK
    assert level(1, 8) is NOTE
    assert level(1, 9) is WARNING
    assert level(4, 2) is NOTE
    assert level(5, 2) is WARNING


def test_the_limit_of_the_role_and_that_of_the_database_count(patient: Patient) -> None:
    with role(patient, "narrow", "connection limit 5"):
        found = the(patient.examine(as_role="narrow"), "postgres.connections")
        assert found.data["limit"] == 5
    patient.run(f"alter database {patient.name} connection limit 12")

    found = the(patient.examine(wanted=Wanted(workers=1)), "postgres.connections")

    assert found.data["limit"] == 12
    assert found.level is WARNING


# -- replicas -------------------------------------------------------------------------------------


def test_what_survives_a_failover_follows_from_the_standbys(
    careless: Postgres, careless_patient: Patient
) -> None:
    def told(names: str) -> None:
        careless_patient.run(f"alter system set synchronous_standby_names = '{names}'")
        careless_patient.run("select pg_reload_conf()")
        until(lambda: careless_patient.run("show synchronous_standby_names") == [(names,)])

    replicas = "postgres.replicas"
    assert careless_patient.level(replicas) is OK
    told("ghost")
    assert careless_patient.level(replicas) is CRITICAL
    told("")
    standby = careless.standby("careless-standby")
    standby.start()
    try:
        following = "select count(*) from pg_stat_replication where state = 'streaming'"
        until(lambda: careless_patient.run(following) == [(1,)])
        assert careless_patient.level(replicas) is WARNING
        told("*")
        until(lambda: careless_patient.level(replicas) is OK)
        behind = Patient(standby.url_of(careless_patient.name))
        until(lambda: behind.level("postgres.writable") is CRITICAL)
    finally:
        told("")
        standby.stop()
