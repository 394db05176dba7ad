"""The part of the journal's contract that is about reading all of it, counting, and odd texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from replayfloor.client.journal import Journal
from replayfloor.core.errors import UsageError
from replayfloor.core.journal import (
    BeginOperation,
    CloseOperation,
    JournalEntry,
    OperationState,
    PendingCount,
    PruneOperations,
    ReadHistory,
    ReadOperation,
    ReadPending,
    ReleaseLease,
    RenewLease,
    Settlement,
    SettleOperation,
    StartAttempt,
)
from replayfloor.core.outcome import Outcome
from replayfloor.testing.journal_subject import (
    ENTRY,
    LATER_NS,
    ONE,
    PLACE,
    answered,
    ended,
    refuses,
)

IN_ORDER = ("", "B", "a", "a b", "aa", "z", "ä", "\uffee", "\U0001f600")
"""By code points, and not as any language, or UTF-16, has them."""

ODD = ("nul \x00", "half of a pair \ud83d", "\udcff")
"""What no store keeps in a text."""


def _begin(
    journal: Journal, namespace: str, name: str, at_ns: int = LATER_NS, provider: str = ""
) -> JournalEntry:
    entry = replace(
        ENTRY,
        namespace=namespace,
        operation_id=name,
        key=f"key of {name}",
        provider=provider,
        first_attempt_at_ns=at_ns,
    )
    return journal.begin(BeginOperation(entry)).entry


def _with_a_name(text: str) -> tuple[JournalEntry, ...]:
    """Return an entry for each of its names, which is the text there."""
    return (
        replace(ENTRY, namespace=text),
        replace(ENTRY, operation_id=text),
        replace(ENTRY, key=text),
        replace(ENTRY, provider=text),
        replace(ENTRY, method=text),
        replace(ENTRY, origin=text),
        replace(ENTRY, path=text),
        replace(ENTRY, boot_id=text),
    )


def _refuses_the_name(perform: Callable[[], object]) -> bool:
    try:
        perform()
    except UsageError:
        return True
    return False


class JournalReportContract:
    """What every journal keeps about reports and texts; part of `JournalContract`."""

    # -- ReadHistory

    def test_history_is_every_operation_whatever_its_state(self, journal: Journal) -> None:
        for name in ("open", "done", "closed", "settled"):
            _begin(journal, ENTRY.namespace, name)
        journal.end_attempt(replace(answered(), operation_id="done"))
        journal.close_operation(CloseOperation(ENTRY.namespace, "closed", LATER_NS))
        place = (ENTRY.namespace, "settled")
        journal.settle(SettleOperation(*place, LATER_NS, Settlement.EXECUTED, "seen"))

        states = {entry.operation_id: entry.state for entry in journal.history()}

        assert states == {
            "closed": OperationState.UNKNOWN_FINAL,
            "done": OperationState.DONE,
            "open": OperationState.OPEN,
            "settled": OperationState.SETTLED,
        }

    def test_history_is_in_the_order_of_the_code_points(self, journal: Journal) -> None:
        places = [("", name) for name in IN_ORDER] + [(name, "") for name in IN_ORDER[1:]]
        for place in reversed(places):
            _begin(journal, *place)

        found = [(entry.namespace, entry.operation_id) for entry in journal.history()]

        assert found == places

    def test_history_goes_on_behind_a_place_whether_or_not_an_entry_is_there(
        self, journal: Journal
    ) -> None:
        entries = [_begin(journal, *place) for place in (("a", "z"), ("b", "a"), ("b", "c"))]
        behind = [("", ""), ("a", "z"), ("a", "zz"), ("b", "a"), ("b", "b"), ("b", "c"), ("c", "")]

        found = [journal.history(ReadHistory(after=place)) for place in behind]

        assert found == [tuple(entries[n:]) for n in (0, 1, 1, 2, 2, 3, 3)]

    def test_a_history_read_in_parts_has_every_entry_once(self, journal: Journal) -> None:
        for number in range(10):
            _begin(journal, f"namespace {number % 3}", f"invoice-{number}")
        read: list[JournalEntry] = []
        after: tuple[str, str] | None = None

        while part := journal.history(ReadHistory(after=after, limit=3)):
            read += part
            after = (part[-1].namespace, part[-1].operation_id)
            # What comes meanwhile, before the place that is reached, does not move it.
            _begin(journal, "before all", f"another-{len(read)}")

        assert tuple(read) == journal.history(ReadHistory(after=("before all", "z")))
        assert len(read) == 10

    def test_history_keeps_to_a_namespace(self, journal: Journal) -> None:
        _begin(journal, "a", "1")
        inside = [_begin(journal, "b", name) for name in ("1", "2")]
        _begin(journal, "c", "1")

        assert journal.history(ReadHistory("b")) == tuple(inside)
        assert journal.history(ReadHistory("b", after=("b", "1"))) == tuple(inside[1:])
        assert journal.history(ReadHistory("b", after=("a", "9"))) == tuple(inside)
        assert journal.history(ReadHistory("b", after=("c", ""))) == ()

    # -- CountPending

    def test_what_is_pending_is_counted_by_provider_namespace_and_state(
        self, journal: Journal
    ) -> None:
        for name, at_ns in (("1", 30), ("2", 20), ("3", 40), ("late", 10), ("answered", 5)):
            _begin(journal, "stripe/live", name, at_ns, "stripe")
        _begin(journal, "stripe/test", "1", 50, "stripe")
        _begin(journal, "stripe/live", "own", 60, "a proxy of it")
        journal.close_operation(CloseOperation("stripe/live", "late", LATER_NS))
        done = replace(answered(), namespace="stripe/live", operation_id="answered")
        journal.end_attempt(done)

        def counted(provider: str, namespace: str, count: int, oldest_ns: int) -> PendingCount:
            return PendingCount(
                provider=provider,
                namespace=namespace,
                state=OperationState.OPEN,
                count=count,
                oldest_first_attempt_at_ns=oldest_ns,
            )

        late = counted("stripe", "stripe/live", 1, 10)
        assert journal.count_pending() == (
            counted("a proxy of it", "stripe/live", 1, 60),
            counted("stripe", "stripe/live", 3, 20),
            replace(late, state=OperationState.UNKNOWN_FINAL),
            counted("stripe", "stripe/test", 1, 50),
        )

    def test_without_anything_pending_nothing_is_counted(self, journal: Journal) -> None:
        assert journal.count_pending() == ()
        journal.begin(BeginOperation(ENTRY))
        journal.end_attempt(answered())

        assert journal.count_pending() == ()

    # -- texts

    @pytest.mark.parametrize("text", ODD, ids=ascii)
    def test_a_name_that_no_store_can_keep_is_refused_before_anything_is_written(
        self, journal: Journal, text: str
    ) -> None:
        for odd in _with_a_name(text):
            assert _refuses_the_name(partial(journal.begin, BeginOperation(odd)))
        after = ReadHistory(after=(ENTRY.namespace, text))
        assert _refuses_the_name(lambda: journal.history(after))

        assert journal.history() == ()
        journal.begin(BeginOperation(ENTRY))
        resumed = replace(ENTRY, path=text)
        assert _refuses_the_name(lambda: journal.begin(BeginOperation(resumed)))

    @pytest.mark.parametrize("text", ODD, ids=ascii)
    def test_no_operation_has_a_name_that_no_store_can_keep(
        self, journal: Journal, text: str
    ) -> None:
        journal.begin(BeginOperation(ENTRY))
        place = (ENTRY.namespace, text)
        attempt = replace(ended(Outcome.UNKNOWN), operation_id=text)
        settle = SettleOperation(*place, LATER_NS, Settlement.EXECUTED, "")

        assert refuses(lambda: journal.start_attempt(StartAttempt(*place, LATER_NS)))
        assert refuses(lambda: journal.end_attempt(attempt))
        assert refuses(lambda: journal.close_operation(CloseOperation(*place, LATER_NS)))
        assert refuses(lambda: journal.renew_lease(RenewLease(*place, LATER_NS, ONE, 1.0)))
        assert refuses(lambda: journal.release_lease(ReleaseLease(*place, ONE)))
        assert refuses(lambda: journal.settle(settle))
        assert journal.read(ReadOperation(*place)) is None
        assert journal.pending(ReadPending(text)) == ()
        assert journal.history(ReadHistory(text)) == ()
        assert journal.prune(PruneOperations(text, LATER_NS)) == 0
        assert journal.read(ReadOperation(*PLACE)) == ENTRY

    def test_evidence_and_notes_are_kept_with_a_mark_for_what_cannot_be(
        self, journal: Journal
    ) -> None:
        text, kept = "a\x00b\ud83d\udcffc", "a\ufffdb\ufffd\ufffdc"
        begun = journal.begin(BeginOperation(replace(ENTRY, last_evidence=text, note=text))).entry

        attempt = journal.end_attempt(ended(Outcome.UNKNOWN, evidence=text))
        settled = journal.settle(SettleOperation(*PLACE, LATER_NS, Settlement.EXECUTED, text))

        assert (begun.last_evidence, begun.note) == (kept, kept)
        assert attempt.last_evidence == settled.note == kept
        assert journal.read(ReadOperation(*PLACE)) == settled
