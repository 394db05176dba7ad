"""Pending operations as they stand at a moment, and settling them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from client.clients import START_NS
from replayfloor.client.effects import Moment
from replayfloor.client.journal import MemoryJournal
from replayfloor.client.operations import (
    OperationBusy,
    PendingOperation,
    described,
    pending,
    settle,
)
from replayfloor.core.errors import UsageError
from replayfloor.core.fingerprint import DIGEST_BYTES, Fingerprint
from replayfloor.core.journal import (
    NOTE_LENGTH_MAX,
    BeginOperation,
    CloseOperation,
    EndAttempt,
    JournalEntry,
    OperationState,
    ReadOperation,
    Settlement,
    StartAttempt,
)
from replayfloor.core.outcome import Outcome

S = 1_000_000_000
DAY_S = 86_400
WINDOW_S = 80_000
OWNER = bytes(16)[:-1] + b"\x01"
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
    boot_id="boot",
    first_boot_ns=500 * S,
    retention_s=DAY_S,
    send_deadline_ns=START_NS + WINDOW_S * S,
    last_attempt_at_ns=START_NS,
    last_seen_at_ns=START_NS,
)
PLACE = (ENTRY.namespace, ENTRY.operation_id)


def begun(entry: JournalEntry = ENTRY, lease_s: float = 0.0) -> MemoryJournal:
    """Return a journal with an entry."""
    journal = MemoryJournal()
    journal.begin(BeginOperation(entry, lease_s))
    return journal


def one(journal: MemoryJournal, at: int | Moment) -> PendingOperation:
    """Return the pending operation of a journal that has one."""
    (found,) = pending(journal, at)
    return found


def test_a_pending_operation_says_what_the_entry_and_the_moment_tell() -> None:
    journal = begun()
    journal.end_attempt(EndAttempt(*PLACE, START_NS + S, Outcome.REJECTED, "status 429"))

    assert one(journal, START_NS + 20_000 * S) == PendingOperation(
        provider="shop",
        namespace="shop/acct_1/live",
        operation_id="invoice-1",
        key="k1",
        method="POST",
        url="https://shop.example/charges",
        first_attempt_at=datetime(2027, 1, 15, 8, tzinfo=UTC),
        elapsed_s=20_000,
        retry_until=datetime(2027, 1, 15, 8, tzinfo=UTC) + timedelta(seconds=WINDOW_S),
        retention_s=DAY_S,
        attempts=1,
        outcome=Outcome.REJECTED,
        state=OperationState.OPEN,
        leased=False,
        lease_until=None,
        evidence="status 429",
        window_used=0.25,
    )


def test_an_attempt_that_never_ended_counts_as_one_that_was_sent() -> None:
    assert one(begun(), START_NS).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize(("after_ns", "resumable"), [(-1, True), (0, False), (1, False)])
def test_it_may_be_sent_until_its_deadline_and_not_at_it(after_ns: int, *, resumable: bool) -> None:
    operation = one(begun(), START_NS + WINDOW_S * S + after_ns)

    assert operation.resumable is resumable
    assert (operation.window_used < 1) is resumable


def test_no_rounding_ends_a_window_of_years_a_nanosecond_early() -> None:
    end_ns = START_NS + 10 * 365 * DAY_S * S
    long = replace(ENTRY, send_deadline_ns=end_ns)

    assert described(long, end_ns - 1).resumable
    assert not described(long, end_ns).resumable


@pytest.mark.parametrize(
    "late",
    [
        replace(ENTRY, elapsed_ns=WINDOW_S * S),
        replace(ENTRY, first_boot_ns=0),
    ],
    ids=["the journal knows", "the clock since the boot knows"],
)
def test_a_wall_clock_that_was_set_back_makes_nothing_younger(late: JournalEntry) -> None:
    moment = Moment(START_NS - 3600 * S, WINDOW_S * S, "boot")

    assert not one(begun(late), moment).resumable
    assert one(begun(late), moment).elapsed_s >= WINDOW_S


def test_a_window_that_has_no_length_is_over() -> None:
    operation = described(replace(ENTRY, send_deadline_ns=START_NS), START_NS)

    assert (operation.window_used, operation.resumable) == (1.0, False)


@pytest.mark.parametrize(
    ("outcome", "resumable"),
    [(Outcome.NOT_SENT, True), (Outcome.REJECTED, True), (Outcome.UNKNOWN, False)],
)
def test_without_a_known_retention_only_what_was_never_executed_may_be_sent(
    outcome: Outcome, *, resumable: bool
) -> None:
    entry = replace(ENTRY, retention_s=0.0, worst=outcome, attempts_ended=1)

    assert described(entry, START_NS).resumable is resumable
    assert described(entry, START_NS).retention_s is None


def test_what_is_latched_may_not_be_sent_however_young() -> None:
    journal = begun()
    journal.close_operation(CloseOperation(*PLACE, START_NS))

    assert one(journal, START_NS).state is OperationState.UNKNOWN_FINAL
    assert not one(journal, START_NS).resumable


def test_a_lease_is_told_until_it_ends() -> None:
    journal = begun(replace(ENTRY, lease_owner=OWNER), lease_s=30)
    ends = datetime(2027, 1, 15, 8, 0, 30, tzinfo=UTC)

    during, after = one(journal, START_NS + 30 * S - 1), one(journal, START_NS + 30 * S)

    assert (during.leased, during.lease_until) == (True, ends)
    assert (after.leased, after.lease_until) == (False, None)
    assert during.resumable


def test_only_the_namespace_that_is_asked_for_is_listed_and_the_oldest_first() -> None:
    journal = begun()
    younger = replace(ENTRY, operation_id="invoice-2", key="k2", first_attempt_at_ns=START_NS + S)
    other = replace(ENTRY, namespace="other", first_attempt_at_ns=START_NS - S)
    for entry in (younger, other):
        journal.begin(BeginOperation(entry))

    def ids(namespace: str | None, limit: int = 10) -> list[str]:
        found = pending(journal, START_NS, namespace, limit)
        return [f"{each.namespace} {each.operation_id}" for each in found]

    mine = ["shop/acct_1/live invoice-1", "shop/acct_1/live invoice-2"]
    assert ids(None) == ["other invoice-1", *mine]
    assert ids("shop/acct_1/live") == mine
    assert ids(None, 1) == ["other invoice-1"]


# -- settling -------------------------------------------------------------------------------------


def test_settling_ends_an_operation_with_a_note() -> None:
    journal = begun()

    after = settle(journal, *PLACE, Settlement.EXECUTED, "charge ch_1", START_NS + S)

    assert (after.state, after.settlement, after.note) == (
        OperationState.SETTLED,
        Settlement.EXECUTED,
        "charge ch_1",
    )
    assert after.last_seen_at_ns == START_NS + S
    assert pending(journal, START_NS) == ()


def test_what_is_being_sent_is_not_settled_unless_it_is_forced() -> None:
    journal = begun(replace(ENTRY, lease_owner=OWNER), lease_s=30)
    settlement = Settlement.NOT_EXECUTED

    with pytest.raises(OperationBusy, match="08:00:30"):
        settle(journal, *PLACE, settlement, "n", START_NS + 30 * S - 1)
    assert one(journal, START_NS).state is OperationState.OPEN

    assert settle(journal, *PLACE, settlement, "n", START_NS + 30 * S).state == "settled"
    forced = begun(replace(ENTRY, lease_owner=OWNER), lease_s=30)
    assert settle(forced, *PLACE, settlement, "n", START_NS, force=True).state == "settled"


class Hasty(MemoryJournal):
    """Another process begins an attempt between every look and what follows it."""

    owner = OWNER

    def read(self, effect: ReadOperation) -> JournalEntry | None:
        found = super().read(effect)
        self.start_attempt(StartAttempt(*PLACE, START_NS, 0, self.owner, 30.0))
        return found


class Brief(Hasty):
    """And gives up before the settling."""

    owner = b""


def test_an_operation_that_is_sent_while_it_is_settled_stays_open() -> None:
    journal = Hasty()
    journal.begin(BeginOperation(ENTRY))

    with pytest.raises(OperationBusy, match="Nothing was settled"):
        settle(journal, *PLACE, Settlement.NOT_EXECUTED, "n", START_NS)

    assert one(journal, START_NS).state is OperationState.OPEN


def test_an_attempt_that_was_made_while_it_is_settled_is_told() -> None:
    journal = Brief()
    journal.begin(BeginOperation(ENTRY))

    with pytest.raises(OperationBusy, match="had begun another attempt"):
        settle(journal, *PLACE, Settlement.NOT_EXECUTED, "n", START_NS)


def test_what_was_answered_stays_answered() -> None:
    journal = begun()
    journal.end_attempt(
        EndAttempt(*PLACE, START_NS, Outcome.DEFINITIVE, "201", done=True, final_status=201)
    )

    after = settle(journal, *PLACE, Settlement.NOT_EXECUTED, "n", START_NS)

    assert (after.state, after.settlement) == (OperationState.DONE, None)


@pytest.mark.parametrize("note", ["", " \t", "n" * (NOTE_LENGTH_MAX + 1)])
def test_a_note_is_needed_and_kept_whole_or_not_at_all(note: str) -> None:
    journal = begun()

    with pytest.raises(UsageError):
        settle(journal, *PLACE, Settlement.EXECUTED, note, START_NS)

    assert one(journal, START_NS).state is OperationState.OPEN


def test_an_operation_that_is_not_there_cannot_be_settled() -> None:
    with pytest.raises(UsageError, match="no operation 'invoice-9'"):
        settle(begun(), ENTRY.namespace, "invoice-9", Settlement.EXECUTED, "n", START_NS)
