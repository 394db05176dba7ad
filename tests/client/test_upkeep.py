"""Pruning what is finished: never too early, in short transactions, now and then."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from client.clients import START_NS
from replayfloor.client.journal import MemoryJournal
from replayfloor.client.upkeep import (
    FINISHED_KEPT_S,
    FIRST_PRUNE_S,
    PRUNE_AGAIN_S,
    PRUNE_EVERY_S,
    Upkeep,
    prune,
)
from replayfloor.core.errors import StoreUnavailable, UsageError
from replayfloor.core.fingerprint import DIGEST_BYTES, Fingerprint
from replayfloor.core.journal import (
    PRUNED_MAX,
    BeginOperation,
    JournalEntry,
    OperationState,
    PruneOperations,
)

S = 1_000_000_000
DAY_S = 86_400
WINDOW_S = 80_000
ENTRY = JournalEntry(
    namespace="shop/acct_1/live",
    operation_id="invoice-1",
    key="k1",
    provider="shop",
    method="POST",
    origin="https://shop.example",
    path="/charges",
    fingerprint=Fingerprint(bytes(DIGEST_BYTES)),
    first_attempt_at_ns=START_NS,
    retention_s=DAY_S,
    send_deadline_ns=START_NS + WINDOW_S * S,
    last_attempt_at_ns=START_NS,
    last_seen_at_ns=START_NS,
)

# -- pruning --------------------------------------------------------------------------------------


def filled(count: int, state: OperationState = OperationState.DONE) -> MemoryJournal:
    """Return a journal with so many operations, all last seen at the start."""
    journal = MemoryJournal()
    for number in range(count):
        name = f"invoice-{number}"
        entry = replace(ENTRY, operation_id=name, key=name, state=state)
        journal.begin(BeginOperation(entry))
    return journal


def test_a_large_backlog_is_removed_whole() -> None:
    journal = filled(2 * PRUNED_MAX + 1)
    over_ns = START_NS + int((WINDOW_S + FINISHED_KEPT_S) * S)

    assert prune(journal, over_ns) == 0
    assert prune(journal, over_ns + 1) == 2 * PRUNED_MAX + 1
    assert journal.history() == ()


def test_no_key_is_forgotten_before_its_deadline_whatever_is_to_be_kept() -> None:
    journal = filled(1)

    assert prune(journal, START_NS + WINDOW_S * S, keep_finished_s=0) == 0
    assert prune(journal, START_NS + WINDOW_S * S + 1, keep_finished_s=0) == 1


@pytest.mark.parametrize("state", [OperationState.OPEN, OperationState.UNKNOWN_FINAL])
def test_what_has_no_end_is_never_removed(state: OperationState) -> None:
    assert prune(filled(1, state), START_NS + 10**18, keep_finished_s=0) == 0


def test_only_the_namespace_that_is_named_is_pruned() -> None:
    journal = filled(1)
    late_ns = START_NS + 10**18

    assert prune(journal, late_ns, namespace="other") == 0
    assert prune(journal, late_ns, namespace=ENTRY.namespace) == 1


@pytest.mark.parametrize("keep_s", [-1.0, float("nan"), float("inf")])
def test_what_is_no_length_of_time_is_refused(keep_s: float) -> None:
    with pytest.raises(UsageError):
        prune(filled(1), START_NS, keep_finished_s=keep_s)
    with pytest.raises(UsageError):
        Upkeep(keep_s)
    with pytest.raises(UsageError):
        Upkeep(1.0, keep_s)


# -- now and then ---------------------------------------------------------------------------------

FIRST_NS = int(FIRST_PRUNE_S * S)
EVERY_NS = int(PRUNE_EVERY_S * S)


def run(upkeep: Upkeep, journal: MemoryJournal, now_ns: int) -> int:
    """Do what a transport does at the end of each call."""
    return upkeep.sweep(journal, now_ns) if upkeep.due(now_ns) else 0


def test_it_is_not_due_at_the_first_call_but_soon_and_then_at_intervals() -> None:
    upkeep = Upkeep()
    at_ns = [0, FIRST_NS - 1, FIRST_NS, FIRST_NS + 1, FIRST_NS + EVERY_NS - 1, FIRST_NS + EVERY_NS]

    due = [upkeep.due(START_NS + each) for each in at_ns]

    assert due == [False, False, True, False, False, True]


def test_an_interval_that_is_shorter_than_soon_is_kept() -> None:
    upkeep = Upkeep(every_s=1.0)

    assert [upkeep.due(START_NS + each * S) for each in (0, 1, 1, 2)] == [False, True, False, True]


def test_of_many_threads_one_is_told_that_it_is_due() -> None:
    upkeep, barrier = Upkeep(), threading.Barrier(16)
    upkeep.due(START_NS)

    def ask(_: int) -> bool:
        barrier.wait(10)
        return upkeep.due(START_NS + FIRST_NS)

    with ThreadPoolExecutor(16) as threads:
        assert sum(threads.map(ask, range(16))) == 1


def test_a_clock_that_was_set_back_does_not_end_the_upkeep() -> None:
    upkeep = Upkeep()
    upkeep.due(START_NS)
    back_ns = START_NS - 10**18

    assert not upkeep.due(back_ns)
    assert not upkeep.due(back_ns + EVERY_NS - 1)
    assert upkeep.due(back_ns + EVERY_NS)


def test_a_run_removes_what_is_old_in_one_short_transaction_and_goes_on_soon() -> None:
    journal, late_ns = filled(PRUNED_MAX + 1), START_NS + 10**18
    upkeep = Upkeep()
    again_ns = late_ns + FIRST_NS + int(PRUNE_AGAIN_S * S)

    removed = [
        run(upkeep, journal, at_ns)
        for at_ns in (late_ns, late_ns + FIRST_NS, again_ns - 1, again_ns, again_ns + FIRST_NS)
    ]

    assert removed == [0, PRUNED_MAX, 0, 1, 0]


def test_a_run_keeps_what_it_was_told_to_keep() -> None:
    journal, upkeep = filled(1), Upkeep(keep_finished_s=DAY_S)
    over_ns = START_NS + (WINDOW_S + DAY_S) * S

    upkeep.due(over_ns - FIRST_NS)
    assert run(upkeep, journal, over_ns) == 0
    assert run(upkeep, journal, over_ns + EVERY_NS) == 1


class Broken(MemoryJournal):
    """A journal that cannot be pruned."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def prune(self, effect: PruneOperations) -> int:
        raise self.error


@pytest.mark.parametrize("error", [StoreUnavailable("away"), ValueError("a defect")])
def test_a_journal_that_cannot_be_pruned_does_not_disturb_the_call(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    upkeep = Upkeep()
    upkeep.due(START_NS)

    assert run(upkeep, Broken(error), START_NS + FIRST_NS) == 0

    assert "could not be pruned" in caplog.text
    assert not upkeep.due(START_NS + FIRST_NS + EVERY_NS - 1)
