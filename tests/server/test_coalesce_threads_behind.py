"""What nobody waits for is performed all the same: in order, at the end, after a fork."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from replayfloor.server.coalesce_threads import Coalescer
from server.coalescing import LIMIT_S, Crowd

TESTS = Path(__file__).parents[1]


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    """Threads, and a store that is held until it is let go."""
    crowd = Crowd()
    yield crowd
    crowd.close()


# -- what nobody waits for ------------------------------------------------------------------------


def test_what_nobody_waits_for_is_performed_at_once_by_another_thread(crowd: Crowd) -> None:
    crowd.coalescer.put(b"a", 1)

    assert crowd.store.begun.acquire(timeout=LIMIT_S)
    assert threading.current_thread() not in crowd.store.threads


def test_what_nobody_waits_for_is_performed_before_what_comes_later_on_its_key(
    crowd: Crowd,
) -> None:
    crowd.hold()
    crowd.coalescer.put(b"a", 1)
    asked = crowd.ask(2, b"a")
    other = crowd.ask(3, b"b")
    crowd.let_go()

    assert [asked.result(LIMIT_S), other.result(LIMIT_S)] == [4, 6]
    assert crowd.store.batches == [[1, 3], [2]]


def test_the_failure_of_what_nobody_waits_for_is_nobodys(crowd: Crowd) -> None:
    crowd.store.failure = lambda asked: ValueError("poison") if 1 in asked else None
    crowd.let_go()
    crowd.coalescer.put(b"a", 1)
    crowd.coalescer.drain()
    crowd.coalescer.put(b"b", 2)
    crowd.coalescer.drain()

    assert crowd.store.batches == [[1], [2]]
    assert crowd.coalescer.ask(b"a", 3) == 6


def test_draining_waits_for_what_nobody_else_waits_for(crowd: Crowd) -> None:
    crowd.hold()
    for number in range(1, 4):
        crowd.coalescer.put(b"a", number)
    drained = threading.Thread(target=crowd.coalescer.drain)
    drained.start()
    drained.join(0.05)
    assert drained.is_alive()
    crowd.let_go()
    drained.join(LIMIT_S)

    assert crowd.store.batches == [[1], [2], [3]]


AT_THE_END = """
import sys, time
from replayfloor.server.coalesce_threads import Coalescer

def together(take, deadline):
    time.sleep(0.1)
    print(*take(), flush=True)
    return [None] * 3

kept = Coalescer(together, print, entries_max=10, limit_s=5.0)
for number in range(3):
    kept.put(str(number).encode(), number)
sys.exit(0)
"""


def test_a_process_that_ends_performs_first_what_nobody_waits_for() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_THE_END], capture_output=True, text=True, timeout=30, check=False
    )

    assert done.stdout == "0 1 2\n", done.stderr


FORKED = """
import os, threading
from replayfloor.server.coalesce_threads import Coalescer

inside, end = threading.Event(), threading.Event()

def alone(asked, deadline):
    if asked == "parent":
        inside.set()
        end.wait(10)
    return asked

def together(take, deadline):
    return list(take())

kept = Coalescer(together, alone, entries_max=10, limit_s=3.0)
threading.Thread(target=kept.ask, args=(b"a", "parent")).start()
inside.wait(10)
waits = threading.Thread(target=kept.ask, args=(b"b", "waiting"))
waits.start()
child = os.fork()
if child == 0:
    kept.put(b"b", "child")
    kept.drain()
    os._exit(0 if kept.ask(b"a", "child") == "child" else 1)
_, status = os.waitpid(child, 0)
end.set()
print(status)
"""


def test_a_forked_process_waits_for_no_thread_of_its_parent() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED],
        env=os.environ, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip

    assert done.stdout == "0\n", done.stderr


# -- what is sent ----------------------------------------------------------------------------------


class Sending(Crowd):
    """Its store takes what nobody waits for without letting anybody wait, if it `takes` it."""

    def __init__(self) -> None:
        super().__init__()
        self.takes = True
        self.sent: list[tuple[list[int], threading.Thread]] = []
        self.coalescer = Coalescer(
            self.store.together, self.store.alone, entries_max=100, limit_s=LIMIT_S, send=self.send
        )

    def send(self, numbers: Sequence[int]) -> bool:
        if self.takes:
            self.sent.append((list(numbers), threading.current_thread()))
        return self.takes


@pytest.fixture
def sending() -> Iterator[Sending]:
    sending = Sending()
    yield sending
    sending.close()


def test_what_nobody_waits_for_is_sent_by_whoever_puts_it(sending: Sending) -> None:
    sending.coalescer.put(b"a", 1)

    assert sending.sent == [([1], threading.current_thread())]
    sending.let_go()
    assert sending.coalescer.ask(b"a", 2) == 4
    sending.coalescer.drain()
    assert (sending.store.batches, sending.store.singles) == ([], [2])


def test_what_is_put_while_another_performs_is_sent_when_that_ends(sending: Sending) -> None:
    first = sending.hold()
    sending.coalescer.put(b"a", 1)
    sending.coalescer.put(b"b", 2)
    assert sending.sent == []
    sending.let_go()
    first.result(LIMIT_S)

    assert [numbers for numbers, _thread in sending.sent] == [[1, 2]]
    assert sending.store.batches == []


def test_what_somebody_waits_for_as_well_is_not_sent(sending: Sending) -> None:
    sending.hold()
    sending.coalescer.put(b"a", 1)
    asked = sending.ask(2, b"b")
    sending.let_go()

    assert asked.result(LIMIT_S) == 4
    assert (sending.sent, sending.store.batches) == ([], [[1, 2]])


def test_what_cannot_be_sent_is_performed_by_another_thread(sending: Sending) -> None:
    sending.takes = False
    sending.let_go()
    sending.coalescer.put(b"a", 1)
    sending.coalescer.drain()

    assert sending.store.batches == [[1]]
    assert threading.current_thread() not in sending.store.threads


# -- many of them ---------------------------------------------------------------------------------


def test_a_thousand_operations_of_many_threads_are_each_performed_once() -> None:
    done: list[int] = []
    adding = threading.Lock()

    def note(numbers: list[int]) -> list[int]:
        with adding:
            done.extend(numbers)
        return numbers

    coalescer: Coalescer[int, int] = Coalescer(
        lambda take, _deadline: note(list(take())),
        lambda number, _deadline: note([number])[0],
        entries_max=5,
        limit_s=LIMIT_S,
    )
    wrong: list[int] = []

    def ask(first: int) -> None:
        for number in range(first, first + 50):
            if coalescer.ask(str(number % 7).encode(), number) != number:
                wrong.append(number)
            coalescer.put(str(number % 7).encode(), number + 10_000)

    threads = [threading.Thread(target=ask, args=(first,)) for first in range(0, 1000, 50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S * 2)
    coalescer.drain()

    assert not wrong
    assert sorted(done) == [*range(1000), *range(10_000, 11_000)]
