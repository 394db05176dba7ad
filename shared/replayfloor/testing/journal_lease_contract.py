"""The part of the journal's contract that is about the lease: who may send now."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from replayfloor.client.journal import Journal
from replayfloor.core.journal import (
    LEASE_OWNER_BYTES,
    BeginOperation,
    CloseOperation,
    JournalEntry,
    ReadOperation,
    ReleaseLease,
    RenewLease,
    StartAttempt,
)
from replayfloor.core.outcome import Outcome
from replayfloor.testing.journal_subject import (
    ENTRY,
    LATER_NS,
    ONE,
    OTHER,
    PLACE,
    THREADS,
    answered,
    ended,
    refuses,
)

LEASE_S = 2.5
LEASE_NS = 2_500_000_000
MINE = replace(ENTRY, lease_owner=ONE)
BEGUN_UNTIL_NS = ENTRY.last_seen_at_ns + LEASE_NS


def _start(owner: bytes, at_ns: int = LATER_NS) -> StartAttempt:
    return StartAttempt(*PLACE, at_ns, lease_owner=owner, lease_s=LEASE_S)


def _lease(entry: JournalEntry) -> tuple[bytes, int]:
    return entry.lease_owner, entry.lease_until_ns


class JournalLeaseContract:
    """What every journal keeps about leases; part of `JournalContract`."""

    # -- granted

    def test_a_new_operation_comes_with_the_lease_of_its_call(self, journal: Journal) -> None:
        begun = journal.begin(BeginOperation(MINE, LEASE_S))

        assert begun.entry == replace(MINE, lease_until_ns=BEGUN_UNTIL_NS)
        assert journal.read(ReadOperation(*PLACE)) == begun.entry

    def test_an_entry_that_stands_keeps_its_lease(self, journal: Journal) -> None:
        first = journal.begin(BeginOperation(MINE, LEASE_S))

        again = journal.begin(BeginOperation(replace(ENTRY, lease_owner=OTHER), LEASE_S))

        assert again.entry == first.entry

    def test_of_simultaneous_calls_one_gets_the_lease(self, journal: Journal) -> None:
        journal.begin(BeginOperation(ENTRY))
        owners = [bytes([n + 1]) * LEASE_OWNER_BYTES for n in range(THREADS)]

        with ThreadPoolExecutor(THREADS) as threads:
            entries = list(threads.map(journal.start_attempt, map(_start, owners)))

        told = [entry.lease_owner == owner for entry, owner in zip(entries, owners, strict=True)]
        assert told.count(True) == 1
        assert {entry.attempts for entry in entries} == {2}
        assert {_lease(entry) for entry in entries} == {
            (owners[told.index(True)], LATER_NS + LEASE_NS)
        }

    def test_of_simultaneous_calls_one_steals_an_ended_lease(self, journal: Journal) -> None:
        journal.begin(BeginOperation(MINE, LEASE_S))
        owners = [bytes([n + 1]) * LEASE_OWNER_BYTES for n in range(THREADS)]
        effects = [_start(owner, BEGUN_UNTIL_NS) for owner in owners]

        with ThreadPoolExecutor(THREADS) as threads:
            entries = list(threads.map(journal.start_attempt, effects))

        assert len({_lease(entry) for entry in entries}) == 1
        assert entries[0].lease_owner in owners
        assert {entry.attempts for entry in entries} == {2}

    def test_a_call_that_holds_the_lease_starts_another_attempt(self, journal: Journal) -> None:
        journal.begin(BeginOperation(MINE, LEASE_S))

        entry = journal.start_attempt(_start(ONE))

        assert entry.attempts == 2
        assert _lease(entry) == (ONE, LATER_NS + LEASE_NS)

    # -- refused, and stolen

    def test_while_a_lease_lasts_another_call_changes_nothing(self, journal: Journal) -> None:
        standing = journal.begin(BeginOperation(MINE, LEASE_S)).entry
        last_ns = BEGUN_UNTIL_NS - 1

        assert journal.start_attempt(replace(_start(OTHER, last_ns), elapsed_ns=9)) == standing
        assert journal.start_attempt(StartAttempt(*PLACE, last_ns)) == standing
        assert journal.read(ReadOperation(*PLACE)) == standing

    def test_a_lease_that_has_ended_is_stolen(self, journal: Journal) -> None:
        journal.begin(BeginOperation(MINE, LEASE_S))

        entry = journal.start_attempt(_start(OTHER, BEGUN_UNTIL_NS))

        assert entry.attempts == 2
        assert _lease(entry) == (OTHER, BEGUN_UNTIL_NS + LEASE_NS)
        assert journal.start_attempt(_start(ONE, BEGUN_UNTIL_NS + 1)) == entry

    def test_a_call_without_a_name_leaves_an_ended_lease_to_nobody(self, journal: Journal) -> None:
        journal.begin(BeginOperation(MINE, LEASE_S))

        entry = journal.start_attempt(StartAttempt(*PLACE, BEGUN_UNTIL_NS, lease_s=LEASE_S))

        assert (entry.attempts, *_lease(entry)) == (2, b"", 0)

    # -- renewed, and released

    def test_a_lease_is_renewed_by_its_owner(self, journal: Journal) -> None:
        standing = journal.begin(BeginOperation(MINE, LEASE_S)).entry

        entry = journal.renew_lease(RenewLease(*PLACE, LATER_NS, ONE, LEASE_S))

        assert entry == replace(standing, lease_until_ns=LATER_NS + LEASE_NS)
        assert journal.start_attempt(_start(OTHER, BEGUN_UNTIL_NS)) == entry

    def test_a_lease_that_ended_and_nobody_took_is_renewed(self, journal: Journal) -> None:
        journal.begin(BeginOperation(MINE, LEASE_S))
        late_ns = BEGUN_UNTIL_NS + 7

        entry = journal.renew_lease(RenewLease(*PLACE, late_ns, ONE, LEASE_S))

        assert _lease(entry) == (ONE, late_ns + LEASE_NS)

    def test_anybody_elses_lease_is_not_renewed_and_none_is_not_taken(
        self, journal: Journal
    ) -> None:
        free = journal.begin(BeginOperation(ENTRY)).entry
        assert journal.renew_lease(RenewLease(*PLACE, LATER_NS, ONE, LEASE_S)) == free
        assert journal.renew_lease(RenewLease(*PLACE, LATER_NS, b"", LEASE_S)) == free

        taken = journal.start_attempt(_start(ONE))

        assert journal.renew_lease(RenewLease(*PLACE, LATER_NS + 1, OTHER, LEASE_S)) == taken
        assert journal.read(ReadOperation(*PLACE)) == taken

    def test_a_lease_is_released_by_its_owner_alone(self, journal: Journal) -> None:
        standing = journal.begin(BeginOperation(MINE, LEASE_S)).entry
        assert journal.release_lease(ReleaseLease(*PLACE, OTHER)) == standing
        assert journal.release_lease(ReleaseLease(*PLACE, b"")) == standing

        entry = journal.release_lease(ReleaseLease(*PLACE, ONE))

        assert entry == ENTRY
        assert journal.start_attempt(_start(OTHER)).lease_owner == OTHER

    # -- ended by what happened

    def test_an_answer_ends_the_lease_of_its_call_alone(self, journal: Journal) -> None:
        journal.begin(BeginOperation(MINE, LEASE_S))
        held = (ONE, BEGUN_UNTIL_NS)

        lost = journal.end_attempt(replace(ended(Outcome.UNKNOWN), lease_owner=ONE))
        late = journal.end_attempt(replace(answered(), lease_owner=OTHER))
        entry = journal.end_attempt(replace(answered(), lease_owner=ONE))

        assert [_lease(each) for each in (lost, late, entry)] == [held, held, (b"", 0)]
        assert entry.attempts_ended == 3

    def test_closing_ends_every_lease(self, journal: Journal) -> None:
        journal.begin(BeginOperation(MINE, LEASE_S))

        assert _lease(journal.close_operation(CloseOperation(*PLACE, LATER_NS))) == (b"", 0)

    def test_without_an_operation_there_is_no_lease(self, journal: Journal) -> None:
        assert refuses(lambda: journal.renew_lease(RenewLease(*PLACE, LATER_NS, ONE, LEASE_S)))
        assert refuses(lambda: journal.release_lease(ReleaseLease(*PLACE, ONE)))
