"""What is wrong with the receipts' database is found, on a real one that is made wrong."""

from __future__ import annotations

import time

import pytest

from replayfloor.server.doctor.check_postgres import check_postgres
from replayfloor.server.doctor.facts_postgres import PostgresFacts
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
    worse_than,
)
from support.services import Postgres


def test_nothing_is_wrong_with_a_database_that_is_as_it_should_be(patient: Patient) -> None:
    found = patient.examine(wanted=Wanted(workers=2, rate_per_s=20, retention_s=84 * 3600))

    assert worse_than(OK, found) == {}
    assert all(each.seen for each in found)
    assert len(found) > 20


# -- reached at all -------------------------------------------------------------------------------


def test_a_server_that_does_not_answer_is_critical_and_no_traceback() -> None:
    found = check_postgres(read_postgres("postgresql://me:very-secret@127.0.0.1:1/x"))

    assert [(each.check, each.level) for each in found] == [("postgres.reachable", CRITICAL)]
    assert "very-secret" not in repr(found)


def test_a_server_that_hangs_does_not_hang_the_doctor(
    careless: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replayfloor.server.doctor.read_postgres.CONNECT_S", 2)
    careless.freeze()
    try:
        found = check_postgres(read_postgres(careless.url))
    finally:
        careless.thaw()

    assert the(found, "postgres.reachable").level is CRITICAL


def test_a_server_that_hangs_in_the_middle_is_left(
    careless: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replayfloor.server.doctor.read_postgres.ALL_S", 0.5)

    def clock() -> float:
        careless.freeze()
        return time.time()

    try:
        found = check_postgres(read_postgres(careless.url, host_clock=clock))
    finally:
        careless.thaw()

    assert the(found, "postgres.reachable").level is CRITICAL


def test_a_url_that_is_none_is_critical() -> None:
    found = check_postgres(read_postgres("postgresql://%%%"))

    assert the(found, "postgres.reachable").level is CRITICAL


def test_a_database_that_was_never_migrated_is_critical(postgres_url: str) -> None:
    found = check_postgres(read_postgres(postgres_url))

    assert worse_than(NOTE, found) == {
        "postgres.migrations": "the database has no replayfloor schema"
    }
    assert the(found, "postgres.migrations").level is CRITICAL


def test_a_migration_that_is_missing_is_critical(patient: Patient) -> None:
    assert patient.level("postgres.migrations") is OK
    patient.run("delete from replayfloor.migrations where name like '0006%'")

    found = the(patient.examine(), "postgres.migrations")

    assert found.level is CRITICAL
    assert "0006_renew_v1.sql" in found.found


# -- what a commit is worth -----------------------------------------------------------------------


def test_fsync_off_is_critical(careless_patient: Patient, patient: Patient) -> None:
    assert careless_patient.level("postgres.fsync") is CRITICAL
    assert patient.level("postgres.fsync") is OK


@pytest.mark.parametrize(
    ("setting", "check"),
    [
        ("full_page_writes", "postgres.full_page_writes"),
        ("autovacuum", "postgres.autovacuum"),
        ("track_counts", "postgres.autovacuum"),
    ],
)
def test_a_setting_of_the_server_that_is_off_is_found(
    careless_patient: Patient, setting: str, check: str
) -> None:
    assert careless_patient.level(check) is OK
    careless_patient.run(f"alter system set {setting} = off")
    careless_patient.run("select pg_reload_conf()")
    until(lambda: careless_patient.run(f"show {setting}") == [("off",)])

    assert careless_patient.level(check) is WARNING


def test_synchronous_commit_off_is_found_with_what_it_does_not_concern(patient: Patient) -> None:
    assert patient.level("postgres.synchronous_commit") is OK
    patient.run(f"alter database {patient.name} set synchronous_commit = off")

    found = the(patient.examine(), "postgres.synchronous_commit")

    assert found.level is WARNING
    assert "claims and receipts wait for the disk all the same" in found.why


def test_a_setting_of_another_role_is_seen(patient: Patient) -> None:
    with role(patient, "handlers"):
        patient.run("alter role handlers set synchronous_commit = off")

        found = the(patient.examine(), "postgres.synchronous_commit")

    assert found.level is WARNING
    assert "role handlers" in found.found


@pytest.mark.parametrize(
    ("value", "standbys", "level"),
    [
        ("local", "", OK),
        ("local", "ANY 1 (*)", WARNING),
        ("remote_write", "ANY 1 (*)", NOTE),
        ("remote_apply", "ANY 1 (*)", OK),
        ("on", "ANY 1 (*)", OK),
        ("off", "", WARNING),
    ],
)
def test_what_a_commit_waits_for_is_judged_with_the_standbys(
    value: str, standbys: str, level: int
) -> None:
    settings = {"synchronous_commit": value, "synchronous_standby_names": standbys}

    found = check_postgres(PostgresFacts(settings=settings, overrides=()))

    assert the(found, "postgres.synchronous_commit").level is level


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_an_isolation_under_which_claims_are_refused_is_critical(
    patient: Patient, isolation: str
) -> None:
    assert patient.level("postgres.isolation") is OK
    patient.run(f"alter database {patient.name} set default_transaction_isolation = '{isolation}'")

    assert patient.level("postgres.isolation") is CRITICAL


def test_an_isolation_of_a_workers_role_is_found_by_another(patient: Patient) -> None:
    with role(patient, "worker"):
        patient.run("alter role worker set default_transaction_isolation = 'serializable'")

        found = the(patient.examine(), "postgres.isolation")

    assert found.level is WARNING
    assert "role worker" in found.found


def test_a_role_that_may_only_read_is_found(patient: Patient) -> None:
    assert patient.level("postgres.writable") is OK
    with role(patient, "looker"):
        patient.run("alter role looker set default_transaction_read_only = on")

        assert the(patient.examine(), "postgres.writable").level is NOTE
        assert the(patient.examine(as_role="looker"), "postgres.writable").level is CRITICAL
