"""JSON lines as sightings: what they tell, and what is none of ours."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.tail.invented import AT, S, line, story
from replayfloor.client.tail.lines import LineCorrupt, of_line
from replayfloor.client.tail.scratch import open_scratch
from replayfloor.client.tail.sightings import Operation, Standing, operation
from replayfloor.core.errors import UsageError


def told(*lines: str) -> Operation:
    with open_scratch() as scratch:
        scratch.add(each for text in lines if (each := of_line(text.encode())) is not None)
        (seen,) = scratch.read()
    return operation(seen, AT)


def test_the_last_attempt_that_left_is_the_last_send() -> None:
    found = told(*story("a", [0, 30, 3_600], first_ago_s=9_000))

    assert (found.standing, found.tail_ns, found.attempts) == (Standing.ENDED, 3_600 * S, 3)


def test_an_operation_whose_last_line_is_that_of_an_attempt_is_open() -> None:
    found = told(*story("a", [0, 30], first_ago_s=9_000, ending=None))

    assert (found.standing, found.tail_ns) == (Standing.OPEN, 9_000 * S)


def test_a_call_that_was_left_pending_leaves_the_operation_open() -> None:
    found = told(*story("a", [0, 30], first_ago_s=9_000, ending="pending"))

    assert found.standing is Standing.OPEN


def test_a_later_process_may_end_what_an_earlier_one_left() -> None:
    before = story("a", [0, 30], first_ago_s=9_000, ending="pending")
    after = line(
        "OperationEnded", "a", first_ago_s=9_000, elapsed_s=4_000, attempt=3,
        outcome="DEFINITIVE", ending="returned",
    )  # fmt: skip

    assert told(after, *before).standing is Standing.ENDED


def test_an_ending_of_unknown_outcome_is_unknown_whatever_comes_after() -> None:
    unknown = story("a", [0, 30], first_ago_s=90_000, ending="unknown")

    found = told(*unknown, *story("a", [0, 30], first_ago_s=90_000, ending="pending"))

    assert (found.standing, found.tail_ns) == (Standing.UNKNOWN, int(30.5 * S))


@pytest.mark.parametrize("ending", ["kept", "closed"])
def test_what_is_answered_from_the_journal_had_ended_before(ending: str) -> None:
    found = told(
        line("OperationEnded", "a", first_ago_s=90_000, elapsed_s=80_000, attempt=2, ending=ending)
    )

    assert (found.standing, found.tail_ns) == (Standing.ENDED, 0)


def test_a_refused_call_that_ended_left_nothing_open() -> None:
    began = line("AttemptLeft", "a", first_ago_s=9_000, outcome="NOT_SENT")
    ended = line(
        "OperationEnded", "a", first_ago_s=9_000, elapsed_s=1, outcome="REJECTED",
        ending="returned",
    )  # fmt: skip

    assert told(began, ended).standing is Standing.REFUSED
    again = line("AttemptStarted", "a", first_ago_s=9_000, elapsed_s=2, outcome="REJECTED")
    assert told(began, ended, again).standing is Standing.OPEN


def test_of_a_call_without_an_attempt_nothing_is_told() -> None:
    """The journal could not be written, so that nothing was begun."""
    ended = line("OperationEnded", "a", first_ago_s=9_000, attempt=0, ending="journal_unavailable")

    assert of_line(ended.encode()) is None


def test_events_and_fields_of_a_later_release_are_ignored() -> None:
    assert of_line(line("SomethingNew", "a", first_ago_s=9).encode()) is None
    assert of_line(line("AttemptLeft", "a", first_ago_s=9, novel=[1]).encode()) is not None


@pytest.mark.parametrize("version", [0, 2, 99])
def test_another_version_is_refused_by_its_number(version: int) -> None:
    with pytest.raises(UsageError, match=rf"version {version}.*version 1"):
        of_line(line("AttemptLeft", "a", first_ago_s=9, v=version).encode())


NOT_NEEDED = {"call", "method", "origin", "resumed", "status", "retention_s"}
GOOD = json.loads(line("AttemptLeft", "a", first_ago_s=9))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("v", "1"),
        ("v", None),
        ("v", True),
        ("event", 7),
        ("attempt", -1),
        ("attempt", 1.5),
        ("attempt", True),
        ("attempt", 2**63),
        ("at_ns", -5),
        ("at_ns", 2**63),
        ("at_ns", "now"),
        ("elapsed_s", -1),
        ("elapsed_s", float("nan")),
        ("elapsed_s", float("inf")),
        ("elapsed_s", 10**400),
        ("elapsed_s", "1"),
        ("retention_s", "day"),
        ("retention_s", -1),
        ("outcome", "PERHAPS"),
        ("outcome", 3),
        ("operation_id", None),
        ("namespace", 1),
        ("provider", []),
    ],
)
def test_a_field_that_is_not_what_it_should_be_makes_the_line_corrupt(
    name: str, value: object
) -> None:
    with pytest.raises(LineCorrupt):
        of_line(json.dumps(GOOD | {name: value}).encode())


@pytest.mark.parametrize("name", sorted(GOOD.keys() - NOT_NEEDED))
def test_a_line_that_lacks_a_field_is_corrupt(name: str) -> None:
    with pytest.raises(LineCorrupt):
        of_line(json.dumps({key: GOOD[key] for key in GOOD if key != name}).encode())


@given(st.integers(0, 1_000))
def test_a_torn_line_is_corrupt_wherever_it_is_torn(at: int) -> None:
    whole = line("AttemptLeft", "a", first_ago_s=9).encode()
    with pytest.raises(LineCorrupt):
        of_line(whole[: at % len(whole)])


@given(st.binary(max_size=200))
def test_what_is_no_event_is_corrupt_and_nothing_else(line_: bytes) -> None:
    with pytest.raises(LineCorrupt):
        of_line(line_)


@pytest.mark.parametrize("text", ["[" * 100_000, "1" * 10_000, "[]", "null", '"v"', "{}", "\x00"])
def test_json_that_is_no_event_is_corrupt(text: str) -> None:
    with pytest.raises(LineCorrupt):
        of_line(text.encode())


def test_half_a_character_in_an_id_is_kept_as_text() -> None:
    found = told(line("AttemptLeft", "\ud800", first_ago_s=9))

    assert found.operation_id == "\\ud800"
