"""Postgres is killed under load, three times over: what a client was told is never lost."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
import redis

from faults.conftest import Stack
from faults.senders import (
    IN_FLIGHT,
    RETRY_PAUSE_S,
    UNAVAILABLE,
    UNKNOWN,
    is_replay,
    kind_of,
    post,
    wait_for,
)
from replayfloor.core.fingerprint import receipt_id
from replayfloor.server.events import EventKind
from support.ledger import Ledger
from support.services import Postgres

WRITERS = 16
ROUNDS = 3
LOAD_S = 0.3


@dataclass
class Load:
    """Writers that send one payment after the other, each until its answer is definitive."""

    stack: Stack
    path: str
    over: threading.Event = field(default_factory=threading.Event)
    told: dict[str, httpx.Response] = field(default_factory=dict)
    refusals: list[httpx.Response] = field(default_factory=list)

    def write(self, writer: int) -> None:
        """Send payments until the load is over."""
        worker = self.stack.workers[writer % 2]
        for number in itertools.count():
            if self.over.is_set():
                return
            payment = f"{writer}-{number}"
            while not self._is_definitive(answer := post(worker, self.path, payment)):
                self.refusals.append(answer)
                time.sleep(RETRY_PAUSE_S)
            self.told[payment] = answer

    def _wait_for_answers(self, enough: int) -> None:
        wait_for("answers", lambda: len(self.told) >= enough)

    def _wait_for_a_refusal(self) -> None:
        """Leave it away until it was missed: requests wait for a while, and might outlast it."""
        before = len(self.refusals)
        wait_for(
            "a refusal",
            lambda: UNAVAILABLE in {kind_of(answer) for answer in self.refusals[before:]},
        )

    def _is_definitive(self, answer: httpx.Response) -> bool:
        """Say whether a client stops here; in an external route it does when told "unknown"."""
        unknown = self.path == "/external" and kind_of(answer) is UNKNOWN
        return answer.status_code == 201 or unknown

    def while_killed(self, server: Postgres) -> None:
        """Kill the database now and then; return when every payment that was begun is answered."""
        with ThreadPoolExecutor(WRITERS) as pool:
            writers = [pool.submit(self.write, number) for number in range(WRITERS)]
            try:
                for _ in range(ROUNDS):
                    time.sleep(LOAD_S)
                    server.crash()
                    self._wait_for_a_refusal()
                    server.start()
                    self._wait_for_answers(len(self.told) + WRITERS)
            finally:
                self.over.set()
        for writer in writers:
            writer.result()


@pytest.fixture
def effects(tmp_path: Path) -> Ledger:
    """A ledger outside of the database that is killed: its effects stay when the receipts fail."""
    ledger = Ledger(f"sqlite:///{tmp_path / 'effects.db'}")
    ledger.create()
    return ledger


@pytest.fixture
def stack(postgres_stack: Stack, effects: Ledger) -> Stack:
    """The stack, whose workers write into that ledger unless the transaction is the claim's."""
    for worker in postgres_stack.workers:
        worker.kill()
        worker.start(LEDGER_EFFECTS=effects.url, LEDGER_OPERATION_S="1")
    return postgres_stack


@pytest.mark.parametrize(
    "path", ["/atomic", "/external", pytest.param("/repeatable", marks=pytest.mark.slow)]
)
def test_no_receipt_that_was_told_is_lost_when_postgres_is_killed_under_load(
    stack: Stack, effects: Ledger, postgres_server: Postgres, path: str
) -> None:
    load = Load(stack, path)
    load.while_killed(postgres_server)
    with redis.Redis.from_url(stack.lock_url) as lock:
        lock.flushall()
    runs = (stack.ledger if path == "/atomic" else effects).all_runs()

    assert {len(each) for each in runs.values()} == {1}
    check_replays(stack, load, runs)
    check_refusals(load)


def check_replays(stack: Stack, load: Load, runs: dict[str, list[str]]) -> None:
    """Every 201 has its row and is replayed, unless its worker has reported the receipt lost.

    An effect outside of the database stands when the database is gone, and its client is told so;
    what cannot be kept then is the answer, and the person on call learns of it.
    """
    lost = {
        receipt
        for worker in stack.workers
        for receipt in worker.receipts_with(EventKind.RECEIPT_LOST)
    }
    assert not lost or load.path != "/atomic"
    for payment, told in load.told.items():
        if told.status_code == 201:
            assert payment in runs
            if receipt_id("default", None, payment).hex() not in lost:
                again = post(stack.workers[0], load.path, payment)
                assert again.content == told.content
                assert is_replay(again)


def check_refusals(load: Load) -> None:
    """Nobody was refused without a reason to branch on and a time to come back.

    Only an atomic handler whose own connection broke has failed by itself: that is its own 500.
    """
    assert UNAVAILABLE in {kind_of(answer) for answer in load.refusals}
    for answer in load.refusals:
        if answer.status_code == 500 and load.path == "/atomic":
            continue
        assert kind_of(answer) in (UNAVAILABLE, IN_FLIGHT, UNKNOWN), answer.text
        assert int(answer.headers["retry-after"]) >= 1
