"""The part of the journal's contract that is about what it knows and forgets: every field, the
elapsed time, the answer, settling by hand, reading one entry, pruning."""

from __future__ import annotations

from dataclasses import fields, replace

from replayfloor.client.journal import Journal
from replayfloor.core.journal import (
    NOTE_LENGTH_MAX,
    BeginOperation,
    CloseOperation,
    OperationState,
    PruneOperations,
    ReadOperation,
    Settlement,
    SettleOperation,
    StartAttempt,
)
from replayfloor.core.outcome import Outcome
from replayfloor.testing.journal_subject import (
    EARLIER_NS,
    ENTRY,
    FULL,
    LATER_NS,
    ONE,
    PLACE,
    answered,
    ended,
    refuses,
)

LEASE_S = 30.0
PAST_NS = ENTRY.send_deadline_ns + 1
SETTLE = SettleOperation(*PLACE, LATER_NS, Settlement.EXECUTED, "seen in the provider's dashboard")


def _begin(journal: Journal, name: str, namespace: str = ENTRY.namespace) -> None:
    entry = replace(ENTRY, namespace=namespace, operation_id=name, key=f"key of {name}")
    journal.begin(BeginOperation(entry))


def _finish(journal: Journal, name: str, at_ns: int, namespace: str = ENTRY.namespace) -> None:
    _begin(journal, name, namespace)
    journal.end_attempt(replace(answered(), namespace=namespace, operation_id=name, at_ns=at_ns))


def _stands(journal: Journal, name: str, namespace: str = ENTRY.namespace) -> bool:
    return journal.read(ReadOperation(namespace, name)) is not None


class JournalUpkeepContract:
    """What every journal keeps about what it knows; part of `JournalContract`."""

    # -- ReadOperation

    def test_every_field_is_kept(self, journal: Journal) -> None:
        assert all(getattr(FULL, field.name) != field.default for field in fields(FULL))

        assert journal.begin(BeginOperation(FULL)).entry == FULL
        assert journal.read(ReadOperation(*PLACE)) == FULL
        assert journal.begin(BeginOperation(FULL)).entry == FULL

    def test_an_entry_is_read_by_its_operation_id_alone(self, journal: Journal) -> None:
        journal.begin(BeginOperation(ENTRY))

        assert journal.read(ReadOperation(*PLACE)) == ENTRY
        assert journal.read(ReadOperation(ENTRY.namespace, ENTRY.key)) is None
        assert journal.read(ReadOperation("provider/test", ENTRY.operation_id)) is None

    # -- what attempts teach

    def test_the_elapsed_time_only_grows(self, journal: Journal) -> None:
        journal.begin(BeginOperation(replace(ENTRY, elapsed_ns=5)))

        seen = [
            journal.start_attempt(StartAttempt(*PLACE, LATER_NS, elapsed_ns=4)),
            journal.start_attempt(StartAttempt(*PLACE, LATER_NS, elapsed_ns=6)),
            journal.end_attempt(replace(ended(Outcome.UNKNOWN), elapsed_ns=5)),
            journal.end_attempt(replace(ended(Outcome.UNKNOWN), elapsed_ns=7)),
            journal.close_operation(CloseOperation(*PLACE, LATER_NS, elapsed_ns=6)),
            journal.close_operation(CloseOperation(*PLACE, LATER_NS, elapsed_ns=8)),
        ]

        assert [entry.elapsed_ns for entry in seen] == [5, 6, 6, 7, 7, 8]

    def test_a_response_is_kept_and_returned(self, journal: Journal) -> None:
        journal.begin(BeginOperation(ENTRY))
        response = bytes(range(256)) * 300

        journal.end_attempt(replace(answered(), response=response))
        entry = journal.end_attempt(ended(Outcome.UNKNOWN))

        assert entry.response == response
        assert journal.begin(BeginOperation(ENTRY)).entry == entry
        assert journal.end_attempt(replace(answered(), response=b"")).response == b""

    def test_a_retention_that_was_learned_replaces_the_deadline(self, journal: Journal) -> None:
        journal.begin(BeginOperation(ENTRY))
        unchanged = replace(ended(Outcome.UNKNOWN), send_deadline_ns=PAST_NS)
        learned = replace(unchanged, retention_s=0.5)

        entries = [journal.end_attempt(effect) for effect in (unchanged, learned, unchanged)]

        kept = [(entry.retention_s, entry.send_deadline_ns) for entry in entries]
        assert kept == [(ENTRY.retention_s, ENTRY.send_deadline_ns)] + [(0.5, PAST_NS)] * 2

    # -- SettleOperation

    def test_an_open_operation_is_settled_for_good(self, journal: Journal) -> None:
        journal.begin(BeginOperation(replace(ENTRY, lease_owner=ONE), LEASE_S))

        entry = journal.settle(SETTLE)

        assert entry == replace(
            ENTRY,
            state=OperationState.SETTLED,
            settlement=SETTLE.settlement,
            note=SETTLE.note,
            last_seen_at_ns=LATER_NS,
        )
        assert journal.pending() == ()
        assert journal.start_attempt(StartAttempt(*PLACE, LATER_NS + 1)) == entry
        assert journal.close_operation(CloseOperation(*PLACE, LATER_NS)) == entry

    def test_what_was_finally_unknown_is_settled_and_may_be_corrected(
        self, journal: Journal
    ) -> None:
        journal.begin(BeginOperation(ENTRY))
        journal.close_operation(CloseOperation(*PLACE, LATER_NS))
        journal.settle(SETTLE)
        corrected = SettleOperation(*PLACE, EARLIER_NS, Settlement.NOT_EXECUTED, "ä" * 10_000)

        entry = journal.settle(corrected)

        assert (entry.state, entry.settlement) == (
            OperationState.SETTLED,
            Settlement.NOT_EXECUTED,
        )
        assert (entry.note, entry.last_seen_at_ns) == ("ä" * NOTE_LENGTH_MAX, LATER_NS)

    def test_a_done_operation_is_not_settled(self, journal: Journal) -> None:
        journal.begin(BeginOperation(replace(ENTRY, lease_owner=ONE), LEASE_S))
        done = journal.end_attempt(answered())

        entry = journal.settle(replace(SETTLE, at_ns=LATER_NS + 5))

        assert entry == replace(done, last_seen_at_ns=LATER_NS + 5)

    def test_an_answer_that_arrives_late_goes_before_what_was_settled(
        self, journal: Journal
    ) -> None:
        journal.begin(BeginOperation(ENTRY))
        journal.settle(SETTLE)

        entry = journal.end_attempt(answered())

        assert (entry.state, entry.settlement) == (OperationState.DONE, SETTLE.settlement)

    def test_an_operation_that_is_not_there_is_not_settled(self, journal: Journal) -> None:
        assert refuses(lambda: journal.settle(SETTLE))

    # -- PruneOperations

    def test_pruning_removes_what_is_finished_and_older_than_the_moment(
        self, journal: Journal
    ) -> None:
        for name, at_ns in (("old", PAST_NS), ("young", PAST_NS + 1)):
            _finish(journal, name, at_ns)
        _begin(journal, "settled")
        journal.settle(replace(SETTLE, operation_id="settled"))

        assert journal.prune(PruneOperations(None, PAST_NS + 1)) == 2
        left = [name for name in ("old", "young", "settled") if _stands(journal, name)]
        assert left == ["young"]

    def test_what_is_not_finished_is_never_pruned(self, journal: Journal) -> None:
        _begin(journal, "open")
        _begin(journal, "closed")
        journal.close_operation(CloseOperation(ENTRY.namespace, "closed", LATER_NS))
        pending = journal.pending()

        assert journal.prune(PruneOperations(None, PAST_NS * 2)) == 0
        assert journal.pending() == pending
        assert len(pending) == 2

    def test_a_key_that_could_still_be_replayed_is_never_pruned(self, journal: Journal) -> None:
        _finish(journal, "done", LATER_NS)

        assert journal.prune(PruneOperations(None, ENTRY.send_deadline_ns)) == 0
        assert journal.prune(PruneOperations(None, PAST_NS)) == 1

    def test_pruning_keeps_to_a_namespace_and_to_a_limit_the_oldest_first(
        self, journal: Journal
    ) -> None:
        _finish(journal, "elsewhere", LATER_NS, "provider/test")
        for name, at_ns in (("third", 3), ("first", 1), ("second", 2)):
            _finish(journal, name, LATER_NS + at_ns)

        assert journal.prune(PruneOperations(ENTRY.namespace, PAST_NS, limit=2)) == 2
        assert [name for name in ("first", "second", "third") if _stands(journal, name)] == [
            "third"
        ]
        assert _stands(journal, "elsewhere", "provider/test")

    def test_what_was_pruned_is_begun_anew_with_its_id_and_its_key(self, journal: Journal) -> None:
        journal.begin(BeginOperation(ENTRY))
        journal.end_attempt(answered())
        journal.prune(PruneOperations(None, PAST_NS))

        begun = journal.begin(BeginOperation(replace(ENTRY, operation_id="invoice-2")))

        assert not begun.resumed
        assert not journal.begin(BeginOperation(replace(ENTRY, key="key-2"))).resumed
