"""The benchmarks run, fill what they say, and notice what they are for. No time is judged here."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from support.sources import ROOT

if TYPE_CHECKING:
    from benchmarks.load_plan import Outcome
    from benchmarks.ratios import Measured

SHORT = ("--rows", "20000", "--base-rows", "2000", "--blocks", "1", "--operations", "30")
ENDS_WITHIN_S = 120.0
"""Seconds for three databases of a few thousand rows: some five, on a quiet machine."""

MS = 1_000_000


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.mark.slow
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


def run_benchmark(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=ENDS_WITHIN_S,
        check=False,
    )


TINY = ("--concurrency", "4", "--rounds", "1", "--seconds", "0.2")


def test_throughput_measures_and_reports_what_it_is_asked_for(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"

    done = run_benchmark("throughput", "--paths", "first", *TINY, "--json", str(figures))

    assert done.returncode == 0, done.stderr
    found = json.loads(figures.read_text(encoding="utf-8"))
    assert "fsync on, synchronous_commit on" in found["about"]["postgres"]
    (row,) = found["results"]
    assert (row["path"], row["connections"], row["goal"]) == ("first", 4, 0.4)
    for contender in ("bare", "floor", "ours"):
        (outcome,) = row["outcomes"][contender]
        assert outcome["requests"] > 0
        assert outcome["worker_cpu_s"] > 0
    assert 0 < row["ratio"] < 1
    assert "first" in done.stdout


@pytest.mark.slow
def test_throughput_measures_every_path(tmp_path: Path) -> None:
    from benchmarks.scenarios import NAMES

    figures = tmp_path / "figures.json"

    done = run_benchmark("throughput", *TINY, "--json", str(figures))

    assert done.returncode == 0, done.stderr
    found = json.loads(figures.read_text(encoding="utf-8"))
    assert tuple(row["path"] for row in found["results"]) == NAMES


@pytest.mark.slow
def test_scale_draws_a_plot_of_each_part(tmp_path: Path) -> None:
    done = run_benchmark(
        "scale", "--concurrency", "1", "4", "--workers", "1", "2", "--sizes", "1000", "2000",
        "--keys", "500", "--seconds", "0.2", "--rounds", "1",
        "--json", str(tmp_path / "scale.json"), "--plots", str(tmp_path),
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    for part in ("concurrency", "workers", "size", "memory"):
        assert 0 < (tmp_path / f"{part}.png").stat().st_size < 100_000


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_instructions_are_the_same_at_every_run(tmp_path: Path) -> None:
    counts = []
    for number in (1, 2):
        target = tmp_path / f"{number}.json"
        done = run_benchmark(
            "instructions", "--paths", "first", "--requests", "20", "--json", str(target)
        )
        assert done.returncode == 0, done.stderr
        bare, ours = json.loads(target.read_text(encoding="utf-8"))
        assert 0 < bare["instructions"] < ours["instructions"]
        counts.append(ours["instructions"])
    assert counts[0] == pytest.approx(counts[1], rel=0.01)


def answering(*answers: list[bytes]) -> Outcome:
    """Let the load generator meet a server that gives these answers, each in such pieces."""
    from benchmarks.load import carry_out
    from benchmarks.load_plan import Expected, Plan

    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _address = server.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with connection, connection.makefile("rb") as stream:
                for pieces in answers:
                    while stream.readline() not in (b"\r\n", b""):
                        pass
                    stream.read(200)
                    for piece in pieces:
                        connection.sendall(piece)
                        time.sleep(0.01)

        expected = Expected(201, absent="replayed: true")
        port = server.getsockname()[1]
        plan = Plan(port, 1, expected, "pool", requests=len(answers))
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        outcome = asyncio.run(carry_out(plan))
        thread.join()
    return outcome


HEAD = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n"


def test_the_load_generator_counts_answers_however_they_are_cut() -> None:
    whole, cut = [HEAD + b"\r\n{}"], [HEAD[:30], HEAD[30:] + b"\r", b"\n{", b"}"]
    chunks = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"

    outcome = answering(whole, cut, [chunks], [chunks[:-7], chunks[-7:]], whole)

    assert (outcome.requests, outcome.wrong) == (5, "")


@pytest.mark.parametrize(
    "wrong",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\n{}",
        HEAD + b"Idempotent-Replayed: true\r\n\r\n{}",
        b"HTTP/1.1 201 Created\r\n\r\n",
    ],
)
def test_an_answer_that_is_not_to_be_measured_ends_the_run(wrong: bytes) -> None:
    assert answering([HEAD + b"\r\n{}"], [wrong], [HEAD + b"\r\n{}"]).wrong


def test_a_key_of_the_pool_is_a_uuid4_and_no_two_are_the_same() -> None:
    from benchmarks.load_plan import key_of

    keys = {key_of("seed", number) for number in range(100)} | {key_of("other", 0)}

    assert len(keys) == 101
    assert {uuid.UUID(key).version for key in keys} == {4}


def outcomes_of(*per_second: float, cpu_us: float = 100.0) -> list[Outcome]:
    from benchmarks.load_plan import Outcome

    return [Outcome(round(n), 1.0, n * cpu_us / 1e6, 0.0, 1.0, 2.0) for n in per_second]


def measured(name: str, connections: int, **outcomes: list[Outcome]) -> Measured:
    from benchmarks.ratios import Measured
    from benchmarks.scenarios import named

    (scenario,) = named([name])
    return Measured(scenario, connections, outcomes)


def test_a_ratio_is_the_median_of_those_within_a_round() -> None:
    # The machine is half as fast in the last rounds: each round's own ratio does not notice.
    one = measured(
        "first", 64, bare=outcomes_of(1000, 500, 300), ours=outcomes_of(500, 100, 150, cpu_us=300)
    )

    assert one.ratio("bare") == 0.5
    assert one.ratio("floor") is None
    assert one.cpu_ratio("bare") == pytest.approx(1 / 3)


def test_the_ratio_of_a_client_is_of_times() -> None:
    one = measured("client-memory", 1, bare=outcomes_of(1000), ours=outcomes_of(800))

    assert one.ratio("bare") == 1.25
    assert one.scenario.short_of_goal(1.15) == 0
    assert one.scenario.short_of_goal(2.3) == pytest.approx(1.0)


def test_a_goal_is_judged_at_64_connections_or_the_most_there_are() -> None:
    from benchmarks.ratios import judged
    from benchmarks.report import row

    rows = [
        measured("first", at, bare=outcomes_of(100), floor=outcomes_of(60), ours=outcomes_of(30))
        for at in (1, 64, 128)
    ]

    assert [judged(rows, one) for one in rows] == [False, True, False]
    assert [judged(rows[:1], one) for one in rows[:1]] == [True]
    cells, missed = row(rows[1], judged=True)
    assert missed == 2
    assert "[red]25%[/red]" in cells
    assert row(rows[0], judged=False)[1] == 0


def test_a_peer_that_is_not_behind_is_marked() -> None:
    from benchmarks.peer_table import Compared, table

    bare = outcomes_of(100)
    ours = Compared("starlette", "ours", "first", outcomes_of(40), bare)
    ahead = Compared("starlette", "one", "first", outcomes_of(40), bare)
    behind = Compared("starlette", "two", "first", outcomes_of(39), bare)
    other = Compared("flask", "three", "first", outcomes_of(90), bare)
    every = [ours, ahead, behind, other]

    assert [one.is_ahead(every) for one in every] == [False, True, False, False]
    lines = table({}, every).splitlines()
    assert [line for line in lines if "not ahead" in line] == [
        line for line in lines if "| one |" in line
    ]


@pytest.mark.parametrize("atomic", [False, True])
def test_the_floor_stores_a_receipt_for_each_answer_and_replays_it(
    postgres_url: str, redis_url: str, *, atomic: bool
) -> None:
    from benchmarks.app_spec import AppSpec
    from benchmarks.apps import LEDGER_TABLE, make_app
    from benchmarks.contenders import FLOOR_SCHEMA
    from benchmarks.in_process import requests, scopes_of, started

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(FLOOR_SCHEMA.read_bytes())
        connection.execute(LEDGER_TABLE.encode())

        def pay_fifty_times(spec: AppSpec) -> tuple[object, ...] | None:
            async def run() -> None:
                app = make_app(spec)
                async with started(app):
                    await requests(app, scopes_of("first", 50), 8, 201)

            asyncio.run(run())
            return connection.execute(
                "select (select count(*) from claims), (select count(*) from receipts),"
                " (select count(*) from ledger)"
            ).fetchone()

        rows = 50 if atomic else 0
        with_lock = AppSpec("floor", postgres_url, redis_url, atomic)
        assert pay_fifty_times(with_lock) == (0, 50, rows)
        without = AppSpec("floor", postgres_url, atomic=atomic)
        assert pay_fifty_times(without) == (0, 50, rows), "replayed from Postgres"
        connection.execute("delete from receipts")
        assert pay_fifty_times(with_lock) == (0, 0, rows), "replayed from Redis"
