"""Groups, what is at risk in them, and what a check refuses."""

from __future__ import annotations

from dataclasses import replace

from client.tail.invented import AT, DAY, MARGIN_NS, RETENTION_S, H, S, entry
from replayfloor.client.tail.check import refusals
from replayfloor.client.tail.gathering import build, danger_of
from replayfloor.client.tail.measure import Bound
from replayfloor.client.tail.report import By, Danger, Group, Terms
from replayfloor.client.tail.sightings import of_entry, operation
from replayfloor.core.journal import JournalEntry, OperationState
from replayfloor.core.outcome import Outcome

TERMS = Terms(at_ns=AT)
OPEN, UNKNOWN = OperationState.OPEN, OperationState.UNKNOWN_FINAL


def groups(*entries: JournalEntry, terms: Terms = TERMS) -> tuple[Group, ...]:
    return build((operation(of_entry(each, AT), AT) for each in entries), terms)


def group(*entries: JournalEntry, terms: Terms = TERMS) -> Group:
    (found,) = groups(*entries, terms=terms)
    return found


def test_a_group_counts_and_measures_its_operations() -> None:
    found = group(
        *(entry(f"fast{n}", first_ago_s=50_000) for n in range(8)),
        entry("slow", first_ago_s=50_000, sent_after_s=4_320, attempts=5),
        entry("open", first_ago_s=8_640, state=OPEN),
    )

    assert (found.operations, found.resent, found.attempts) == (10, 1, 14)
    assert found.tail.percentile(50) == Bound(0, at_least=False)
    assert found.tail.percentile(90) == Bound(4_320 * S, at_least=False)
    assert found.tail.percentile(80) == Bound(0, at_least=False)
    assert found.tail.largest == Bound(8_640 * S, at_least=True)
    assert (found.open.count, found.open.oldest_ns) == (1, 8_640 * S)
    assert found.retention_s == RETENTION_S
    assert found.window_ns == DAY - MARGIN_NS
    assert found.share_of(found.tail.largest) == 0.1


def test_the_smallest_of_several_retentions_counts() -> None:
    found = group(
        entry("a", first_ago_s=9, retention_s=86_400.0 * 7, sent_after_s=4_320),
        entry("b", first_ago_s=9, retention_s=86_400.0),
        entry("c", first_ago_s=9, retention_s=0.0),
    )

    assert (found.retention_s, found.retention_max_s) == (86_400.0, 7 * 86_400.0)
    assert found.share_of(found.tail.largest) == 0.05
    assert found.window_ns == DAY - MARGIN_NS


def test_providers_are_apart_and_namespaces_on_request() -> None:
    entries = [
        entry("a", first_ago_s=9, provider="b", namespace="b/live"),
        entry("a", first_ago_s=9, provider="b", namespace="b/test"),
        entry("a", first_ago_s=9, provider="a"),
    ]

    assert [each.name for each in groups(*entries)] == ["a", "b"]
    by = groups(*entries, terms=replace(TERMS, by=By.NAMESPACE))
    assert [each.name for each in by] == ["a", "b / b/live", "b / b/test"]


def test_a_provider_without_a_name_is_called_by_its_namespace() -> None:
    found = group(entry("a", first_ago_s=9, provider="", namespace="old"))

    assert found.name == "old"


def danger(each: JournalEntry, share: float = 0.5) -> Danger | None:
    return danger_of(operation(of_entry(each, AT), AT), share)


def test_an_operation_is_at_risk_past_the_share_of_its_own_retention() -> None:
    at = entry("a", first_ago_s=43_200, state=OPEN)
    past = entry("a", first_ago_s=43_200.000001, state=OPEN)

    assert danger(at) is None
    assert danger(past) is Danger.OLD
    assert danger(at, 0.4) is Danger.OLD


def test_an_operation_is_late_from_its_send_deadline_on() -> None:
    window_s = (DAY - MARGIN_NS) / S

    assert danger(entry("a", first_ago_s=window_s - 0.001, state=OPEN)) is Danger.OLD
    assert danger(entry("a", first_ago_s=window_s, state=OPEN)) is Danger.LATE


def test_without_a_retention_nobody_can_say_that_an_open_operation_is_at_risk() -> None:
    assert danger(entry("a", first_ago_s=10**7, state=OPEN, retention_s=0.0)) is None
    closed = entry("a", first_ago_s=10**7, state=UNKNOWN, retention_s=0.0)
    assert danger(closed) is Danger.UNKNOWN


def test_what_was_closed_and_never_executed_is_told_apart() -> None:
    refused = entry("a", first_ago_s=10**6, state=UNKNOWN, outcome=Outcome.REJECTED)

    assert danger(refused) is Danger.NOT_EXECUTED
    assert danger(entry("a", first_ago_s=9, state=OperationState.DONE)) is None


def test_of_each_danger_the_oldest_are_listed_and_all_are_counted() -> None:
    found = group(
        *(entry(f"old{n}", first_ago_s=50_000 + n, state=OPEN) for n in range(9)),
        *(entry(f"closed{n}", first_ago_s=10**6 + n, state=UNKNOWN) for n in range(4)),
        terms=replace(TERMS, listed=2),
    )

    listed = {risk.danger: [each.operation_id for each in risk.oldest] for risk in found.risks}
    assert listed == {Danger.OLD: ["old8", "old7"], Danger.UNKNOWN: ["closed3", "closed2"]}
    assert [risk.count for risk in found.risks] == [9, 4]


def test_since_leaves_out_what_ended_before_and_nothing_that_is_open() -> None:
    entries = [
        entry("ended before", first_ago_s=7_200, sent_after_s=3_599),
        entry("ended after", first_ago_s=7_200, sent_after_s=3_600),
        entry("still open", first_ago_s=7_200, state=OPEN),
        entry("closed", first_ago_s=10**6, state=UNKNOWN),
        entry("refused", first_ago_s=7_200, state=OPEN, outcome=Outcome.REJECTED),
    ]

    found = group(*entries, terms=replace(TERMS, since_ns=AT - H))

    assert (found.operations, found.open.count, found.unknown.count) == (3, 1, 1)


def test_a_check_says_which_figure_passes_the_share() -> None:
    fast = [entry(f"fast{n}", first_ago_s=50_000) for n in range(99)]
    slow = [entry(f"slow{n}", first_ago_s=90_000, sent_after_s=50_000) for n in range(2)]

    (largest,) = refusals(group(*fast, slow[0]), 0.5)
    assert largest.startswith("shop: the largest, 13 h 53 min, is 57.9 % of the retention")
    p99, also_largest = refusals(group(*fast[:50], *slow), 0.5)
    assert p99.startswith("shop: p99, 13 h 53 min")
    assert also_largest.startswith("shop: the largest")


def test_a_check_passes_at_the_share_and_not_past_it() -> None:
    at = group(entry("a", first_ago_s=90_000, sent_after_s=43_200))
    past = group(entry("a", first_ago_s=90_000, sent_after_s=43_201))

    assert refusals(at, 0.5) == []
    assert len(refusals(past, 0.5)) == 2
    assert refusals(past, 0.6) == []


def test_a_check_counts_what_is_open() -> None:
    assert refusals(group(entry("a", first_ago_s=50_000, state=OPEN)), 0.5) != []


def test_a_check_refuses_what_was_closed_by_the_send_deadline() -> None:
    closed = entry("a", first_ago_s=10**6, elapsed_s=10**6, state=UNKNOWN)

    assert refusals(group(closed), 0.5) != []


def test_a_check_cannot_pass_a_tail_whose_retention_is_not_known() -> None:
    nothing_resent = group(entry("a", first_ago_s=9, retention_s=0.0))
    resent = group(entry("a", first_ago_s=9, sent_after_s=1, retention_s=0.0))
    open_ = group(entry("a", first_ago_s=0, state=OPEN, retention_s=0.0))

    assert refusals(nothing_resent, 0.5) == []
    assert "no retention is known" in refusals(resent, 0.5)[0]
    assert "no retention is known" in refusals(open_, 0.5)[0]
