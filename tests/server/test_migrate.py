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
