"""Claims, indexes, partitions, their maintenance, retention and growth: each is made wrong once."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from replayfloor.server.doctor.check_postgres import check_postgres
from replayfloor.server.doctor.facts_postgres import ClaimsTable, PostgresFacts
from replayfloor.server.doctor.limits import Limits
from replayfloor.server.doctor.wanted import Wanted
from replayfloor.server.stores.maintenance import Keeping
from replayfloor.server.stores.maintenance_postgres import maintain
from replayfloor.server.stores.migrate import migrate
from server.doctor.conftest import KEPT
from server.doctor.examined import CRITICAL, NOTE, OK, WARNING, Patient, the, until, worse_than

HOUR = 3600.0


def _claim(patient: Patient, lease_ended_ago: str) -> None:
    patient.run(
        "insert into replayfloor.claims values (gen_random_uuid(), gen_random_uuid(),"
        f" gen_random_uuid(), now() - interval '2 days', now() - interval '{lease_ended_ago}')"
    )


def _receipts(patient: Patient, count: int, response: str = "''") -> None:
    patient.run(
        "insert into replayfloor.receipts select gen_random_uuid(), gen_random_uuid(), now(), 1,"
        f" 201, {response} from generate_series(1, {count});"
        # Else this session's own counts may arrive after those of the analysis, and on top.
        " select pg_stat_force_next_flush()"
    )
    patient.run("analyze replayfloor.receipts")


# -- claims ---------------------------------------------------------------------------------------


def test_an_orphan_is_noted_and_one_that_nobody_settles_is_a_warning(patient: Patient) -> None:
    _claim(patient, "-30 seconds")
    found = the(patient.examine(), "postgres.orphans")
    assert found.level is OK
    assert found.data["claims"] == 1
    _claim(patient, "59 minutes")
    assert patient.level("postgres.orphans") is NOTE
    _claim(patient, "61 minutes")

    found = the(patient.examine(), "postgres.orphans")

    assert found.level is WARNING
    assert (found.data["claims"], found.data["orphans"]) == (3, 2)
    assert 3660 <= float(str(found.data["oldest_s"])) < 3720


def test_an_event_that_is_dead_or_waits_for_too_long_is_a_warning(patient: Patient) -> None:
    assert patient.level("postgres.inbox") is OK
    patient.run(
        "insert into replayfloor.inbox (id, past_horizon, sealed, namespace, source, endpoint,"
        " event_id, request) values (gen_random_uuid(), false, false, 'default', 'shop', '/hooks',"
        " 'evt_1', '')"
    )
    waiting = the(patient.examine(), "postgres.inbox")
    patient.run("update replayfloor.inbox set received_at = now() - interval '61 minutes'")
    old = the(patient.examine(), "postgres.inbox")
    patient.run("update replayfloor.inbox set state = 'dead', received_at = now()")
    dead = the(patient.examine(), "postgres.inbox")

    assert (waiting.level, old.level, dead.level) == (OK, WARNING, WARNING)
    assert (waiting.data["waiting"], dead.data["dead"]) == (1, 1)
    assert "no worker is running" in old.do
    assert "inbox retry" in dead.do


def test_a_claims_index_that_is_gone_is_critical(patient: Patient) -> None:
    assert patient.level("postgres.claims_index") is OK
    patient.run("drop index replayfloor.claims_id")

    assert patient.level("postgres.claims_index") is CRITICAL


@pytest.mark.parametrize(
    "instead",
    [
        "create index claims_id on replayfloor.claims (id)",
        "create unique index claims_id on replayfloor.claims (id, fence)",
        "create unique index claims_id on replayfloor.claims (id) where lease_until > '2000-1-1'",
    ],
)
def test_an_index_that_does_not_refuse_the_second_claim_is_none(
    patient: Patient, instead: str
) -> None:
    patient.run("drop index replayfloor.claims_id")
    patient.run(instead)

    assert patient.level("postgres.claims_index") is CRITICAL


def test_an_invalid_index_is_none(patient: Patient) -> None:
    patient.run("update pg_index set indisvalid = false where indexrelid ="
                " 'replayfloor.claims_id'::regclass")  # fmt: skip

    assert patient.level("postgres.claims_index") is CRITICAL


def test_a_partition_without_its_index_is_found(patient: Patient) -> None:
    assert patient.level("postgres.receipts_index") is OK
    ((name,),) = patient.run("select name from replayfloor.partitions_v1('receipts') limit 1")
    ((index,),) = patient.run(
        "select indexrelid::regclass::text from pg_index"
        f" where indrelid = 'replayfloor.{name}'::regclass and indisunique"
    )
    patient.run(f"drop index {index}")

    found = the(patient.examine(), "postgres.receipts_index")

    assert found.level is WARNING
    assert str(name) in found.found


def test_dead_rows_of_claims_are_counted_and_found(patient: Patient) -> None:
    few = Limits(claims_dead_rows=50)
    patient.run("alter table replayfloor.claims set (autovacuum_enabled = off)")
    assert patient.level("postgres.claims_table", few) is OK
    for _key in range(60):
        _claim(patient, "1 second")
    patient.run("delete from replayfloor.claims")

    until(lambda: patient.level("postgres.claims_table", few) is WARNING)

    found = the(patient.examine(), "postgres.claims_table")
    assert found.data["dead_rows"] == 60
    assert found.level is OK


def test_a_large_table_of_claims_is_noted() -> None:
    def level(size: int) -> int:
        facts = PostgresFacts(claims_table=ClaimsTable(0, 0, size, autovacuum=True))
        return the(check_postgres(facts), "postgres.claims_table").level

    assert level(Limits().claims_bytes) is OK
    assert level(Limits().claims_bytes + 1) is NOTE


def test_claims_without_autovacuum_are_found(patient: Patient) -> None:
    assert "postgres.claims_autovacuum" not in worse_than(OK, patient.examine())
    patient.run("alter table replayfloor.claims set (autovacuum_enabled = false)")

    assert patient.level("postgres.claims_autovacuum") is WARNING


# -- partitions and their maintenance -------------------------------------------------------------


def _drop(patient: Patient, where: str) -> None:
    rows = patient.run(f"select name from replayfloor.partitions_v1('receipts') where {where}")
    assert rows
    for (name,) in rows:
        patient.run(f"drop table replayfloor.{name}")


def test_no_partition_for_now_is_critical(patient: Patient) -> None:
    assert patient.level("postgres.partitions") is OK
    _drop(patient, "now() between starts_at and ends_at")

    assert patient.level("postgres.partitions") is CRITICAL


def test_no_next_partition_is_a_warning(patient: Patient) -> None:
    _drop(patient, "starts_at > now()")

    found = the(patient.examine(), "postgres.partitions")

    assert found.level is WARNING
    assert "next partition is missing" in found.found


def test_partitions_that_end_soon_are_a_warning(patient: Patient) -> None:
    _drop(patient, "starts_at > now() + interval '20 hours'")

    found = the(patient.examine(), "postgres.partitions")

    assert found.level is WARNING
    assert "partitions end in" in found.found


def test_a_partition_that_is_overdue_is_a_warning(patient: Patient) -> None:
    patient.run(
        "create table replayfloor.receipts_old partition of replayfloor.receipts"
        " for values from ('2020-01-01') to ('2020-01-08')"
    )

    found = the(patient.examine(), "postgres.partitions")

    assert found.level is WARNING
    assert "receipts_old" in found.found


def test_a_plain_table_with_rows_that_should_be_gone_is_a_warning(postgres_url: str) -> None:
    migrate(postgres_url, keeping=KEPT, layout="plain")
    patient = Patient(postgres_url)
    assert patient.level("postgres.partitions") is OK
    patient.run(
        "insert into replayfloor.receipts values (gen_random_uuid(), gen_random_uuid(),"
        " now() - interval '10 days', 1, 201, '')"
    )

    assert patient.level("postgres.partitions") is WARNING


def test_a_maintenance_that_stopped_running_is_a_warning(patient: Patient) -> None:
    assert patient.level("postgres.maintenance") is OK
    patient.run("update replayfloor.maintenance set succeeded_at = now() - interval '24 hours'")
    assert patient.level("postgres.maintenance") is OK
    patient.run("update replayfloor.maintenance set succeeded_at = now() - interval '26 hours'")
    assert patient.level("postgres.maintenance") is WARNING


def test_a_maintenance_that_never_ran_or_failed_is_a_warning(patient: Patient) -> None:
    patient.run("update replayfloor.maintenance set outcome = 'failed', detail = 'disk full'")
    found = the(patient.examine(), "postgres.maintenance")
    assert found.level is WARNING
    assert "disk full" in found.found
    patient.run("update replayfloor.maintenance set ran_at = null, succeeded_at = null")

    assert patient.level("postgres.maintenance") is WARNING


def test_a_database_that_was_told_no_retention_is_noted(patient: Patient) -> None:
    patient.run(
        "update replayfloor.maintenance"
        " set ran_at = null, succeeded_at = null, retention_ms = null, audit_ms = null"
    )

    found = the(patient.examine(), "postgres.maintenance")

    assert found.level is NOTE
    assert "kept for good" in found.why


# -- retention ------------------------------------------------------------------------------------


def test_receipts_that_go_before_the_policy_says_are_critical(patient: Patient) -> None:
    def level(hours: float) -> int:
        return patient.level("postgres.retention", wanted=Wanted(retention_s=hours * HOUR))

    assert level(83) is NOTE
    assert level(84) is OK
    assert level(84.001) is CRITICAL


def _declare(patient: Patient, namespace: str, hours: float, digest: str = "d") -> None:
    patient.run(
        "select replayfloor.declare_policy_v1(%s, %s, %s, 'text', true)",
        (namespace, digest, hours * HOUR),
    )


def test_receipts_that_go_before_a_worker_has_promised_are_critical(patient: Patient) -> None:
    _declare(patient, "one", 84)
    assert patient.level("postgres.retention") is OK
    _declare(patient, "another", 100)

    assert patient.level("postgres.retention") is CRITICAL


def test_a_policy_that_is_not_the_declared_one_is_found(patient: Patient) -> None:
    mine = Wanted(retention_s=84 * HOUR, policy="hooks", digest="a" * 64)

    def found(hours: float, digest: str) -> tuple[int, str]:
        _declare(patient, "default", hours, digest)
        finding = the(patient.examine(wanted=mine), "postgres.policy")
        return finding.level, finding.why

    assert patient.level("postgres.policy") is OK
    assert patient.level("postgres.policy", wanted=mine) is NOTE
    assert found(84, "a" * 64)[0] is OK
    level, why = found(84, "b" * 64)
    assert (level, "another policy" in why) == (WARNING, True)
    level, why = found(85, "c" * 64)
    assert (level, "refused" in why) == (WARNING, True)


def test_a_database_before_policies_are_noted_is_told_to_migrate(patient: Patient) -> None:
    patient.run("drop table replayfloor.policies")
    patient.run("delete from replayfloor.migrations where name like '0020%'")

    found = patient.examine()

    assert the(found, "postgres.policy").seen is False
    assert the(found, "postgres.migrations").level is CRITICAL
    assert the(found, "postgres.partitions").level is OK


def _hour_before_the_first(patient: Patient, number: int) -> None:
    ((end,),) = patient.run("select min(starts_at) from replayfloor.partitions_v1('receipts')")
    assert isinstance(end, datetime)
    patient.run(
        f"create table replayfloor.receipts_p{number} partition of replayfloor.receipts"
        f" for values from ('{end - timedelta(hours=1)}') to ('{end}')"
    )


def test_partitions_that_are_too_wide_or_too_many_are_noted(patient: Patient) -> None:
    assert patient.level("postgres.partition_width") is OK
    patient.run("update replayfloor.maintenance set retention_ms = 3600000")
    assert patient.level("postgres.partition_width") is NOTE
    patient.run("update replayfloor.maintenance set retention_ms = 84 * 3600000")
    for number in range(9):
        _hour_before_the_first(patient, number)

    assert patient.level("postgres.partition_width") is NOTE


# -- growth ---------------------------------------------------------------------------------------

SMALL = Limits(growth_bytes=0)


def test_more_rows_than_the_rate_makes_are_a_warning(patient: Patient) -> None:
    _receipts(patient, 3000)

    def growth(rate: float, limits: Limits = SMALL) -> tuple[int, str]:
        wanted = Wanted(rate_per_s=rate, bytes_per_key=200)
        found = the(patient.examine(limits, wanted), "postgres.growth")
        return found.level, found.why

    # 98 hours, with the width of a partition, of 0.01 a second are 3528 rows.
    assert growth(0.01) == (OK, "")
    level, why = growth(0.001)
    assert (level, "times as many rows" in why) == (WARNING, True)
    assert growth(0.001, Limits()) == (OK, "")


def test_larger_answers_than_estimated_are_a_warning(patient: Patient) -> None:
    # Random, so that it is not compressed.
    noise = "sha512(gen_random_uuid()::text::bytea) || sha512(random()::text::bytea)"
    _receipts(patient, 1000, noise)

    def growth(bytes_per_key: float) -> tuple[int, str]:
        wanted = Wanted(rate_per_s=0.003, bytes_per_key=bytes_per_key)
        found = the(patient.examine(SMALL, wanted), "postgres.growth")
        return found.level, found.do

    level, do = growth(132)
    assert (level, "--bytes-per-key" in do) == (WARNING, True)
    assert growth(330) == (OK, "")


def test_without_a_rate_growth_is_only_told(patient: Patient) -> None:
    _receipts(patient, 100)

    found = the(patient.examine(SMALL), "postgres.growth")

    assert found.level is OK
    assert "--rate" in found.found
    assert found.data["rows"] == 100


def test_all_is_well_again_after_a_run_of_the_maintenance(patient: Patient) -> None:
    _drop(patient, "starts_at > now()")
    patient.run("update replayfloor.maintenance set succeeded_at = now() - interval '26 hours'")
    assert worse_than(NOTE, patient.examine()).keys() == {
        "postgres.partitions",
        "postgres.maintenance",
    }

    maintain(patient.url, Keeping(84 * HOUR), by="a test")

    assert worse_than(OK, patient.examine()) == {}
