"""It is told when no retry of a sender is recognised; and not when something here explains it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayfloor.server.events import WORTH_A_WARNING, EventKind, ServerEvent
from replayfloor.server.webhooks import counts as module
from replayfloor.server.webhooks.counts import (
    AGAIN_AFTER,
    UNRECOGNISED_MIN,
    DeliveryCounts,
)

K = EventKind
N = UNRECOGNISED_MIN


def delivery(
    kind: EventKind, detail: str = "", retried: bool | None = None, *, source: str = "shop"
) -> ServerEvent:
    """Return what is told of a delivery."""
    return ServerEvent(kind, "00" * 16, detail, source, retried)


AGAIN = delivery(K.CLAIMED, retried=True)
"""The sender says that it is a repetition, and it was taken for a first delivery."""

DUPLICATE = delivery(K.REPLAYED, retried=True)
FREED = delivery(K.FREED, "503")
BUSY = delivery(K.REFUSED, "in-flight", retried=True)


def told(*events: ServerEvent, counts: DeliveryCounts | None = None) -> list[int]:
    """Return after how many of the events it was told."""
    counts = DeliveryCounts() if counts is None else counts
    return [at for at, each in enumerate(events, 1) if counts.note(each) is not None]


def test_retries_that_are_all_taken_for_first_deliveries_are_told_once() -> None:
    assert told(*[AGAIN] * (N + AGAIN_AFTER - 1)) == [N]


def test_it_is_told_again_after_ten_times_as_many() -> None:
    assert AGAIN_AFTER == 10 * N
    assert told(*[AGAIN] * (N + 2 * AGAIN_AFTER)) == [N, N + AGAIN_AFTER, N + 2 * AGAIN_AFTER]


def test_it_is_told_again_after_a_duplicate_was_recognised() -> None:
    assert told(*[AGAIN] * N, DUPLICATE, *[AGAIN] * N) == [N, 2 * N + 1]


@pytest.mark.parametrize("retried", [True, False, None])
def test_one_duplicate_is_enough_to_begin_anew(retried: bool | None) -> None:
    duplicate = delivery(K.REPLAYED, retried=retried)

    assert told(*[AGAIN] * (N - 1), duplicate, *[AGAIN] * (N - 1)) == []


@pytest.mark.parametrize("retried", [False, None])
def test_first_deliveries_that_are_no_retries_are_not_told(retried: bool | None) -> None:
    first = delivery(K.CLAIMED, retried=retried)

    assert told(*[first] * (10 * N)) == []
    assert told(*[first, AGAIN] * N) == [2 * N]


@pytest.mark.parametrize(
    "failure",
    [
        FREED,
        BUSY,
        delivery(K.REFUSED, "store-unavailable"),
        delivery(K.REFUSED, "outcome-unknown", retried=True),
        delivery(K.EXECUTED_OPENLY),
    ],
    ids=lambda event: f"{event.kind.value} {event.detail}",
)
def test_each_failure_of_ours_explains_one_later_retry(failure: ServerEvent) -> None:
    assert told(*[failure] * N, *[AGAIN] * N) == []
    assert told(*[failure] * N, *[AGAIN] * 2 * N) == [3 * N]
    assert told(*[failure, AGAIN] * (3 * N)) == []


def test_a_failure_explains_nothing_that_came_before_it() -> None:
    assert told(*[AGAIN] * (N - 1), *[FREED] * 5, *[AGAIN] * 6) == [N - 1 + 5 + 6]


def test_a_duplicate_uses_up_that_another_delivery_was_at_work_but_not_a_failure() -> None:
    """Who came too early comes back for the answer; what failed comes back to be executed."""
    assert told(*[BUSY, DUPLICATE] * N, *[AGAIN] * N) == [3 * N]
    assert told(*[FREED, DUPLICATE] * N, *[AGAIN] * N) == []


@pytest.mark.parametrize("detail", ["invalid-signature", "unidentified-event", "event-reused"])
def test_what_a_stranger_can_cause_explains_nothing(detail: str) -> None:
    assert told(*[delivery(K.REFUSED, detail)] * N, *[AGAIN] * N) == [2 * N]


def test_a_retry_that_takes_over_a_dead_execution_was_recognised() -> None:
    assert told(*[delivery(K.TAKEN_OVER, retried=True)] * (10 * N)) == []


def test_the_duplicates_of_one_source_say_nothing_of_another() -> None:
    other = delivery(K.REPLAYED, retried=True, source="bank")
    failed = delivery(K.FREED, source="bank")

    assert told(*[AGAIN, other, failed] * N) == [3 * N - 2]


def test_sources_that_share_one_entry_are_not_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SOURCES_MAX", 1)
    counts = DeliveryCounts()
    counts.note(delivery(K.CLAIMED, source="one"))

    assert told(*[AGAIN] * (5 * N), counts=counts) == []


def test_what_is_told_names_the_source_and_says_what_to_check() -> None:
    counts = DeliveryCounts()
    *_, event = [counts.note(AGAIN) for _ in range(N)]

    assert event is not None
    assert event.kind is K.RETRIES_UNRECOGNISED
    assert event.kind in WORTH_A_WARNING
    assert (event.source, event.receipt_id, event.retried) == ("shop", AGAIN.receipt_id, True)
    assert event.detail.startswith(f"shop: {N} or more deliveries")
    for word in ("replayfloor policy check", "event id", "proxy", "signature"):
        assert word in event.detail


def test_what_is_told_is_itself_no_delivery() -> None:
    counts = DeliveryCounts()
    *_, event = [counts.note(AGAIN) for _ in range(N)]
    assert event is not None
    before = counts.report()

    assert counts.note(event) is None
    assert counts.report() == before


STEPS = st.sampled_from(
    [AGAIN, AGAIN, DUPLICATE, FREED, BUSY, delivery(K.CLAIMED), delivery(K.FINISHED, "200")]
)


@given(st.lists(st.tuples(STEPS, st.integers(1, 2 * N)), max_size=12))
def test_it_is_told_exactly_when_a_recount_by_hand_says_so(
    steps: list[tuple[ServerEvent, int]],
) -> None:
    events = [event for event, times in steps for _ in range(times)]
    expected: list[int] = []
    streak = explained_failed = explained_busy = 0
    for at, each in enumerate(events, 1):
        if each is FREED:
            explained_failed += 1
        elif each is BUSY:
            explained_busy += 1
        elif each is DUPLICATE:
            streak, explained_busy = 0, max(0, explained_busy - 1)
        elif each is AGAIN and explained_failed:
            explained_failed -= 1
        elif each is AGAIN and explained_busy:
            explained_busy -= 1
        elif each is AGAIN:
            streak += 1
            if streak in (N, *range(N + AGAIN_AFTER, 50 * AGAIN_AFTER, AGAIN_AFTER)):
                expected.append(at)

    assert told(*events) == expected
