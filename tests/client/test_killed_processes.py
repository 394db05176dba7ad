"""Processes that pay are killed again and again; each operation is carried on and paid once.

The server forgets keys after two seconds, and the client computes its send deadline from the same
number. What was executed is counted at the server; nothing that the client says is taken for it.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from client.forgetful_server import ForgetfulServer
from client.payer import Order, Payers
from client.servers import running
from replayfloor.client.journal import open_journal
from replayfloor.core.journal import HISTORY_MAX, JournalEntry, ReadHistory

SEED = 20
OPERATIONS = 200
AT_ONCE = 4
RETENTION_S = 2.0
MARGIN_S = 0.6
"""What the way from the fence to the server takes at most, on a machine that does much else."""
LEASE_S = 0.15
"""Short: a killed process holds its operations back for so long, and there are 1.4 s to pay in. An
attempt that takes longer meets no second one, because one process at a time pays."""
LIFE_REQUESTS_MAX = 16
"""A process is killed after up to so many requests: some operations are answered in each life."""
LIFE_S = 3.0
"""And after so long, if the server hears nothing from it."""
SHARE_ANSWERED = 0.9
"""All, on a machine that does nothing else: an operation that is killed five times may be late."""
KILLS_MIN, KILLS_MAX = 20, 400
FEW = 24
OUTAGES = (2, 4)
"""After these kills no process is started before the server has forgotten the keys."""


@pytest.fixture(scope="module")
def payers() -> Iterator[Payers]:
    """The process that payers are forked from."""
    with Payers() as running_payers:
        yield running_payers


@dataclass
class Report:
    """What the payers have said: of each operation in which words, and when an attempt left."""

    path: Path
    said: dict[str, list[str]] = field(default_factory=lambda: defaultdict[str, list[str]](list))
    runs: dict[str, set[str]] = field(default_factory=lambda: defaultdict[str, set[str]](set))
    left: dict[str, list[int]] = field(default_factory=lambda: defaultdict[str, list[int]](list))
    read: int = 0

    def update(self) -> Report:
        """Read on."""
        if not self.path.exists():
            return self
        with self.path.open("rb") as file:
            file.seek(self.read)
            for line in file.read().splitlines():
                match json.loads(line):
                    case {"what": "left", "operation": str(operation), "at_ns": int(at_ns)}:
                        self.left[operation].append(at_ns)
                    case {"what": str(what), "operation": str(operation), **more}:
                        self.said[operation].append(what)
                        self.runs[operation].update(map(str, more.values()))
            self.read = file.tell()
        return self


@dataclass
class Sweep:
    """One sweep: the order, the server, and how processes are killed."""

    payers: Payers
    server: ForgetfulServer
    order: Order
    random: random.Random
    requests_max: int = LIFE_REQUESTS_MAX
    down_s: Callable[[int], float] = lambda kills: 0.0
    kills: int = 0

    def __post_init__(self) -> None:
        self.report = Report(Path(self.order.report))

    def run(self) -> None:
        """Start processes and kill them until every operation is settled."""
        while left := self.unsettled():
            pid = self.payers.fork(replace(self.order, operations=tuple(left)))
            self._let_live(len(left))
            self.payers.kill(pid)
            self.kills += 1
            assert self.kills < KILLS_MAX, left
            time.sleep(self.down_s(self.kills))

    def unsettled(self) -> list[str]:
        """Return the operations of which nothing final was said, those begun earlier first."""
        said = self.report.update().said
        return [each for each in self.order.operations if each not in said]

    def _let_live(self, left: int) -> None:
        if self.random.random() < 0.2:
            # Perhaps before anything was sent: in the write-ahead, or while waiting for a lease.
            time.sleep(self.random.uniform(0, LEASE_S))
            return
        requests = self.random.randint(1, self.requests_max)
        self.server.wait_for(requests, LIFE_S if requests < left else LIFE_S / 10)
        time.sleep(self.random.uniform(0, 0.02))

    def ask_again(self) -> Counter[str]:
        """Ask for every operation once more, when all keys are forgotten; return what is said.

        Whatever is sent then, is executed again.
        """
        time.sleep(RETENTION_S)
        before = {operation: len(said) for operation, said in self.report.update().said.items()}
        pid = self.payers.fork(self.order)
        assert self.payers.wait(pid) == 0
        said = self.report.update().said
        return Counter(word for each, words in said.items() for word in words[before[each] :])

    def entries(self) -> dict[str, JournalEntry]:
        """Return what the journal knows in the end."""
        with closing(open_journal(self.order.journal)) as journal:
            found = journal.history(ReadHistory())
        assert len(found) < HISTORY_MAX
        return {entry.operation_id: entry for entry in found}

    def check(self) -> None:
        """What is true however often and wherever processes were killed."""
        entries, keys = self.entries(), defaultdict[str, set[str]](set)
        for arrival in self.server.arrivals:
            entry = entries[arrival.operation]
            keys[arrival.operation].add(arrival.key)
            forgotten_ns = entry.first_attempt_at_ns + int(RETENTION_S * 1e9)
            assert arrival.at_ns < forgotten_ns, arrival
        for operation, sent in keys.items():
            assert sent == {entries[operation].key}, operation
        for operation, moments in self.report.left.items():
            assert max(moments) < entries[operation].send_deadline_ns, operation
        for operation in self.order.operations:
            runs, said = self.server.effects[operation], self.report.said[operation]
            assert len(runs) <= 1, operation
            if "answered" in said or "closed" in said:
                assert len(runs) == 1, operation
            assert self.report.runs[operation] <= set(runs), operation


@pytest.fixture
def server() -> Iterator[ForgetfulServer]:
    """A provider that keeps keys for two seconds."""
    forgetful = ForgetfulServer(retention_s=RETENTION_S, random=random.Random(SEED))
    with running(forgetful) as found:
        yield found


@pytest.fixture
def order(server: ForgetfulServer, tmp_path: Path) -> Order:
    """All operations."""
    return Order(
        url=server.url("/payments"),
        journal=f"sqlite:///{tmp_path}/outbound.db",
        report=str(tmp_path / "report"),
        operations=tuple(f"invoice-{number}" for number in range(OPERATIONS)),
        at_once=AT_ONCE,
        retention_s=RETENTION_S,
        margin_s=MARGIN_S,
        lease_s=LEASE_S,
    )


def test_200_operations_are_paid_once_each_however_often_their_process_is_killed(
    payers: Payers, server: ForgetfulServer, order: Order
) -> None:
    sweep = Sweep(payers, server, order, random.Random(SEED))

    sweep.run()

    sweep.check()
    answered = [each for each, said in sweep.report.said.items() if "unknown" not in said]
    assert len(answered) >= SHARE_ANSWERED * OPERATIONS
    again = [each for each in server.arrivals if not each.first]
    assert sweep.kills >= KILLS_MIN
    assert len(again) >= sweep.kills, "too few were killed between their effect and their answer"

    sent = len(server.arrivals)
    unknown = OPERATIONS - len(answered)
    assert sweep.ask_again() == Counter(closed=len(answered), unknown=unknown)
    assert len(server.arrivals) == sent


def test_operations_that_an_outage_kept_past_their_deadline_are_unknown_and_not_sent_again(
    payers: Payers, server: ForgetfulServer, order: Order
) -> None:
    order = replace(order, operations=order.operations[:FEW], at_once=FEW // 4)
    sweep = Sweep(payers, server, order, random.Random(SEED), requests_max=FEW // 3)
    sweep.down_s = lambda kills: RETENTION_S if kills in OUTAGES else 0.0

    sweep.run()

    sweep.check()
    unknown = [each for each, said in sweep.report.said.items() if "unknown" in said]
    paid = [each for each in unknown if server.effects[each]]
    assert paid, "no outage came between an effect and its answer"
    assert len(unknown) < FEW
    sent = len(server.arrivals)
    assert sweep.ask_again() == Counter(closed=FEW - len(unknown), unknown=len(unknown))
    assert len(server.arrivals) == sent


def test_the_sweep_finds_a_journal_that_does_not_survive_its_process(
    payers: Payers, server: ForgetfulServer, order: Order
) -> None:
    """The counterexample: every process begins its operations anew, with new keys."""
    order = replace(order, journal="memory:", operations=order.operations[:FEW])
    sweep = Sweep(payers, server, order, random.Random(SEED))

    sweep.run()

    assert [operation for operation, runs in server.effects.items() if len(runs) > 1]
