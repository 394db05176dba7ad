"""What sources tell of an operation, and what they say together."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.tail.invented import AT, DAY, MARGIN_NS, H, S, entry
from replayfloor.client.tail.scratch import open_scratch
from replayfloor.client.tail.sightings import (
    Operation,
    Sighting,
    Standing,
    of_entry,
    operation,
)
from replayfloor.core.journal import JournalEntry, OperationState
from replayfloor.core.outcome import Outcome


def seen(each: JournalEntry) -> Operation:
    return operation(of_entry(each, AT), AT)


def test_what_ended_counts_with_its_last_send_and_not_with_its_age() -> None:
    found = seen(entry("a", first_ago_s=50_000, sent_after_s=300, elapsed_s=302))

    assert (found.standing, found.tail_ns) == (Standing.ENDED, 300 * S)


def test_what_is_open_counts_with_its_age_so_far() -> None:
    found = seen(entry("a", first_ago_s=7_200, sent_after_s=60, state=OperationState.OPEN))

    assert (found.standing, found.tail_ns, found.age_ns) == (Standing.OPEN, 2 * H, 2 * H)
    assert found.censored


def test_what_is_open_counts_with_no_more_than_its_send_deadline() -> None:
    found = seen(entry("a", first_ago_s=5 * 86_400, state=OperationState.OPEN))

    assert found.tail_ns == DAY - MARGIN_NS
    assert found.age_ns == 5 * DAY


def test_a_send_that_left_counts_although_the_provider_shortened_its_retention() -> None:
    sent = entry("a", first_ago_s=50_000, sent_after_s=40_000, state=OperationState.OPEN)
    shortened = replace(sent, retention_s=60.0, send_deadline_ns=sent.first_attempt_at_ns + 30 * S)

    assert seen(shortened).tail_ns == 40_000 * S


def test_what_was_closed_without_an_answer_counts_with_the_time_until_then() -> None:
    closed = OperationState.UNKNOWN_FINAL
    burnt = seen(entry("a", first_ago_s=5 * 86_400, elapsed_s=600, state=closed))
    late = seen(entry("b", first_ago_s=5 * 86_400, elapsed_s=2 * 86_400, state=closed))

    assert (burnt.standing, burnt.tail_ns) == (Standing.UNKNOWN, 600 * S)
    assert (late.standing, late.tail_ns) == (Standing.UNKNOWN, DAY - MARGIN_NS)
    assert burnt.censored
    assert late.censored


def test_what_was_settled_by_hand_has_ended() -> None:
    settled = entry("a", first_ago_s=5 * 86_400, sent_after_s=30, state=OperationState.SETTLED)

    found = seen(replace(settled, last_seen_at_ns=AT))

    assert (found.standing, found.tail_ns) == (Standing.ENDED, 30 * S)


def test_a_wall_clock_that_was_set_back_hides_no_time() -> None:
    """By the wall clock the second attempt was at once; the journal knows that it was an hour."""
    first_ns = AT - 2 * H
    each = replace(
        entry("a", first_ago_s=7_200, attempts=2),
        last_attempt_at_ns=first_ns,
        last_seen_at_ns=first_ns + 2 * S,
        elapsed_ns=H + 2 * S,
    )

    assert seen(each).tail_ns == H


def test_a_clock_behind_the_first_attempt_makes_nothing_younger_than_nothing() -> None:
    found = seen(entry("a", first_ago_s=-100, state=OperationState.OPEN))

    assert (found.age_ns, found.tail_ns) == (0, 0)


@pytest.mark.parametrize("outcome", [Outcome.NOT_SENT, Outcome.REJECTED])
def test_what_certainly_was_not_executed_is_not_open(outcome: Outcome) -> None:
    found = seen(entry("a", first_ago_s=7_200, state=OperationState.OPEN, outcome=outcome))

    assert (found.standing, found.tail_ns) == (Standing.REFUSED, 0)


def test_a_refused_operation_that_somebody_is_sending_is_open() -> None:
    refused = entry(
        "a",
        first_ago_s=7_200,
        state=OperationState.OPEN,
        outcome=Outcome.REJECTED,
        lease_until_ns=AT + S,
    )

    assert seen(refused).standing is Standing.OPEN
    assert seen(replace(refused, lease_until_ns=AT)).standing is Standing.REFUSED


def test_an_attempt_whose_end_nobody_recorded_may_have_been_executed() -> None:
    lost = entry(
        "a",
        first_ago_s=7_200,
        state=OperationState.OPEN,
        outcome=Outcome.NOT_SENT,
        attempts_ended=0,
    )

    assert seen(lost).standing is Standing.OPEN


def test_a_send_deadline_that_stands_for_no_retention_is_none() -> None:
    found = seen(entry("a", first_ago_s=7_200, retention_s=0.0, state=OperationState.OPEN))

    assert (found.retention_s, found.send_deadline_ns, found.window_ns) == (None, None, None)
    assert found.tail_ns == 2 * H


def sightings(operation_id: str = "a") -> st.SearchStrategy[Sighting]:
    small = st.integers(0, 5)
    return st.builds(
        Sighting,
        namespace=st.just("shop"),
        operation_id=st.just(operation_id),
        provider=st.sampled_from(["", "shop"]),
        seen_at_ns=small,
        first_attempt_at_ns=small,
        sent_ns=small,
        elapsed_ns=small,
        attempts=small,
        outcome=st.integers(0, 4),
        word=st.integers(0, 2),
        begun_at_ns=small,
        rested_at_ns=small,
        retention_s=st.none() | st.floats(1, 5),
        send_deadline_ns=st.none() | small,
    )


def together(*given_: Sighting) -> list[Sighting]:
    with open_scratch() as scratch:
        scratch.add(given_)
        return list(scratch.read())


@given(
    st.lists(sightings(), min_size=1, max_size=5).flatmap(
        lambda drawn: st.tuples(st.just(drawn), st.permutations(drawn + drawn[:2]))
    )
)
def test_neither_order_nor_repetition_changes_what_sources_say_together(
    drawn: tuple[list[Sighting], list[Sighting]],
) -> None:
    once, shuffled = drawn

    assert together(*once) == together(*shuffled)


@given(sightings(), sightings())
def test_every_bound_of_either_source_holds_for_both_together(
    one: Sighting, other: Sighting
) -> None:
    (both,) = together(one, other)

    for name in set(Sighting._fields) - {"namespace", "operation_id"}:
        told = [getattr(each, name) for each in (one, other) if getattr(each, name) is not None]
        smaller = name in ("retention_s", "send_deadline_ns")
        expected = (min if smaller else max)(told, default=None)
        assert getattr(both, name) == expected, name


def test_operations_of_the_same_id_in_two_namespaces_are_two() -> None:
    one = of_entry(entry("a", first_ago_s=10, namespace="test"), AT)
    other = of_entry(entry("a", first_ago_s=10, namespace="live"), AT)

    assert [each.namespace for each in together(one, other)] == ["live", "test"]
