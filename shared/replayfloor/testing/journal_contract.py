"""The contract of every journal, as tests: one for each promise in `replayfloor.core.journal`.

Derive a test class and give it a fixture `journal` that returns a new, empty journal:

    class TestMyJournal(JournalContract):
        @pytest.fixture
        def journal(self): ...

What a journal keeps when its process is killed cannot be tested through one object; test that
beside the contract.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from replayfloor.client.journal import Journal
from replayfloor.core.journal import (
    EVIDENCE_LENGTH_MAX,
    BeginOperation,
    CloseOperation,
    OperationState,
    PruneOperations,
    ReadOperation,
    ReadPending,
    ReleaseLease,
    RenewLease,
    StartAttempt,
)
from replayfloor.core.outcome import Outcome
from replayfloor.testing.journal_lease_contract import JournalLeaseContract
from replayfloor.testing.journal_report_contract import JournalReportContract
from replayfloor.testing.journal_subject import (
    EARLIER_NS,
    ENTRY,
    LATER_NS,
    ONE,
    PLACE,
    THREADS,
    answered,
    ended,
    refuses,
)
from replayfloor.testing.journal_upkeep_contract import SETTLE, JournalUpkeepContract

__all__ = ["ENTRY", "LATER_NS", "PLACE", "JournalContract", "refuses_everything"]


def refuses_everything(journal: Journal) -> bool:
    """Return whether every operation of a journal raises StoreUnavailable."""
    performs: list[Callable[[], object]] = [
        lambda: journal.begin(BeginOperation(ENTRY)),
        lambda: journal.start_attempt(StartAttempt(*PLACE, LATER_NS)),
        lambda: journal.end_attempt(ended(Outcome.UNKNOWN)),
        lambda: journal.close_operation(CloseOperation(*PLACE, LATER_NS)),
        lambda: journal.renew_lease(RenewLease(*PLACE, LATER_NS, ONE, 1.0)),
        lambda: journal.release_lease(ReleaseLease(*PLACE, ONE)),
        lambda: journal.settle(SETTLE),
        lambda: journal.read(ReadOperation(*PLACE)),
        lambda: journal.prune(PruneOperations(None, LATER_NS)),
        journal.pending,
        journal.history,
        journal.count_pending,
    ]
    return all(refuses(perform) for perform in performs)


class JournalContract(JournalLeaseContract, JournalUpkeepContract, JournalReportContract):
    """What every journal keeps."""

    # -- BeginOperation

    def test_a_new_operation_is_inserted_as_it_is(self, journal: Journal) -> None:
        begun = journal.begin(BeginOperation(ENTRY))

        assert (begun.entry, begun.resumed) == (ENTRY, False)
        assert journal.pending() == (ENTRY,)

    def test_an_entry_that_stands_is_returned_unchanged(self, journal: Journal) -> None:
        journal.begin(BeginOperation(ENTRY))
        other = replace(ENTRY, key="key-2", path="/other", first_attempt_at_ns=LATER_NS)

        begun = journal.begin(BeginOperation(other))

        assert (begun.entry, begun.resumed) == (ENTRY, True)
        assert journal.pending() == (ENTRY,)

    def test_an_entry_is_found_by_its_key(self, journal: Journal) -> None:
        journal.begin(BeginOperation(ENTRY))

        begun = journal.begin(BeginOperation(replace(ENTRY, operation_id="invoice-2")))

        assert (begun.entry, begun.resumed) == (ENTRY, True)

    def test_the_operation_id_goes_before_the_key(self, journal: Journal) -> None:
        other = replace(ENTRY, operation_id="invoice-2", key="key-2")
        journal.begin(BeginOperation(other))
        journal.begin(BeginOperation(ENTRY))

        begun = journal.begin(BeginOperation(replace(ENTRY, key="key-2")))

        assert begun.entry == ENTRY

    def test_namespaces_share_nothing(self, journal: Journal) -> None:
        elsewhere = replace(ENTRY, namespace="provider/test")
        journal.begin(BeginOperation(ENTRY))

        assert not journal.begin(BeginOperation(elsewhere)).resumed

    def test_of_simultaneous_calls_one_inserts(self, journal: Journal) -> None:
        proposals = [BeginOperation(replace(ENTRY, key=f"key-{n}")) for n in range(THREADS)]

        with ThreadPoolExecutor(THREADS) as threads:
            begun = list(threads.map(journal.begin, proposals))

        assert [each.resumed for each in begun].count(False) == 1
        assert len({each.entry for each in begun}) == 1

    # -- StartAttempt

    def test_an_attempt_is_counted(self, journal: Journal) -> None:
        journal.begin(BeginOperation(ENTRY))

        entry = journal.start_attempt(StartAttempt(*PLACE, LATER_NS))

        assert (entry.attempts, entry.attempts_ended) == (2, 0)
        assert (entry.last_attempt_at_ns, entry.last_seen_at_ns) == (LATER_NS, LATER_NS)
        assert journal.pending() == (entry,)

    def test_simultaneous_attempts_count_once_each(self, journal: Journal) -> None:
        journal.begin(BeginOperation(ENTRY))
        effects = [StartAttempt(*PLACE, LATER_NS)] * THREADS

        with ThreadPoolExecutor(THREADS) as threads:
            entries = list(threads.map(journal.start_attempt, effects))

        assert sorted(entry.attempts for entry in entries) == list(range(2, THREADS + 2))

    def test_a_closed_operation_counts_no_attempt(self, journal: Journal) -> None:
        journal.begin(BeginOperation(ENTRY))
        closed = journal.close_operation(CloseOperation(*PLACE, LATER_NS))

        assert journal.start_attempt(StartAttempt(*PLACE, LATER_NS + 1)) == closed

    def test_the_moments_never_get_smaller(self, journal: Journal) -> None:
        journal.begin(BeginOperation(ENTRY))
        effect = replace(ended(Outcome.UNKNOWN), at_ns=EARLIER_NS)

        journal.start_attempt(StartAttempt(*PLACE, EARLIER_NS))
        journal.end_attempt(effect)
        entry = journal.close_operation(CloseOperation(*PLACE, EARLIER_NS))

        moments = (entry.last_attempt_at_ns, entry.last_seen_at_ns)
        assert moments == (ENTRY.last_attempt_at_ns, ENTRY.last_seen_at_ns)

    def test_an_attempt_opens_a_refused_operation_again(self, journal: Journal) -> None:
        journal.begin(BeginOperation(ENTRY))
        refused = replace(ended(Outcome.REJECTED, done=True, status=400), response=b"refused")
        assert journal.end_attempt(refused).state is OperationState.DONE

        entry = journal.start_attempt(StartAttempt(*PLACE, LATER_NS))

        assert (entry.state, entry.final_status, entry.response) == (
            OperationState.OPEN,
            None,
            None,
        )
        assert journal.pending() == (entry,)

    def test_an_attempt_leaves_an_answered_operation_done(self, journal: Journal) -> None:
        journal.begin(BeginOperation(ENTRY))
        journal.end_attempt(replace(answered(), response=b"answer"))

        entry = journal.start_attempt(StartAttempt(*PLACE, LATER_NS))

        standing = (OperationState.DONE, 201, b"answer")
        assert (entry.state, entry.final_status, entry.response) == standing

    # -- EndAttempt

    def test_the_worst_outcome_never_decreases(self, journal: Journal) -> None:
        journal.begin(BeginOperation(ENTRY))
        learned = [Outcome.UNKNOWN, Outcome.NOT_SENT, Outcome.DEFINITIVE, Outcome.UNKNOWN]

        entries = [journal.end_attempt(ended(outcome)) for outcome in learned]

        worst = [entry.worst for entry in entries]
        assert worst == [Outcome.UNKNOWN] * 2 + [Outcome.DEFINITIVE] * 2
        assert [entry.attempts_ended for entry in entries] == [1, 2, 3, 4]

    def test_done_keeps_the_final_status_and_is_never_undone(self, journal: Journal) -> None:
        journal.begin(BeginOperation(ENTRY))
        journal.end_attempt(ended(Outcome.DEFINITIVE, done=True, status=201))

        entry = journal.end_attempt(ended(Outcome.UNKNOWN))

        assert (entry.state, entry.final_status) == (OperationState.DONE, 201)

    def test_a_refusal_settles_nothing_while_another_attempt_goes_on(
        self, journal: Journal
    ) -> None:
        journal.begin(BeginOperation(ENTRY))
        journal.start_attempt(StartAttempt(*PLACE, LATER_NS))
        refused = replace(ended(Outcome.REJECTED, done=True, status=422), response=b"refused")

        entry = journal.end_attempt(refused)

        assert (entry.state, entry.final_status, entry.response) == (
            OperationState.OPEN,
            None,
            None,
        )
        assert journal.end_attempt(refused).state is OperationState.DONE

    def test_a_refusal_settles_nothing_after_an_attempt_that_was_lost(
        self, journal: Journal
    ) -> None:
        journal.begin(BeginOperation(ENTRY))
        journal.start_attempt(StartAttempt(*PLACE, LATER_NS))
        journal.end_attempt(ended(Outcome.UNKNOWN))

        entry = journal.end_attempt(ended(Outcome.REJECTED, done=True, status=422))

        assert (entry.state, entry.final_status) == (OperationState.OPEN, None)

    def test_an_answer_settles_whatever_else_goes_on(self, journal: Journal) -> None:
        journal.begin(BeginOperation(ENTRY))
        journal.start_attempt(StartAttempt(*PLACE, LATER_NS))

        entry = journal.end_attempt(answered())

        assert (entry.state, entry.final_status) == (OperationState.DONE, 201)

    def test_an_answer_that_arrives_late_settles_a_closed_operation(self, journal: Journal) -> None:
        journal.begin(BeginOperation(ENTRY))
        journal.close_operation(CloseOperation(*PLACE, LATER_NS))

        entry = journal.end_attempt(ended(Outcome.DEFINITIVE, done=True, status=201))

        assert entry.state is OperationState.DONE

    def test_evidence_is_replaced_and_cut(self, journal: Journal) -> None:
        journal.begin(BeginOperation(ENTRY))
        journal.end_attempt(ended(Outcome.UNKNOWN, evidence="first"))

        entry = journal.end_attempt(ended(Outcome.UNKNOWN, evidence="ä" * 10_000))

        assert entry.last_evidence == "ä" * EVIDENCE_LENGTH_MAX

    # -- CloseOperation

    def test_an_open_operation_is_closed_for_good(self, journal: Journal) -> None:
        journal.begin(BeginOperation(ENTRY))
        entry = journal.close_operation(CloseOperation(*PLACE, LATER_NS))

        assert (entry.state, entry.last_seen_at_ns) == (OperationState.UNKNOWN_FINAL, LATER_NS)
        assert journal.end_attempt(ended(Outcome.UNKNOWN)).state is OperationState.UNKNOWN_FINAL
        assert journal.begin(BeginOperation(ENTRY)).entry.state is OperationState.UNKNOWN_FINAL

    def test_a_done_operation_stays_done_and_the_moment_is_kept(self, journal: Journal) -> None:
        journal.begin(BeginOperation(ENTRY))
        journal.end_attempt(ended(Outcome.DEFINITIVE, done=True, status=201))

        entry = journal.close_operation(CloseOperation(*PLACE, LATER_NS + 5))

        assert (entry.state, entry.last_seen_at_ns) == (OperationState.DONE, LATER_NS + 5)

    # -- ReadPending

    def test_pending_is_what_is_not_done_oldest_first(self, journal: Journal) -> None:
        for number in (3, 1, 2):
            name = f"invoice-{number}"
            moved = replace(ENTRY, first_attempt_at_ns=ENTRY.first_attempt_at_ns + number)
            journal.begin(BeginOperation(replace(moved, operation_id=name, key=name)))
        done = ended(Outcome.DEFINITIVE, done=True, status=201)
        journal.end_attempt(replace(done, operation_id="invoice-2"))
        journal.close_operation(CloseOperation(ENTRY.namespace, "invoice-3", LATER_NS))

        assert [each.operation_id for each in journal.pending()] == ["invoice-1", "invoice-3"]

    def test_pending_keeps_to_a_namespace_and_a_limit(self, journal: Journal) -> None:
        elsewhere = replace(ENTRY, namespace="provider/test", first_attempt_at_ns=LATER_NS)
        journal.begin(BeginOperation(ENTRY))
        journal.begin(BeginOperation(elsewhere))

        assert journal.pending(ReadPending("provider/test")) == (elsewhere,)
        assert journal.pending(ReadPending(limit=1)) == (ENTRY,)

    # -- failures

    def test_an_operation_that_is_not_there_is_refused(self, journal: Journal) -> None:
        assert refuses(lambda: journal.start_attempt(StartAttempt(*PLACE, LATER_NS)))
        assert refuses(lambda: journal.end_attempt(ended(Outcome.UNKNOWN)))
        assert refuses(lambda: journal.close_operation(CloseOperation(*PLACE, LATER_NS)))

    def test_a_closed_journal_refuses_everything(self, journal: Journal) -> None:
        journal.begin(BeginOperation(ENTRY))
        journal.close()

        assert refuses_everything(journal)
