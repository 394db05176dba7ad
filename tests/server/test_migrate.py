"""The Postgres schema: made once, whoever starts first; checked before anything is served."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest
from typer.testing import CliRunner

from replayfloor.cli import command
from replayfloor.core.errors import SchemaMissing, StoreUnavailable
from replayfloor.server.resources import migrations
from replayfloor.server.stores.migrate import PARTITION_WIDTH, PARTITIONS_AHEAD, migrate
from replayfloor.server.stores.postgres_async import AsyncPostgresReceipts

NOBODY = "postgresql://u@127.0.0.1:1/d"  # nothing listens on port 1

COVERED = """
select min(lower(bounds)) <= now(), max(upper(bounds)) - now()
from (select tstzrange(
          (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \\(''([^'']+)'))[1]::timestamptz,
          (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'TO \\(''([^'']+)'))[1]::timestamptz)
      from pg_inherits as i join pg_class as c on c.oid = i.inhrelid
      where i.inhparent = 'replayfloor.receipts'::regclass) as partitions (bounds)
"""

DROP_PARTITIONS = """
do $$
declare v_name text;
begin
    for v_name in
        select c.relname from pg_inherits as i join pg_class as c on c.oid = i.inhrelid
        where i.inhparent = 'replayfloor.receipts'::regclass
          and to_timestamp(substr(c.relname, 10), 'YYYYMMDD_HH24MI') - now() between {bounds}
    loop
        execute format('drop table replayfloor.%I', v_name);
    end loop;
end $$
"""


def run(*arguments: str) -> tuple[int, str]:
    """Return the exit status of a command, and all that it printed."""
    done = CliRunner().invoke(command(), arguments)
    return done.exit_code, " ".join(done.output.split())


def test_a_migration_applies_everything_once_and_may_be_repeated(postgres_url: str) -> None:
    first, second = migrate(postgres_url), migrate(postgres_url)

    assert first.applied == migrations()
    assert first.partitions >= PARTITIONS_AHEAD / PARTITION_WIDTH
    assert (second.applied, second.partitions) == ((), 0)


def test_partitions_cover_today_and_half_a_year(postgres_url: str) -> None:
    migrate(postgres_url)

    with psycopg.connect(postgres_url) as database:
        row = database.execute(COVERED.encode()).fetchone()

    assert row is not None
    assert row[0]
    assert row[1] >= PARTITIONS_AHEAD


def test_each_partition_refuses_a_second_receipt_of_a_key(postgres_url: str) -> None:
    migrate(postgres_url)
    insert = b"insert into replayfloor.receipts values (%s, %s, now(), 1, 200, '')"
    values = ("00" * 16, "11" * 16)

    with psycopg.connect(postgres_url) as database:
        database.execute(insert, values)
        with pytest.raises(psycopg.errors.UniqueViolation):
            database.execute(insert, values)


def test_several_starters_at_once_migrate_one_after_the_other(postgres_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(migrate, [postgres_url] * 4))

    assert sorted(len(each.applied) for each in done) == [0, 0, 0, len(migrations())]


def test_the_command_says_what_it_did(postgres_url: str) -> None:
    first, second = run("migrate", postgres_url), run("migrate", postgres_url)

    assert first[0] == second[0] == 0
    assert all(name in first[1] for name in migrations())
    assert "up to date" in second[1]
    assert "applied" not in second[1]


def test_the_command_fails_on_a_database_that_is_not_there() -> None:
    status, text = run("migrate", NOBODY)

    assert status == 1
    assert "nothing was changed" in text
    with pytest.raises(StoreUnavailable):
        migrate(NOBODY)


def test_sqlite_needs_no_migration() -> None:
    status, text = run("migrate", "sqlite:///receipts.db")

    assert status == 0
    assert "no migration" in text


@pytest.mark.anyio
async def test_a_database_without_schema_is_refused_with_the_command_that_makes_it(
    postgres_url: str,
) -> None:
    with pytest.raises(SchemaMissing, match="run: replayfloor migrate"):
        await AsyncPostgresReceipts(postgres_url).open()


@pytest.mark.anyio
async def test_a_schema_of_an_older_release_is_refused_and_its_lack_named(
    postgres_url: str,
) -> None:
    migrate(postgres_url)
    with psycopg.connect(postgres_url) as database:
        database.execute("delete from replayfloor.migrations where name like '0004%'")

    with pytest.raises(SchemaMissing, match=r"not applied yet: 0004_finish_v1\.sql"):
        await AsyncPostgresReceipts(postgres_url).open()


async def _open_with_partitions_until(
    url: str, ahead: timedelta, caplog: pytest.LogCaptureFixture
) -> str:
    with psycopg.connect(url) as database:
        rows = database.execute(
            b"select c.relname from pg_inherits as i join pg_class as c on c.oid = i.inhrelid"
            b" where i.inhparent = 'replayfloor.receipts'::regclass"
            b" and c.relname > 'receipts_' || to_char(now() + %s, 'YYYYMMDD_HH24MI')",
            (ahead,),
        ).fetchall()
        for (name,) in rows:
            database.execute(f'drop table replayfloor."{name}"'.encode())
    store = AsyncPostgresReceipts(url)
    with caplog.at_level(logging.WARNING):
        await store.open()
    await store.close()
    return caplog.text


@pytest.mark.anyio
async def test_partitions_that_end_soon_are_warned_of(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    migrate(postgres_url)

    text = await _open_with_partitions_until(postgres_url, timedelta(days=10), caplog)

    assert "partitions of receipts end in" in text
    assert "replayfloor migrate" in text


@pytest.mark.anyio
async def test_a_receipt_that_would_have_no_partition_is_refused_at_the_start(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    migrate(postgres_url)

    with pytest.raises(SchemaMissing, match="no partition for today"):
        await _open_with_partitions_until(postgres_url, timedelta(days=-8), caplog)


# -- replayfloor migrate --check ----------------------------------------------------------------


def test_a_check_of_a_database_without_schema_names_it_and_changes_nothing(
    postgres_url: str,
) -> None:
    status, text = run("migrate", "--check", postgres_url)

    assert status == 1
    assert "no replayfloor schema" in text
    with psycopg.connect(postgres_url) as database:
        assert database.execute("select to_regnamespace('replayfloor')").fetchone() == (None,)


def test_a_check_after_a_migration_finds_nothing(postgres_url: str) -> None:
    migrate(postgres_url)

    status, text = run("migrate", "--check", postgres_url)

    assert (status, text) == (0, "Nothing is to be done.")


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (
            "delete from replayfloor.migrations where name like '0004%' or name like '0006%'",
            "not applied yet: 0004_finish_v1.sql, 0006_renew_v1.sql",
        ),
        ("drop index replayfloor.claims_id", "the unique index replayfloor.claims_id is gone"),
        (
            "drop index replayfloor.claims_id; create index claims_id on replayfloor.claims (id)",
            "the unique index replayfloor.claims_id is gone",
        ),
        (DROP_PARTITIONS.format(bounds="'-14 days' and '0 days'"), "no partition for today"),
        (DROP_PARTITIONS.format(bounds="'10 days' and '30 days'"), "partitions of receipts end in"),
    ],
    ids=["migrations", "index", "index-not-unique", "gap-today", "gap-soon"],
)
def test_a_check_names_what_lacks(postgres_url: str, break_it: str, said: str) -> None:
    migrate(postgres_url)
    with psycopg.connect(postgres_url) as database:
        database.execute(break_it.encode())

    status, text = run("migrate", "--check", postgres_url)

    assert status == 1
    assert said in text
    assert "Nothing" not in text


def test_a_server_version_that_was_not_tested_is_only_warned_of(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(postgres_url)
    monkeypatch.setattr("replayfloor.server.stores.migrate.VERSIONS_TESTED", range(3, 5))

    status, text = run("migrate", "--check", postgres_url)

    assert status == 0
    assert "not among the versions tested, 3 to 4" in text


def test_a_check_fails_on_a_database_that_is_not_there() -> None:
    status, text = run("migrate", "--check", NOBODY)

    assert status == 1
    assert "Not checked" in text


def test_neither_command_repeats_a_password() -> None:
    for arguments in (("migrate",), ("migrate", "--check")):
        status, text = run(*arguments, "postgresql://u:s3cr3t%zz@h/d")
        assert status == 1
        assert "s3cr3t" not in text


def test_a_migration_that_makes_partitions_waits_for_no_request(postgres_url: str) -> None:
    migrate(postgres_url)
    with psycopg.connect(postgres_url) as database:
        database.execute(DROP_PARTITIONS.format(bounds="'10 days' and '30 days'").encode())
        database.commit()
        database.execute("select from replayfloor.receipts")

        status, text = run("migrate", postgres_url)

    assert status == 0
    assert "partitions were made" in text
    assert run("migrate", "--check", postgres_url)[0] == 0


def test_a_migration_does_not_hold_requests_up_for_long(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another width needs a lock that no request can share: requests queue behind who waits."""
    migrate(postgres_url)
    monkeypatch.setattr("replayfloor.server.stores.migrate.LOCK_MS", 100)
    with psycopg.connect(postgres_url) as database:
        database.execute("select from replayfloor.receipts")

        status, text = run("migrate", postgres_url, "--retention", "84h")

    assert status == 1
    assert "nothing was changed" in text
    assert run("migrate", postgres_url, "--retention", "84h")[0] == 0
