"""A process dies between two bytes, and another one goes on: real processes, files and sockets."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from client.clients import Setup, info, named
from client.loopback import DROP, OK, Loopback, Reply
from replayfloor.client import JournalUnavailable, KeyReuseMismatch, OutcomePending, SQLiteJournal
from replayfloor.client.journal import Journal, MemoryJournal
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.journal import BeginOperation, Begun, EndAttempt, JournalEntry
from replayfloor.core.outcome import Outcome

PATIENCE_S = 60.0

# Dies by itself, without any cleanup, at the event that is named: after the journal's commit and
# before the send, or after the answer and before it is recorded or returned.
PAY_AND_DIE = """
import os, signal, sys
import httpx
from replayfloor.client import IdempotentTransport, Profile
url, path, last_event = sys.argv[1:]
def die(event):
    if type(event).__name__ == last_event:
        os.kill(os.getpid(), signal.SIGKILL)
transport = IdempotentTransport(
    profile=Profile(name="provider", retention_s=86_400),
    journal=f"sqlite:///{path}", on_event=die, sleep=lambda _: None,
)
with httpx.Client(transport=transport) as client:
    client.post(url, content=b"pay", extensions={"idempotency": {"operation_id": "invoice-1"}})
"""


def _pay_and_die(loopback: Loopback, path: Path, last_event: str) -> None:
    died = subprocess.run(
        [sys.executable, "-c", PAY_AND_DIE, loopback.url(), str(path), last_event],
        timeout=PATIENCE_S,
        check=False,
    )
    assert died.returncode == -signal.SIGKILL


def _resume(loopback: Loopback, path: Path) -> httpx.Response:
    journal = SQLiteJournal(path)
    setup = Setup(journal=journal)
    (entry,) = journal.pending()
    setup.time.now_ns = entry.first_attempt_at_ns + 3600 * 10**9
    with setup.client() as client:
        response = client.post(loopback.url(), content=b"pay", extensions=named("invoice-1"))
    journal.close()
    return response


@pytest.mark.parametrize(("last_event", "sent_before"), [("AttemptStarted", 0), ("WaitStarted", 1)])
def test_a_killed_process_is_followed_by_one_with_the_same_key(
    last_event: str, sent_before: int, loopback: Loopback, tmp_path: Path
) -> None:
    path = tmp_path / "outbound.db"
    loopback.script(*[DROP] * sent_before, OK)
    _pay_and_die(loopback, path, last_event)
    assert len(loopback.received) == sent_before

    response = _resume(loopback, path)

    assert len(loopback.received) == sent_before + 1
    assert set(loopback.keys()) == {f'"{info(response).key}"'}
    assert info(response).resumed
    assert info(response).attempts == 2
    assert info(response).elapsed_s >= 3600


def test_the_deadline_of_the_first_attempt_stays(loopback: Loopback, tmp_path: Path) -> None:
    path = tmp_path / "outbound.db"
    loopback.script(DROP)
    _pay_and_die(loopback, path, "WaitStarted")
    journal = SQLiteJournal(path)
    (before,) = journal.pending()
    setup = Setup(journal=journal)
    setup.time.now_ns = before.first_attempt_at_ns + 10**12
    with setup.client() as client, pytest.raises(OutcomePending) as caught:
        client.post(loopback.url(), content=b"pay", extensions=named("invoice-1"))

    (after,) = journal.pending()
    assert after.send_deadline_ns == before.send_deadline_ns
    assert after.first_attempt_at_ns == before.first_attempt_at_ns
    assert caught.value.attempts == 5
    assert caught.value.outcome is Outcome.UNKNOWN
    journal.close()


@pytest.mark.parametrize(
    ("path", "content", "content_type"),
    [
        ("/charges", b"pay more", "text/plain"),
        ("/charges", b"pay", "application/json"),
        ("/charges?really=1", b"pay", "text/plain"),
        ("/refunds", b"pay", "text/plain"),
    ],
)
def test_another_request_under_a_known_operation_id_is_not_sent(
    path: str, content: bytes, content_type: str, loopback: Loopback
) -> None:
    setup = Setup()
    with setup.client() as client:
        client.post(
            loopback.url(),
            content=b"pay",
            headers={"Content-Type": "text/plain"},
            extensions=named("invoice-1"),
        )
        with pytest.raises(KeyReuseMismatch) as caught:
            client.post(
                loopback.url(path),
                content=content,
                headers={"Content-Type": content_type},
                extensions=named("invoice-1"),
            )

    assert len(loopback.received) == 1
    assert caught.value.operation_id == "invoice-1"


def test_another_key_for_a_known_operation_id_is_not_sent(loopback: Loopback) -> None:
    setup = Setup()
    with setup.client() as client:
        client.post(loopback.url(), extensions=named("invoice-1", "k1"))
        with pytest.raises(KeyReuseMismatch, match="another key"):
            client.post(loopback.url(), extensions=named("invoice-1", "k2"))
        with pytest.raises(KeyReuseMismatch, match="belongs to the operation 'invoice-1'"):
            client.post(loopback.url(), extensions=named("invoice-2", "k1"))

    assert len(loopback.received) == 1


def test_an_operation_can_be_continued_by_its_key_alone(loopback: Loopback) -> None:
    loopback.script(*[DROP] * 4, OK)
    setup = Setup()
    with setup.client() as client:
        with pytest.raises(OutcomePending) as caught:
            client.post(loopback.url(), extensions=named("invoice-1"))
        response = client.post(loopback.url(), headers={"Idempotency-Key": str(caught.value.key)})

    assert info(response).operation_id == "invoice-1"
    assert len(set(loopback.keys())) == 1


# -- a journal that fails -------------------------------------------------------------------------


class _Failing(MemoryJournal):
    """Fails at one of its operations."""

    def __init__(self, *, begin: bool = False, end: bool = False) -> None:
        super().__init__()
        self.fails_at_begin, self.fails_at_end = begin, end

    def begin(self, effect: BeginOperation) -> Begun:
        if self.fails_at_begin:
            raise StoreUnavailable("the disk is full")
        return super().begin(effect)

    def end_attempt(self, effect: EndAttempt) -> JournalEntry:
        if self.fails_at_end:
            raise StoreUnavailable("the disk is full")
        return super().end_attempt(effect)


@pytest.mark.parametrize("path", ["nowhere/outbound.db", None])
def test_without_a_journal_nothing_is_sent(
    path: str | None, loopback: Loopback, tmp_path: Path
) -> None:
    journal: Journal = SQLiteJournal(tmp_path / path) if path else _Failing(begin=True)
    with Setup(journal=journal).client() as client, pytest.raises(JournalUnavailable) as caught:
        client.post(loopback.url(), extensions=named("invoice-1"))

    assert loopback.connections == 0
    assert isinstance(caught.value.__cause__, StoreUnavailable)


def test_a_journal_that_fails_after_the_answer_does_not_take_it_away(loopback: Loopback) -> None:
    setup = Setup(journal=_Failing(end=True))
    with setup.client() as client:
        response = client.post(loopback.url(), extensions=named("invoice-1"))

    assert response.status_code == 201
    failed = [event for event in setup.events if type(event).__name__ == "JournalFailed"]
    assert len(failed) == 1


def test_what_was_not_recorded_is_presumed_to_have_been_executed(loopback: Loopback) -> None:
    loopback.script(OK, Reply(429))
    journal = _Failing(end=True)
    with Setup(journal=journal).client() as client:
        client.post(loopback.url(), extensions=named("invoice-1"))
    journal.fails_at_end = False

    with Setup(journal=journal).client() as client, pytest.raises(OutcomePending):
        client.post(loopback.url(), extensions=named("invoice-1"))
