"""What holds up vacuum, and what may be seen by whom; looking itself changes nothing."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql

from replayfloor.server.doctor.limits import Limits
from replayfloor.server.doctor.wanted import Wanted
from server.doctor.examined import (
    NOTE,
    OK,
    WARNING,
    Patient,
    role,
    the,
    worse_than,
)

AT_ONCE = Limits(long_transaction_s=0.0)


def test_a_transaction_that_stays_open_is_found(patient: Patient) -> None:
    assert patient.level("postgres.transactions", AT_ONCE) is OK
    with psycopg.connect(patient.url) as open_one:
        open_one.execute("select 1")

        found = the(patient.examine(AT_ONCE), "postgres.transactions")
        assert found.level is WARNING
        assert "idle in transaction" in found.found
        assert str(open_one.info.backend_pid) in found.found
        assert patient.level("postgres.transactions") is OK


def test_a_transaction_of_another_database_holds_up_nothing_here(
    patient: Patient, postgres_url: str
) -> None:
    with psycopg.connect(postgres_url) as elsewhere:
        elsewhere.execute("select 1")

        assert patient.level("postgres.transactions", AT_ONCE) is OK


def test_a_prepared_transaction_that_nobody_ends_is_found(careless_patient: Patient) -> None:
    with psycopg.connect(careless_patient.url) as connection:
        connection.execute("create table things ()")
        connection.execute("prepare transaction 'forgotten'")

    found = the(careless_patient.examine(AT_ONCE), "postgres.transactions")

    careless_patient.run("rollback prepared 'forgotten'")
    assert found.level is WARNING
    assert "forgotten" in found.found


def test_a_replication_slot_that_nobody_reads_is_found(careless_patient: Patient) -> None:
    careless_patient.run("select pg_create_physical_replication_slot('left', true)")
    careless_patient.run("create table filler as select generate_series(1, 1000)")
    try:
        assert "postgres.slots" not in worse_than(OK, careless_patient.examine())
        limits = Limits(slot_bytes=1)
        assert careless_patient.level("postgres.slots", limits) is WARNING
    finally:
        careless_patient.run("select pg_drop_replication_slot('left')")


# -- an ordinary role -----------------------------------------------------------------------------


def test_an_ordinary_role_is_told_what_it_may_not_see(patient: Patient) -> None:
    with role(patient, "plain"), psycopg.connect(patient.url) as other:
        other.execute("select 1")
        found = patient.examine(AT_ONCE, as_role="plain")

    assert worse_than(NOTE, found) == {}
    unseen = [each.check for each in found if not each.seen]
    assert set(unseen) == {
        "postgres.inbox",
        "postgres.migrations",
        "postgres.orphans",
        "postgres.partitions",
        "postgres.policy",
        "postgres.sessions",
    }
    assert all(each.do for each in found if not each.seen)


def test_a_role_that_is_granted_to_look_sees_all(patient: Patient) -> None:
    with role(patient, "monitor", "in role pg_read_all_stats"):
        patient.run("grant usage on schema replayfloor to monitor")
        patient.run("grant select on all tables in schema replayfloor to monitor")
        # It may write nothing, not even if it tried.
        patient.run("alter role monitor set default_transaction_read_only = on")

        found = patient.examine(as_role="monitor")

    assert all(each.seen for each in found)
    assert worse_than(NOTE, found).keys() == {"postgres.writable"}


def test_looking_changes_nothing(patient: Patient) -> None:
    def transactions() -> object:
        return patient.run("select pg_snapshot_xmax(pg_current_snapshot())")

    def is_untouched() -> bool:
        before = transactions()
        patient.examine(wanted=Wanted(workers=2, rate_per_s=20, retention_s=84 * 3600))
        # A statement that writes, or locks a row, would have been given a number.
        return transactions() == before

    # Autovacuum takes a number now and then as well, but not each time.
    assert any(is_untouched() for _try in range(3))


def test_a_lock_that_others_hold_does_not_hang_the_doctor(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replayfloor.server.doctor.read_postgres.QUESTION_MS", 200)
    with psycopg.connect(patient.url) as ddl:
        ddl.execute(sql.SQL("lock table replayfloor.claims, replayfloor.receipts"))

        found = patient.examine()

    assert the(found, "postgres.orphans").seen is False
    assert the(found, "postgres.partitions").seen is False
    assert the(found, "postgres.claims_index").level is OK
