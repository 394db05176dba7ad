"""What is known of an operation only grows."""

from __future__ import annotations

from itertools import product

import pytest

from replayfloor.core.outcome import Outcome, executed_nothing, join

EVERY_PAIR = list(product(Outcome, repeat=2))
EVERY_TRIPLE = list(product(Outcome, repeat=3))


@pytest.mark.parametrize(("known", "learned"), EVERY_PAIR)
def test_knowledge_never_decreases(known: Outcome, learned: Outcome) -> None:
    assert join(known, learned) >= known


@pytest.mark.parametrize(("one", "other"), EVERY_PAIR)
def test_the_order_of_two_attempts_does_not_matter(one: Outcome, other: Outcome) -> None:
    assert join(one, other) is join(other, one)


@pytest.mark.parametrize(("a", "b", "c"), EVERY_TRIPLE)
def test_grouping_does_not_matter(a: Outcome, b: Outcome, c: Outcome) -> None:
    assert join(join(a, b), c) is join(a, join(b, c))


@pytest.mark.parametrize("outcome", Outcome)
def test_an_attempt_that_teaches_nothing_new_changes_nothing(outcome: Outcome) -> None:
    assert join(outcome, outcome) is outcome
    assert join(outcome, Outcome.NOT_SENT) is outcome


@pytest.mark.parametrize("outcome", Outcome)
def test_a_definitive_answer_absorbs_everything(outcome: Outcome) -> None:
    assert join(Outcome.DEFINITIVE, outcome) is Outcome.DEFINITIVE


def test_a_refusal_after_a_lost_answer_leaves_the_outcome_unknown() -> None:
    assert join(Outcome.UNKNOWN, Outcome.REJECTED) is Outcome.UNKNOWN
    assert join(Outcome.UNKNOWN, Outcome.NOT_SENT) is Outcome.UNKNOWN


def test_only_refusals_and_requests_that_never_left_executed_nothing() -> None:
    certain = [outcome for outcome in Outcome if executed_nothing(outcome)]

    assert certain == [Outcome.NOT_SENT, Outcome.REJECTED]


def test_the_numbers_that_journals_store_do_not_change() -> None:
    stored = {outcome.label: int(outcome) for outcome in Outcome}

    assert stored == {"not_sent": 0, "rejected": 1, "in_flight": 2, "unknown": 3, "definitive": 4}
