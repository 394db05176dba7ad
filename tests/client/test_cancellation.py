"""A call that is cancelled ends at once, sends nothing more, leaks nothing and can be resumed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import anyio
import httpx
import pytest

from client.clients import PATIENCE_S, FakeTime, Setup, info, named
from client.loopback import OK, Loopback, Reply
from replayfloor.client import MemoryJournal
from replayfloor.core.journal import BeginOperation, Begun, EndAttempt, JournalEntry, OperationState
from replayfloor.core.outcome import Outcome

pytestmark = pytest.mark.anyio

SLOW = Reply(delay_s=PATIENCE_S)
SOON_S = 0.1
JOURNAL_S = 0.3
"""How long a slow journal takes; a write that has begun may end."""


class _RealTime(FakeTime):
    """Waits for real, so that a wait can be cancelled."""

    waiting = False

    async def sleep_async(self, wait_s: float) -> None:
        self.waiting = True
        await anyio.sleep(wait_s)


class _SlowJournal(MemoryJournal):
    """Takes its time for every write."""

    def begin(self, effect: BeginOperation) -> Begun:
        time.sleep(JOURNAL_S)
        return super().begin(effect)


class _SlowToRecord(MemoryJournal):
    """Takes its time for the end of an attempt."""

    def end_attempt(self, effect: EndAttempt) -> JournalEntry:
        time.sleep(JOURNAL_S)
        return super().end_attempt(effect)


async def _cancel_task(client: httpx.AsyncClient, url: str, reached: Callable[[], bool]) -> None:
    task = asyncio.create_task(client.post(url, extensions=named("invoice-1")))
    await _until(reached)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def _cancel_scope(client: httpx.AsyncClient, url: str, reached: Callable[[], bool]) -> None:
    ended = False

    async def post() -> None:
        nonlocal ended
        await client.post(url, extensions=named("invoice-1"))
        ended = True

    async with anyio.create_task_group() as group:
        group.start_soon(post)
        await _until(reached)
        group.cancel_scope.cancel()
    assert not ended


async def _until(reached: Callable[[], bool]) -> None:
    with anyio.fail_after(PATIENCE_S):
        while not reached():  # noqa: ASYNC110  (the server is a thread: no event to wait for)
            await anyio.sleep(0.005)


CANCEL = pytest.mark.parametrize("cancel", [_cancel_task, _cancel_scope])
Cancel = Callable[[httpx.AsyncClient, str, Callable[[], bool]], Awaitable[None]]


@CANCEL
async def test_while_sending(cancel: Cancel, loopback: Loopback) -> None:
    loopback.script(SLOW, OK)
    setup = Setup(limits=httpx.Limits(max_connections=1))
    async with setup.async_client() as client:
        began = time.monotonic()
        await cancel(client, loopback.url(), lambda: bool(loopback.received))
        took_s = time.monotonic() - began
        await anyio.sleep(SOON_S)
        received = len(loopback.received)
        response = await client.post(loopback.url(), extensions=named("invoice-1"))

    assert (received, len(loopback.received)) == (1, 2)
    assert took_s < PATIENCE_S / 2
    assert len(set(loopback.keys())) == 1
    assert (info(response).resumed, info(response).attempts) == (True, 2)


@CANCEL
async def test_while_waiting(cancel: Cancel, loopback: Loopback) -> None:
    loopback.script(Reply(429, (("Retry-After", "5"),)), OK)
    waits = _RealTime()
    setup = Setup(time=waits, limits=httpx.Limits(max_connections=1))
    async with setup.async_client() as client:
        began = time.monotonic()
        await cancel(client, loopback.url(), lambda: waits.waiting)
        took_s = time.monotonic() - began
        response = await client.post(loopback.url(), extensions=named("invoice-1"))

    assert took_s < PATIENCE_S / 2
    assert (response.status_code, len(loopback.received)) == (201, 2)


@CANCEL
async def test_while_writing_ahead(cancel: Cancel, loopback: Loopback) -> None:
    setup = Setup(journal=_SlowJournal())
    async with setup.async_client() as client:
        started = time.monotonic()
        await cancel(client, loopback.url(), lambda: time.monotonic() > started + JOURNAL_S / 3)
        await anyio.sleep(2 * JOURNAL_S)
        received = len(loopback.received)
        response = await client.post(loopback.url(), extensions=named("invoice-1"))

    assert (received, len(loopback.received)) == (0, 1)
    assert response.status_code == 201


@CANCEL
async def test_while_recording_the_answer(cancel: Cancel, loopback: Loopback) -> None:
    """The answer is lost to the caller: the journal must not know less than 'unknown'."""
    loopback.script(Reply(201, body=b"x" * (1 << 21)), OK)
    journal = _SlowToRecord()
    setup = Setup(journal=journal, limits=httpx.Limits(max_connections=1))
    async with setup.async_client() as client:
        await cancel(client, loopback.url(), lambda: bool(loopback.received))
        await anyio.sleep(2 * JOURNAL_S)
        for entry in journal.pending():
            assert (entry.state, entry.known) == (OperationState.OPEN, Outcome.UNKNOWN)
        response = await client.post(loopback.url(), extensions=named("invoice-1"))

    assert (response.status_code, len(loopback.received)) == (201, 2)
    assert len(set(loopback.keys())) == 1
