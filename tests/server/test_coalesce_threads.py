"""What many threads ask of one store goes together, and none of them notices the others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from time import monotonic

import pytest

from replayfloor.core.errors import StoreUnavailable
from replayfloor.server import coalesce_turns
from replayfloor.server.coalesce_threads import Alone, Coalescer, Take
from server.coalescing import LIMIT_S, SOON_S, Crowd, until

TESTS = Path(__file__).parents[1]


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    """Threads, and a store that is held until it is let go."""
    crowd = Crowd()
    yield crowd
    crowd.close()


@pytest.fixture
def hasty() -> Iterator[Crowd]:
    """The same with a time limit that a test can wait for."""
    crowd = Crowd(limit_s=SOON_S)
    yield crowd
    crowd.close()


def failure_of(asked: Future[int]) -> StoreUnavailable:
    """Return how an operation failed."""
    error = asked.exception(LIMIT_S / 2)
    assert isinstance(error, StoreUnavailable)
    return error


# -- what goes together ---------------------------------------------------------------------------


def test_a_lone_caller_performs_its_own_operation_in_its_own_thread(crowd: Crowd) -> None:
    crowd.let_go()

    assert [crowd.coalescer.ask(b"a", number) for number in range(3)] == [0, 2, 4]
    assert crowd.store.singles == [0, 1, 2]
    assert set(crowd.store.threads) == {threading.current_thread()}


def test_what_arrives_while_a_round_trip_is_under_way_goes_into_the_next_one(crowd: Crowd) -> None:
    first = crowd.hold()
    asked = [crowd.ask(number) for number in range(1, 9)]
    crowd.let_go()

    assert [each.result(LIMIT_S) for each in (first, *asked)] == [n * 2 for n in range(9)]
    assert crowd.store.batches == [[1, 2, 3, 4, 5, 6, 7, 8]]


def test_a_batch_has_a_limit_and_the_oldest_go_first() -> None:
    crowd = Crowd(entries_max=3)
    crowd.hold()
    asked = [crowd.ask(number) for number in range(1, 8)]
    crowd.let_go()

    assert [each.result(LIMIT_S) for each in asked] == [number * 2 for number in range(1, 8)]
    assert crowd.store.batches == [[1, 2, 3], [4, 5, 6], [7]]
    crowd.close()


def test_two_operations_of_one_key_never_go_together_and_keep_their_order(crowd: Crowd) -> None:
    crowd.hold()
    asked = [crowd.ask(number, key) for number, key in enumerate((b"a", b"b", b"a", b"a", b"c"))]
    crowd.let_go()

    assert [each.result(LIMIT_S) for each in asked] == [0, 2, 4, 6, 8]
    assert crowd.store.batches == [[0, 1, 4], [2], [3]]


def test_what_arrives_until_the_store_is_ready_goes_along() -> None:
    """A batch is taken when there is a connection, or a turn to write, and not before."""
    ready, waiting = threading.Event(), threading.Event()
    batches: list[list[int]] = []
    gate = threading.Event()

    def together(take: Take[int], _deadline: float) -> list[int]:
        waiting.set()
        assert ready.wait(LIMIT_S)
        batches.append(list(take()))
        return batches[-1]

    def alone(number: int, _deadline: float) -> int:
        assert gate.wait(LIMIT_S)
        return number

    coalescer = Coalescer(together, alone, entries_max=10, limit_s=LIMIT_S)
    threads = [
        threading.Thread(target=coalescer.ask, args=(str(number).encode(), number))
        for number in range(4)
    ]
    threads[0].start()
    until(lambda: coalescer._turns._ticket > 0)
    threads[1].start()
    until(lambda: len(coalescer._turns._waiting) == 1)
    gate.set()
    assert waiting.wait(LIMIT_S)
    threads[2].start()
    threads[3].start()
    until(lambda: len(coalescer._turns._waiting) == 3)
    ready.set()
    for thread in threads:
        thread.join(LIMIT_S)

    assert sorted(batches[0]) == [1, 2, 3]


# -- failures -------------------------------------------------------------------------------------


def test_one_poisoned_entry_fails_alone(crowd: Crowd) -> None:
    crowd.store.failure = lambda asked: ValueError("poison") if 2 in asked else None
    crowd.hold()
    asked = [crowd.ask(number) for number in range(1, 5)]
    crowd.let_go()

    assert [each.result(LIMIT_S) for each in (asked[0], *asked[2:])] == [2, 6, 8]
    assert isinstance(asked[1].exception(LIMIT_S), ValueError)
    assert crowd.store.batches == [[1, 2, 3, 4]]
    assert sorted(crowd.store.singles) == [0, 1, 2, 3, 4]


def test_an_entry_that_has_to_go_alone_is_performed_by_its_own_thread(crowd: Crowd) -> None:
    together = crowd.store.together

    def alone_if_even(take: Take[int], deadline: float) -> list[int | Exception]:
        return [
            Alone() if answer % 4 == 0 else answer
            for answer in together(take, deadline)
            if not isinstance(answer, Exception)
        ]

    crowd.coalescer._perform = alone_if_even
    crowd.hold()
    asked = [crowd.ask(number) for number in range(1, 5)]
    crowd.let_go()

    assert [each.result(LIMIT_S) for each in asked] == [2, 4, 6, 8]
    assert sorted(crowd.store.singles) == [0, 2, 4]


def test_when_the_store_is_lost_each_operation_has_its_own_failure(crowd: Crowd) -> None:
    crowd.store.failure = lambda asked: (
        StoreUnavailable("gone", performed=False) if asked != [0] else None
    )
    crowd.hold()
    asked = [crowd.ask(number) for number in range(1, 5)]
    crowd.let_go()

    failures = [failure_of(each) for each in asked]
    assert len({id(failure) for failure in failures}) == 4
    assert [failure.performed for failure in failures] == [False] * 4
    assert crowd.store.singles == [0]


def test_a_store_that_cannot_be_reached_fails_one_and_the_others_wait_on(crowd: Crowd) -> None:
    """Nothing was begun for them, and their time is not over."""
    together, tries = crowd.store.together, iter((1, 2))

    def unreachable_once(take: Take[int], deadline: float) -> object:
        if next(tries) == 1:
            raise StoreUnavailable("no connection", performed=False)
        return together(take, deadline)

    crowd.coalescer._perform = unreachable_once  # type: ignore[assignment]
    crowd.hold()
    asked = [crowd.ask(number) for number in range(1, 5)]
    crowd.let_go()

    failed = [each for each in asked if each.exception(LIMIT_S) is not None]
    assert [failure_of(each).performed for each in failed] == [False]
    assert len(crowd.store.batches[0]) == 3


# -- giving up ------------------------------------------------------------------------------------


def test_whoever_gives_up_waiting_was_not_performed_and_the_others_are(hasty: Crowd) -> None:
    hasty.hold()
    asked = [hasty.ask(number) for number in range(1, 4)]
    failures = [failure_of(each) for each in asked]
    later = hasty.ask(4)
    hasty.let_go()

    assert [failure.performed for failure in failures] == [False] * 3
    assert later.result(LIMIT_S) == 8
    assert hasty.store.batches == [[4]]


def test_whoever_gives_up_under_way_does_not_know_and_the_batch_goes_on(hasty: Crowd) -> None:
    """The last to arrive performs, because its time is over last: the first gives up meanwhile."""
    released = threading.Event()

    def hold_the_batch(asked: object) -> None:
        if asked != [0]:
            assert released.wait(LIMIT_S)

    hasty.store.failure = hold_the_batch
    hasty.hold()
    first = hasty.ask(1)
    threading.Event().wait(SOON_S / 2)
    last = hasty.ask(2)
    hasty.let_go()
    failure = failure_of(first)
    released.set()

    assert failure.performed is None
    assert last.result(LIMIT_S) == 4
    assert hasty.store.batches == [[1, 2]]


def test_each_caller_keeps_its_own_time_limit(hasty: Crowd) -> None:
    hasty.hold()
    began = monotonic()
    failure_of(hasty.ask(1))

    assert monotonic() - began < SOON_S * 2


# -- interruptions --------------------------------------------------------------------------------


def test_whoever_performs_and_is_interrupted_leaves_nobody_waiting(crowd: Crowd) -> None:
    crowd.store.failure = lambda asked: KeyboardInterrupt() if 1 in asked else None
    crowd.hold()
    asked = [crowd.ask(number) for number in range(1, 4)]
    crowd.let_go()

    with pytest.raises(KeyboardInterrupt):
        asked[2].result(LIMIT_S)  # the last to arrive performs
    assert [failure_of(each).performed for each in asked[:2]] == [None, None]
    assert crowd.coalescer.ask(b"later", 5) == 10


def test_a_lone_caller_that_is_interrupted_leaves_nobody_waiting(crowd: Crowd) -> None:
    crowd.store.failure = lambda asked: SystemExit() if 0 in asked else None
    first = crowd.hold()
    asked = [crowd.ask(number) for number in range(1, 4)]
    crowd.let_go()

    assert isinstance(first.exception(LIMIT_S), SystemExit)
    assert [each.result(LIMIT_S) for each in asked] == [2, 4, 6]


def test_a_turn_that_nobody_gives_on_is_taken_after_a_while(
    hasty: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an interruption between two instructions of the giving."""
    monkeypatch.setattr(coalesce_turns, "TURN_GRACE_S", 0.0)
    monkeypatch.setattr(hasty.coalescer._turns, "pass_on", lambda _ticket: None)
    hasty.let_go()
    assert hasty.coalescer.ask(b"a", 1) == 2
    monkeypatch.undo()
    with pytest.raises(StoreUnavailable):
        hasty.coalescer.ask(b"b", 2)

    assert hasty.coalescer.ask(b"c", 3) == 6
