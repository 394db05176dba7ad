"""`replayfloor policy measure …`: a term to paste, or exit 1 and the demand to choose."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from replayfloor.retention import parse_policies
from replayfloor.retention.cli_measure import app
from replayfloor.retention.terms import Confidence


def run(*arguments: str, env: Mapping[str, str | None] | None = None) -> Result:
    return CliRunner().invoke(app, arguments, env=env)


def pasted(result: Result) -> dict[str, object]:
    found = tomllib.loads(result.stdout)["broker_redelivery"]
    assert isinstance(found, dict)
    return found


def test_a_queue_in_postgres_is_a_term_with_provenance_and_day() -> None:
    before = datetime.now(UTC).date()
    result = run("postgres", "--attempts", "4", "--delay", "30s", "--source", "jobs.py")
    after = datetime.now(UTC).date()

    assert result.exit_code == 0
    term = pasted(result)
    assert (term["value"], term["source"], term["confidence"]) == ("2 min", "jobs.py", "given")
    assert term["read_on"] in (before, after)
    policy = parse_policies(f"[inbound.jobs]\n{result.stdout}", "x.toml").inbound["jobs"]
    assert policy.floor.floor_s >= 120


def test_kafka_is_read_from_files(tmp_path: Path) -> None:
    consumer, topic = tmp_path / "consumer.properties", tmp_path / "topic.properties"
    consumer.write_text("auto.offset.reset=earliest\n", encoding="utf-8")
    topic.write_text("retention.ms=86400000\nsegment.ms=3600000\n", encoding="utf-8")

    alone = run("kafka", str(consumer))
    both = run("kafka", str(consumer), str(topic), "--topic", "orders")

    assert (alone.exit_code, both.exit_code) == (1, 0)
    assert pasted(alone)["value"] == "unknown"
    assert "does not say how long the topic keeps records" in alone.stderr
    assert pasted(both)["value"] == "1 d 1 h 5 min"
    assert pasted(both)["confidence"] == Confidence.MEASURED.value
    assert "Kafka orders" in both.stdout


def test_a_chosen_number_takes_the_place_of_no_end() -> None:
    without, chosen = (
        run("postgres", "--delay", "30s", *more) for more in ((), ("--choose", "3d"))
    )

    assert (without.exit_code, chosen.exit_code) == (1, 0)
    assert "choose a number" in without.stderr
    assert (pasted(chosen)["value"], pasted(chosen)["confidence"]) == ("3 d", "given")


def test_a_chosen_number_below_the_measured_one_is_refused() -> None:
    result = run("postgres", "--attempts", "4", "--delay", "30s", "--choose", "1m")

    assert result.exit_code == 2
    assert "shorter than what was measured, 2 min" in result.stderr
    assert "broker_redelivery" not in result.stdout


def test_json_for_programs() -> None:
    result = run("postgres", "--attempts", "4", "--delay", "30s", "--json")
    endless = run("postgres", "--delay", "30s", "--json")

    assert json.loads(result.stdout)["broker_redelivery_s"] == 120
    assert endless.exit_code == 1
    assert json.loads(endless.stdout)["unbounded"] == ["there is no limit to the attempts"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("postgres", "--delay", "soon"), 2, "is no duration"),
        (("kafka", "/nowhere/consumer.properties"), 2, "No such file"),
        (("rabbitmq", "http://127.0.0.1:1", "orders"), 1, "Connection refused"),
        (("rabbitmq", "http://u:s3cret@127.0.0.1:1", "orders"), 2, "leave user and password out"),
    ],
)
def test_what_cannot_be_measured_is_told(
    arguments: tuple[str, ...], code: int, message: str
) -> None:
    result = run(*arguments)

    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr
    assert "s3cret" not in result.stderr


def test_half_a_login_is_refused() -> None:
    env = {"RABBITMQ_USER": "reader", "RABBITMQ_PASSWORD": None}
    result = run("rabbitmq", "http://127.0.0.1:1", "orders", env=env)

    assert result.exit_code == 2
    assert "set both RABBITMQ_USER and RABBITMQ_PASSWORD" in result.stderr
