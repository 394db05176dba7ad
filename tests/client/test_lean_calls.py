"""What a call leaves out to cost less: that nothing depended on it."""

from __future__ import annotations

import threading
from dataclasses import fields, replace
from itertools import chain, combinations

import httpx
import pytest

from client.clients import NO_TLS, START_NS
from client.loopback import OK, Loopback
from replayfloor.client import (
    AsyncIdempotentTransport,
    IdempotentTransport,
    MemoryJournal,
    Profile,
)
from replayfloor.client.budget import RetryBudget
from replayfloor.client.budget_rules import Refund, Spend
from replayfloor.client.catalogue import catalogue, profile
from replayfloor.client.classify import classify
from replayfloor.client.effects import Reply
from replayfloor.client.journal import memory
from replayfloor.client.profile_answers import GENERIC, AnswerRules
from replayfloor.core.fingerprint import Fingerprint
from replayfloor.core.journal import (
    BeginOperation,
    Begun,
    EndAttempt,
    JournalEntry,
    OperationState,
    PruneOperations,
    ReadOperation,
    Settlement,
)
from replayfloor.core.journal_rules import may_be_pruned, with_attempt_ended
from replayfloor.core.message import Headers, Response
from replayfloor.core.outcome import Outcome

PROFILE = Profile(name="provider", retention_s=86_400.0)

FULL = JournalEntry(
    namespace="n",
    operation_id="o",
    key="k",
    provider="p",
    method="POST",
    origin="http://h",
    path="/p",
    fingerprint=Fingerprint(b"f" * 16),
    first_attempt_at_ns=1,
    boot_id="boot",
    first_boot_ns=2,
    elapsed_ns=3,
    retention_s=4.0,
    send_deadline_ns=5,
    attempts=6,
    attempts_ended=2,
    last_attempt_at_ns=7,
    last_seen_at_ns=8,
    worst=Outcome.REJECTED,
    state=OperationState.SETTLED,
    final_status=9,
    last_evidence="e",
    lease_owner=b"l",
    lease_until_ns=10,
    response=b"r",
    settlement=Settlement.EXECUTED,
    note="note",
)
"""An entry in which no field has its default."""


def test_the_end_of_an_attempt_keeps_every_field_that_it_does_not_speak_of() -> None:
    effect = EndAttempt("n", "o", 0, Outcome.REJECTED, "ended")

    ended = with_attempt_ended(FULL, effect)

    assert ended == replace(FULL, attempts_ended=3, last_evidence="ended")
    for field in fields(JournalEntry):
        assert getattr(FULL, field.name) != field.default, field.name


TELLING: Headers = (
    (b"retry-after", b"7"),
    (b"idempotent-replayed", b"true"),
    (b"idempotency-replayed", b"true"),
    (b"stripe-should-retry", b"false"),
    (b"x-should-retry", b"true"),
    (b"content-type", b"text/plain"),
)


def test_an_answer_that_says_nothing_is_read_as_it_would_be_with_a_closer_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    some = chain.from_iterable(combinations(TELLING, count) for count in range(3))
    headers = [tuple(each) for each in some]
    # The shortest retention of all: where no source states one, the caller has to.
    hinted = AnswerRules(should_retry="x-again", hint_required=True)
    rules = {GENERIC, hinted, *(profile(name, retention_s=300.0).answers for name in catalogue())}
    asked = [
        (Reply(Response(status, lines, b"")), known, each)
        for lines in headers
        for status in (201, 307, 400, 409, 429, 503)
        for known in (Outcome.NOT_SENT, Outcome.UNKNOWN)
        for each in rules
    ]

    found = [classify(*each) for each in asked]
    monkeypatch.setattr(AnswerRules, "silent", lambda *_: False)

    assert found == [classify(*each) for each in asked]


class Elsewhere(MemoryJournal):
    """One that may wait, as far as a transport can know."""


@pytest.mark.anyio
@pytest.mark.parametrize(("kind", "here"), [(MemoryJournal, True), (Elsewhere, False)])
async def test_only_the_journal_that_waits_for_nothing_is_written_in_the_event_loops_thread(
    loopback: Loopback,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[MemoryJournal],
    here: bool,
) -> None:
    loopback.script(OK, path="/")
    journal, threads = kind(), list[int]()

    def begin(effect: BeginOperation) -> Begun:
        threads.append(threading.get_ident())
        return kind.begin(journal, effect)

    monkeypatch.setattr(journal, "begin", begin)
    inner = httpx.AsyncHTTPTransport(verify=NO_TLS)
    transport = AsyncIdempotentTransport(inner, profile=PROFILE, journal=journal)
    async with httpx.AsyncClient(transport=transport) as client:
        await client.post(loopback.url("/"))

    assert [each == threading.get_ident() for each in threads] == [here]


def test_what_was_changed_since_it_was_looked_at_is_not_pruned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    journal = MemoryJournal()
    done = replace(FULL, state=OperationState.DONE)
    journal.begin(BeginOperation(done))

    def looked_at(entry: JournalEntry, effect: PruneOperations) -> bool:
        # Meanwhile another call of the operation writes.
        journal.end_attempt(EndAttempt("n", "o", START_NS, Outcome.DEFINITIVE, "seen again"))
        return may_be_pruned(entry, effect)

    monkeypatch.setattr(memory, "may_be_pruned", looked_at)

    assert journal.prune(PruneOperations(None, 1000)) == 0
    standing = journal.read(ReadOperation("n", "o"))
    assert standing is not None
    assert standing.last_evidence == "seen again"


def test_headers_that_were_refused_before_they_were_written_were_not_sent(
    loopback: Loopback,
) -> None:
    inner = httpx.HTTPTransport(verify=NO_TLS)
    transport = IdempotentTransport(inner, profile=PROFILE, journal="memory:")
    with httpx.Client(transport=transport) as client, pytest.raises(httpx.LocalProtocolError):
        client.post(loopback.url("/"), headers={"x-token": "read from a file\n"})

    assert loopback.received == []


class Slow(dict[str, int]):
    """Buckets in which a second success comes while the first one is written."""

    def __init__(self, budget: RetryBudget, left: dict[str, int]) -> None:
        super().__init__(left)
        self.second = threading.Thread(target=lambda: budget.refund(Refund("o", 1)))

    def __setitem__(self, origin: str, left: int) -> None:
        if self.second.ident is None:
            self.second.start()
            self.second.join(0.05)  # it may have to wait for the first
        super().__setitem__(origin, left)


def test_no_success_is_lost_while_another_brings_its_token_back() -> None:
    budget = RetryBudget(capacity=10)
    assert budget.spend(Spend("o", 10))
    budget._left = slow = Slow(budget, budget._left)

    budget.refund(Refund("o", 1))
    slow.second.join()

    assert budget.left("o") == 2
