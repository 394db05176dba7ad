"""What comes out of a measurement: a term, or the demand to choose; and lines to paste."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from datetime import date

import pytest

from replayfloor.retention import HorizonUnknown, PolicyError, TermKind, parse_policies
from replayfloor.retention.brokers import Setting, Window
from replayfloor.retention.brokers_toml import window_report, window_toml
from replayfloor.retention.terms import Confidence

TODAY = date(2026, 11, 30)
HOUR_S, DAY_S = 3600.0, 86_400.0
BOUNDED = Window(
    broker="SQS",
    queue="orders",
    seconds=4 * DAY_S,
    driver="MessageRetentionPeriod",
    settings=(Setting("VisibilityTimeout", "30 s", "after that it comes again"),),
    reasons=("it is kept for 4 d",),
    unbounded=(),
    source='GetQueueAttributes of https://sqs.example/1/"orders"',
    read_on=TODAY,
)
ENDLESS = replace(
    BOUNDED,
    broker="RabbitMQ",
    seconds=None,
    driver="",
    unbounded=("it has no time to live", "x\x7f\n[y]"),
    while_consumed_s=10 * HOUR_S,
)


def policy_of(lines: list[str]) -> str:
    return "[inbound.hooks]\n" + "\n".join(lines)


def test_a_bounded_window_is_a_measured_term() -> None:
    term = BOUNDED.term()

    assert (term.name, term.seconds) == (TermKind.BROKER_REDELIVERY, 4 * DAY_S)
    assert term.provenance.read_on == TODAY
    assert term.provenance.confidence is Confidence.MEASURED
    assert "MessageRetentionPeriod" in term.provenance.note


def test_an_unbounded_window_forces_the_user_to_choose() -> None:
    with pytest.raises(HorizonUnknown, match="no time to live") as caught:
        ENDLESS.term()
    assert "10 h: choose that or more" in str(caught.value)
    with pytest.raises(HorizonUnknown):
        ENDLESS.term("unknown")

    chosen = ENDLESS.term("11h")
    assert (chosen.seconds, chosen.provenance.confidence) == (11 * HOUR_S, Confidence.GIVEN)


def test_a_number_shorter_than_what_was_measured_is_refused() -> None:
    with pytest.raises(PolicyError, match="3 d is shorter than what was measured, 4 d"):
        BOUNDED.term("3d")
    assert BOUNDED.term("5d").seconds == 5 * DAY_S


def test_a_window_ends_or_says_what_has_no_end() -> None:
    with pytest.raises(PolicyError):
        replace(BOUNDED, seconds=None)
    with pytest.raises(PolicyError):
        replace(BOUNDED, unbounded=("x",))


def test_the_lines_are_a_term_of_a_policy_file() -> None:
    lines = list(window_toml(BOUNDED))
    policy = parse_policies(policy_of(lines), "replayfloor.toml").inbound["hooks"]
    term = policy.broker_redelivery

    assert term is not None
    assert (term.seconds, term.provenance.read_on) == (4 * DAY_S, TODAY)
    assert term.provenance.source == BOUNDED.source
    assert term.provenance.confidence is Confidence.MEASURED
    assert any("VisibilityTimeout = 30 s" in line for line in lines)
    assert any("it is kept for 4 d" in line for line in lines)


def test_the_lines_of_an_unbounded_window_are_refused_until_a_number_is_chosen() -> None:
    lines = list(window_toml(ENDLESS))
    policy = parse_policies(policy_of(lines), "replayfloor.toml").inbound["hooks"]
    with pytest.raises(HorizonUnknown):
        _ = policy.floor
    assert [line for line in lines if line.startswith("# NO END: ")] == [
        "# NO END: it has no time to live",
        "# NO END: x\\x7f\\n[y]",
    ]

    chosen = tomllib.loads(policy_of(list(window_toml(ENDLESS, "11h"))))
    assert chosen["inbound"]["hooks"]["broker_redelivery"]["value"] == "11 h"
    assert "x\x7f\n[y]" in chosen["inbound"]["hooks"]["broker_redelivery"]["note"]


def test_the_report_has_the_same_for_programs() -> None:
    assert window_report(BOUNDED)["broker_redelivery_s"] == 4 * DAY_S
    report = window_report(ENDLESS)
    assert (report["seconds"], report["broker_redelivery_s"]) == (None, None)
    assert window_report(ENDLESS, "11h")["broker_redelivery_s"] == 11 * HOUR_S
