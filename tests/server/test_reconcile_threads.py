"""A reconciler's own thread, an asynchronous reconciler, and what a cancellation leaves."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from anyio import to_thread
from cryptography.fernet import Fernet

from replayfloor.core.errors import ConfigurationError, UsageError
from replayfloor.server.bounded import OwnThread
from replayfloor.server.reconcile import (
    Applied,
    NotApplied,
    Orphan,
    Reconciled,
    StillUnknown,
    Verdict,
    async_reconcile,
    reconcile,
)
from replayfloor.server.reconcile_perform import Threaded
from replayfloor.server.stores.records import ReceiptRecord
from server.backends import Backend
from server.cli_databases import opened
from server.reconciling import (
    GIVEN_BACK_S,
    REPLAY,
    UNKNOWN,
    Asked,
    lose_receipt,
    one_pass,
    records_of,
    worker,
)
from server.wire import send

ANSWER = (201, {"location": "/p/1"}, b"reconciled")
WAIT_S = 10.0


# -- the thread -----------------------------------------------------------------------------------


def test_calls_run_in_one_thread_one_after_the_other() -> None:
    own = OwnThread[int]("test")
    threads = {own.call(threading.get_ident, WAIT_S) for _ in range(3)}
    own.close()

    assert len(threads) == 1
    assert threads != {threading.get_ident()}


def test_what_a_call_raises_is_raised_also_if_it_is_a_timeout_of_its_own() -> None:
    own = OwnThread[int]("test")

    def fail() -> int:
        raise TimeoutError("the provider's")

    def fine() -> int:
        return 7

    with pytest.raises(TimeoutError, match="the provider's"):
        own.call(fail, WAIT_S)
    assert own.call(fine, WAIT_S) == 7
    own.close()


def test_a_call_that_does_not_return_is_left_and_the_next_has_another_thread() -> None:
    own, end = OwnThread[int]("test"), threading.Event()

    def hang() -> int:
        end.wait(WAIT_S)
        return threading.get_ident()

    with pytest.raises(TimeoutError):
        own.call(hang, 0.05)
    other = own.call(threading.get_ident, WAIT_S)
    end.set()

    assert other == own.call(threading.get_ident, WAIT_S)
    own.close()


def test_a_thread_that_was_given_up_ends_by_itself() -> None:
    own, end = OwnThread[bool]("given up"), threading.Event()
    with pytest.raises(TimeoutError):
        own.call(lambda: end.wait(WAIT_S), 0.05)
    (left,) = [each for each in threading.enumerate() if each.name == "given up"]

    end.set()
    left.join(WAIT_S)

    assert not left.is_alive()


def test_several_callers_may_share_it() -> None:
    own = OwnThread[int]("test")
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda n: own.call(lambda: n, WAIT_S), range(50)))
    own.close()

    assert results == list(range(50))


@pytest.mark.anyio
async def test_a_blocking_reconciler_keeps_its_thread_over_several_passes(
    asgi_sqlite: Backend,
) -> None:
    await lose_receipt(asgi_sqlite)
    threads: list[int] = []

    def note(_orphan: Orphan) -> Verdict:
        threads.append(threading.get_ident())
        return StillUnknown()

    threaded = Threaded(note)
    for _ in range(2):
        await one_pass(asgi_sqlite, threaded)  # type: ignore[arg-type]
    threaded.close()

    assert threads[0] == threads[1] != threading.get_ident()


# -- the asynchronous colour ----------------------------------------------------------------------


@pytest.mark.anyio
async def test_an_asynchronous_reconciler_is_asked_in_the_event_loop(asgi: Backend) -> None:
    await lose_receipt(asgi)
    threads: list[int] = []

    async def find_out(_orphan: Orphan) -> Verdict:
        await anyio.lowlevel.checkpoint()
        threads.append(threading.get_ident())
        return Applied(ANSWER)

    done = await one_pass(asgi, find_out)  # type: ignore[arg-type]

    assert done == Reconciled(applied=1)
    assert threads == [threading.get_ident()]
    assert (await send(worker(asgi))).brief == REPLAY


@pytest.mark.anyio
async def test_an_asynchronous_reconciler_that_hangs_is_cancelled(asgi: Backend) -> None:
    await lose_receipt(asgi)

    async def hang(_orphan: Orphan) -> Verdict:
        await anyio.sleep_forever()
        raise AssertionError

    done = await one_pass(asgi, hang, answer_s=0.1)  # type: ignore[arg-type]

    assert done == Reconciled(unknown=1)
    assert (await send(worker(asgi))).brief == UNKNOWN


@pytest.mark.anyio
@pytest.mark.parametrize("blocking", [True, False], ids=["blocking", "asynchronous"])
async def test_a_pass_that_is_cancelled_gives_its_orphan_back(
    asgi: Backend, blocking: bool
) -> None:
    await lose_receipt(asgi)
    entered, end = threading.Event(), threading.Event()

    def hang(_orphan: Orphan) -> Verdict:
        entered.set()
        end.wait(WAIT_S)
        return NotApplied()

    async def hang_async(_orphan: Orphan) -> Verdict:
        entered.set()
        await anyio.sleep_forever()
        raise AssertionError

    async def run() -> None:
        await one_pass(asgi, hang if blocking else hang_async)  # type: ignore[arg-type]

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await to_thread.run_sync(entered.wait, WAIT_S)
        group.cancel_scope.cancel()
    end.set()
    await anyio.sleep(GIVEN_BACK_S)

    assert len(records_of(asgi).orphans(10)) == 1
    assert (await send(worker(asgi))).brief == UNKNOWN


def test_a_blocking_pass_that_is_interrupted_gives_its_orphan_back(tmp_path: Path) -> None:
    def interrupted(_orphan: Orphan) -> Verdict:
        raise KeyboardInterrupt

    with opened(f"sqlite:///{tmp_path}/receipts.db") as database:
        id_ = database.orphan()
        with pytest.raises(KeyboardInterrupt):
            reconcile(database.records, database.store, interrupted, older_than_s=0)
        time.sleep(GIVEN_BACK_S)

        assert [each.id for each in database.records.orphans(10)] == [id_]


def test_a_blocking_pass_refuses_an_asynchronous_reconciler() -> None:
    class Object:
        async def __call__(self, _orphan: Orphan) -> Verdict:
            return NotApplied()

    with pytest.raises(ConfigurationError, match="async_reconcile"):
        reconcile(None, None, Object())  # type: ignore[arg-type]


# -- options --------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_with_a_cipher_the_answer_is_stored_enciphered_and_replayed_plain(
    backend: Backend,
) -> None:
    cipher = Fernet(Fernet.generate_key())
    await lose_receipt(backend)
    (orphan,) = records_of(backend).orphans(10)

    await one_pass(backend, Asked(Applied((201, {}, b"s3cret answer"))), cipher=cipher)
    stored = records_of(backend).find(orphan.id.hex())
    answer = await send(worker(backend, response_cipher=cipher))

    assert isinstance(stored, ReceiptRecord)
    assert stored.receipt is not None
    assert stored.receipt.sealed
    assert b"s3cret" not in stored.receipt.response.body
    assert (answer.brief, answer.body) == (REPLAY, b"s3cret answer")


@pytest.mark.parametrize("answer_s", [0, -1, float("nan"), float("inf"), 3601])
def test_a_time_that_cannot_be_kept_is_refused(answer_s: float) -> None:
    with pytest.raises(ConfigurationError, match="answer_s"):
        reconcile(None, None, Asked(NotApplied()), answer_s=answer_s)  # type: ignore[arg-type]


def test_a_pass_over_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="limit"):
        reconcile(None, None, Asked(NotApplied()), limit=0)  # type: ignore[arg-type]


@pytest.mark.anyio
@pytest.mark.parametrize("older_than_s", [-1, float("nan"), float("inf")])
async def test_an_age_that_is_none_is_refused(older_than_s: float) -> None:
    nobody, late = Asked(NotApplied()), older_than_s

    with pytest.raises(ConfigurationError, match="older_than_s"):
        reconcile(None, None, nobody, older_than_s=late)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="older_than_s"):
        await async_reconcile(None, None, nobody, older_than_s=late)  # type: ignore[arg-type]


@pytest.mark.parametrize("after_s", [-0.1, 3600.1, float("nan"), float("inf")])
def test_a_time_to_be_asked_again_has_limits(after_s: float) -> None:
    with pytest.raises(UsageError, match="ask_again_after_s"):
        StillUnknown(ask_again_after_s=after_s)


@pytest.mark.anyio
async def test_a_listener_that_fails_decides_nothing(backend: Backend) -> None:
    await lose_receipt(backend)

    def fail(_event: object) -> None:
        raise ValueError("the metrics are down")

    assert await one_pass(backend, Asked(Applied(ANSWER)), on_event=fail) == Reconciled(applied=1)
    assert (await send(worker(backend))).brief == REPLAY
