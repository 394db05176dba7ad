"""The benchmarks run, fill what they say, and notice what they are for. No time is judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from support.sources import ROOT

SHORT = ("--rows", "20000", "--base-rows", "2000", "--blocks", "1", "--operations", "30")
ENDS_WITHIN_S = 120.0
"""Seconds for three databases of a few thousand rows: some five, on a quiet machine."""

MS = 1_000_000


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def test_claims_by_size_fills_and_measures_and_reports(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"

    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.claims_by_size", *SHORT, "--json", str(figures)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=ENDS_WITHIN_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    found = json.loads(figures.read_text(encoding="utf-8"))
    assert "fsync on, synchronous_commit on" in found["postgres"]
    assert {each["name"]: each["rows"] for each in found["databases"]} == {
        "small": 2_000, "large": 20_000, "control": 2_000,
    }  # fmt: skip
    measured = [(each["connections"], each["operation"]) for each in found["results"]]
    assert measured == [(at, op) for at in (1, 16) for op in ("first claim", "finish", "replay")]
    for each in found["results"]:
        for name in ("small", "large", "control"):
            assert 0 < each[name]["median_ms"] <= each[name]["p99_ms"]
        assert len([line for line in done.stdout.splitlines() if each["operation"] in line]) == 2


def test_six_partitions_are_equally_full_of_live_receipts(postgres_url: str) -> None:
    from benchmarks.receipts import RETENTION_S, fill, id_of

    fill(postgres_url, "test", 600, lambda _: None)

    with psycopg.connect(postgres_url) as connection:
        counts = connection.execute(
            "select count(*), bool_and(finished_at <= now()),"
            " bool_and(finished_at > now() - %s * interval '1 s')"
            " from replayfloor.receipts group by tableoid",
            (RETENTION_S,),
        ).fetchall()
        present = connection.execute(
            "select count(*) from replayfloor.receipts as r join"
            " replayfloor.partitions_v1('receipts') as p on r.tableoid = ('replayfloor.' ||"
            " p.name)::regclass where p.starts_at <= now() and now() < p.ends_at"
        ).fetchone()
        ids = connection.execute("select uuid_send(id) from replayfloor.receipts").fetchall()
    assert counts == [(100, True, True)] * 6
    assert present == (100,)
    assert {bytes(id_) for (id_,) in ids} == {id_of(number) for number in range(600)}


def test_an_old_key_that_is_not_found_is_never_measured_as_a_replay(postgres_url: str) -> None:
    from benchmarks.blocks import OneConnection, WrongAnswer, work_for
    from benchmarks.receipts import fill

    filled = fill(postgres_url, "test", 6, lambda _: None)
    one = OneConnection(filled)

    try:
        assert len(one.run(work_for(6, 3))["replay"]) == 3
        with pytest.raises(WrongAnswer):
            one.run(work_for(6_000_000, 3))
    finally:
        one.close()


def test_a_percentile_is_the_smallest_time_that_so_many_do_not_exceed() -> None:
    from benchmarks.figures import P99, percentile

    assert percentile(range(1, 101), P99) == 99
    assert percentile(range(1, 1001), P99) == 990
    assert percentile([3, 1, 2], 0.5) == 2
    assert percentile([7], P99) == 7


def test_a_block_that_something_disturbed_does_not_change_the_figure() -> None:
    from benchmarks.figures import Blocks

    calm, disturbed = [2 * MS] * 98 + [5 * MS] * 2, [900 * MS] * 100

    assert Blocks.of([calm, disturbed, calm]).median_ms == 2
    assert Blocks.of([calm, disturbed, calm]).p99_ms == 5


@pytest.mark.parametrize(
    ("operation", "large_ms", "status"),
    [
        ("first claim", (125, 125), 0),
        ("first claim", (126, 100), 1),
        ("first claim", (100, 126), 1),
        ("replay", (126, 100), 1),
        ("finish", (126, 126), 0),
    ],
)
def test_claims_that_are_slower_than_the_limit_fail_the_run_and_are_named(
    operation: str, large_ms: tuple[int, int], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks.claims_by_size import verdict
    from benchmarks.figures import Blocks, Compared

    small = Blocks((100 * MS,), (100 * MS,), 1)
    large = Blocks((large_ms[0] * MS,), (large_ms[1] * MS,), 1)
    compared = [Compared(16, operation, small, large, small)]

    assert verdict(compared, 1.25) == status
    assert (f"{operation} at 16" in capsys.readouterr().out) == bool(status)
    assert verdict(compared, None) == 0
