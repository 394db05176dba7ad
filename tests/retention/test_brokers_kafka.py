"""Kafka: how far back a consumer may be handed records again, by its configuration."""

from __future__ import annotations

from datetime import date

import pytest

from replayfloor.core.errors import ConfigurationError
from replayfloor.core.errors import IdempotencyError as AnyError
from replayfloor.retention import HorizonUnknown
from replayfloor.retention.brokers import Window
from replayfloor.retention.brokers_kafka import kafka_window, read_properties

TODAY = date(2026, 11, 30)
MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0
DAY_MS = "86400000"
WEEK_MS = "604800000"


def window(**properties: str) -> Window:
    return kafka_window(named(**properties), read_on=TODAY)


def named(**properties: str) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in properties.items()}


def test_what_was_not_committed_is_read_again_after_the_longest_silence() -> None:
    made = window(auto_offset_reset="latest")

    assert (made.seconds, made.driver) == (5 * MINUTE_S, "max.poll.interval.ms")
    assert any("by default" in each.does for each in made.settings)


@pytest.mark.parametrize(
    ("name", "driver"),
    [
        ("max_poll_interval_ms", "max.poll.interval.ms"),
        ("session_timeout_ms", "session.timeout.ms"),
        ("auto_commit_interval_ms", "auto.commit.interval.ms"),
    ],
)
def test_each_silence_counts(name: str, driver: str) -> None:
    made = window(**{name: "3600000"})

    assert (made.seconds, made.driver) == (HOUR_S, driver)


def test_from_the_beginning_means_all_that_the_topic_has() -> None:
    made = window(
        auto_offset_reset="earliest", retention_ms=WEEK_MS, segment_ms=DAY_MS,
        offsets_retention_minutes="1440",
    )  # fmt: skip

    # The week, the day that a segment is open for, and five minutes until the broker looks.
    assert made.seconds == 8 * DAY_S + 5 * MINUTE_S
    assert made.driver == "retention.ms and segment.ms"
    assert any("1 d after the group is empty" in each.does for each in made.settings)


def test_a_segment_is_open_for_a_week_if_nothing_else_is_said() -> None:
    made = window(auto_offset_reset="earliest", retention_ms=DAY_MS)

    assert made.seconds == 8 * DAY_S + 5 * MINUTE_S


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", WEEK_MS),
        ("log.retention.ms", WEEK_MS),
        ("log.retention.minutes", "10080"),
        ("log.retention.hours", "168"),
    ],
)
def test_the_topics_setting_and_the_brokers_are_known(name: str, value: str) -> None:
    properties = {"auto.offset.reset": "earliest", name: value, "segment.ms": "0"}

    assert kafka_window(properties, read_on=TODAY).seconds == 7 * DAY_S + 5 * MINUTE_S


def test_the_topics_setting_goes_before_the_brokers() -> None:
    properties = {
        "auto.offset.reset": "earliest",
        "log.retention.hours": "168",
        "retention.ms": DAY_MS,
        "segment.ms": "0",
    }

    assert kafka_window(properties, read_on=TODAY).seconds == DAY_S + 5 * MINUTE_S


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({}, "does not say how long the topic keeps records"),
        ({"retention_ms": "-1"}, "for ever"),
        ({"retention_ms": WEEK_MS, "cleanup_policy": "compact"}, "compacted"),
    ],
)
def test_what_has_no_end_forces_the_user_to_choose(properties: dict[str, str], reason: str) -> None:
    made = window(auto_offset_reset="earliest", **properties)

    assert made.seconds is None
    assert reason in made.unbounded[0]
    with pytest.raises(HorizonUnknown, match=reason):
        made.term()
    assert made.term("30d").seconds == 30 * DAY_S


def test_a_topic_that_is_compacted_and_deleted_ends() -> None:
    made = window(
        auto_offset_reset="earliest", retention_ms=DAY_MS, segment_ms="0",
        cleanup_policy="compact, delete",
    )  # fmt: skip

    assert made.seconds == DAY_S + 5 * MINUTE_S


def test_offsets_that_are_reset_by_hand_count_if_somebody_does_it() -> None:
    properties = {"auto_offset_reset": "latest", "retention_ms": DAY_MS, "segment_ms": "0"}

    assert window(**properties).seconds == 5 * MINUTE_S
    assert any("by hand" in reason for reason in window(**properties).reasons)
    counted = kafka_window(named(**properties), read_on=TODAY, moves_back=1)
    assert counted.seconds == DAY_S + 5 * MINUTE_S


@pytest.mark.parametrize(
    ("reset", "seconds"),
    [
        ("none", 5 * MINUTE_S),
        ("largest", 5 * MINUTE_S),
        ("EARLIEST", DAY_S + 5 * MINUTE_S),
        ("smallest", DAY_S + 5 * MINUTE_S),
        ("by_duration:PT6H", 6 * HOUR_S),
        ("by_duration:PT1S", 5 * MINUTE_S),
    ],
)
def test_every_way_to_begin_anew_is_known(reset: str, seconds: float) -> None:
    made = window(auto_offset_reset=reset, retention_ms=DAY_MS, segment_ms="0")

    assert made.seconds == seconds


@pytest.mark.parametrize(
    "properties",
    [
        {"auto_offset_reset": "sometimes"},
        {"auto_offset_reset": "by_duration:P1M"},
        {"max_poll_interval_ms": "5m"},
        {"max_poll_interval_ms": "-1"},
        {"auto_offset_reset": "earliest", "retention_ms": "-2"},
    ],
)
def test_what_is_not_understood_is_no_figure(properties: dict[str, str]) -> None:
    with pytest.raises(AnyError):
        window(**properties)


def test_a_mistyped_way_to_begin_is_the_users_to_correct() -> None:
    with pytest.raises(ConfigurationError, match="earliest, latest or none"):
        window(auto_offset_reset="erliest")


def test_files_of_properties_are_read_as_java_does() -> None:
    text = """\
# a comment
! another = one
auto.offset.reset=earliest
retention.ms : 604800000
max.poll.interval.ms = 600\\
000
bootstrap.servers=one:9092,two:9092
empty=
alone
"""
    assert read_properties(text) == {
        "auto.offset.reset": "earliest",
        "retention.ms": "604800000",
        "max.poll.interval.ms": "600000",
        "bootstrap.servers": "one:9092,two:9092",
        "empty": "",
        "alone": "",
    }
