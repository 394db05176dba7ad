"""Deliveries are counted by source and outcome, as a recount by hand has them, in any order."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayfloor.core.problem import ProblemKind
from replayfloor.server.events import EventKind, ServerEvent
from replayfloor.server.webhooks import counts as module
from replayfloor.server.webhooks.counts import OTHER_SOURCES, DeliveryCounts, SourceCounts

K = EventKind
FIRST = (K.CLAIMED, K.TAKEN_OVER, K.EXECUTED_OPENLY)
THREADS, EACH = 8, 2000


def delivery(
    kind: EventKind, detail: str = "", *, source: str = "shop", retried: bool | None = None
) -> ServerEvent:
    """Return what is told of a delivery."""
    return ServerEvent(kind, "00" * 16, detail, source, retried)


def counted(*events: ServerEvent) -> SourceCounts:
    """Return the counts of the only source of some events."""
    counts = DeliveryCounts()
    for each in events:
        counts.note(each)
    (only,) = counts.report()
    return only


EVENTS = st.builds(
    delivery,
    st.sampled_from(EventKind),
    st.sampled_from([*(kind.value for kind in ProblemKind), "201", "ValueError", ""]),
    source=st.sampled_from(["", "shop", "bank"]),
    retried=st.sampled_from([True, False, None]),
)


@given(st.lists(EVENTS, max_size=60))
def test_the_counts_are_those_of_a_recount_for_any_sequence_of_events(
    events: list[ServerEvent],
) -> None:
    counts = DeliveryCounts()
    for each in events:
        counts.note(each)

    for found in counts.report():
        mine = [each for each in events if each.source == found.source]
        kinds = Counter(each.kind for each in mine)
        refused = Counter(each.detail for each in mine if each.kind is K.REFUSED)
        again = Counter(each.kind for each in mine if each.retried)
        in_flight = refused.pop("in-flight", 0)
        for name in ("201", "ValueError", ""):
            refused["other"] += refused.pop(name, 0)
        assert found == SourceCounts(
            found.source,
            first=sum(kinds[kind] for kind in FIRST),
            duplicates=kinds[K.REPLAYED],
            in_flight=in_flight,
            failed=kinds[K.FREED],
            past_horizon=kinds[K.PAST_HORIZON],
            refused=dict(+refused),
            retried_first=sum(again[kind] for kind in FIRST),
            retried_duplicates=again[K.REPLAYED],
        )
    counted_kinds = {*FIRST, K.REPLAYED, K.REFUSED, K.FREED, K.PAST_HORIZON}
    sources = {each.source for each in events if each.source and each.kind in counted_kinds}
    assert [each.source for each in counts.report()] == sorted(sources)


def test_the_hit_rate_is_the_share_of_duplicates_in_what_was_answered_for() -> None:
    refusal = delivery(K.REFUSED, "invalid-signature")
    answered = (delivery(K.CLAIMED), delivery(K.REPLAYED), delivery(K.CLAIMED))

    assert counted(refusal).hit_rate is None
    assert counted(delivery(K.CLAIMED)).hit_rate == 0.0
    assert counted(refusal, *answered).hit_rate == pytest.approx(1 / 3)


def test_what_has_no_source_is_not_counted() -> None:
    counts = DeliveryCounts()

    assert counts.note(delivery(K.CLAIMED, source="")) is None
    assert counts.report() == ()


def test_sources_after_the_most_that_are_counted_share_one_entry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SOURCES_MAX", 3)
    counts = DeliveryCounts()
    for number in [*range(10), 0, 9]:
        counts.note(delivery(K.CLAIMED, source=f"s{number}"))

    found = {each.source: each.first for each in counts.report()}
    assert found == {"s0": 2, "s1": 1, "s2": 1, OTHER_SOURCES: 8}


def test_a_report_is_a_copy_and_cannot_be_written_to() -> None:
    counts = DeliveryCounts()
    counts.note(delivery(K.REFUSED, "invalid-signature"))
    (before,) = counts.report()
    counts.note(delivery(K.REFUSED, "invalid-signature"))

    assert before.refused == {"invalid-signature": 1}
    assert not hasattr(before.refused, "__setitem__")
    assert hash(before)


@pytest.fixture
def switching_often() -> Iterator[None]:
    """Threads take turns as often as the interpreter lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("switching_often")
def test_nothing_is_lost_when_many_threads_count() -> None:
    counts = DeliveryCounts()
    together = threading.Barrier(THREADS)

    def work(number: int) -> int:
        together.wait()
        told = 0
        for _ in range(EACH):
            told += counts.note(delivery(K.CLAIMED, retried=True)) is not None
            counts.note(delivery(K.REFUSED, "invalid-signature", source=f"s{number % 2}"))
        return told

    with ThreadPoolExecutor(THREADS) as pool:
        told = sum(pool.map(work, range(THREADS)))

    first, second, shop = counts.report()
    all_ = THREADS * EACH
    assert shop.first == shop.retried_first == all_
    assert first.refused == second.refused == {"invalid-signature": all_ // 2}
    assert told == 1 + (all_ - module.UNRECOGNISED_MIN) // module.AGAIN_AFTER


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_counts_from_nothing_even_if_a_thread_was_counting() -> None:
    counts = DeliveryCounts()
    counts.note(delivery(K.CLAIMED))
    with counts._one_at_a_time:  # as another thread of the parent may have it
        child = os.fork()
        if child == 0:
            free = counts._one_at_a_time.acquire(timeout=5)
            os._exit(0 if free and not counts._tallies else 1)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert counts.report()[0].first == 1
