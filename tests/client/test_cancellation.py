"""A call that is cancelled ends at once, sends nothing more, leaks nothing and can be resumed.

On asyncio and on trio, by a cancel scope, a time-out and a task's own `cancel()`; while it sends,
waits, waits for a connection, and writes to the journal.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager

import anyio
import httpx
import httpx2
import pytest
from anyio.lowlevel import checkpoint

from client.clients import PATIENCE_S, FakeTime, info, named
from client.loopback import OK, Loopback, Reply
from client.stacks import Stack, StackSetup, on_each_stack_by_turns, slots_in_use
from replayfloor.client import MemoryJournal
from replayfloor.client.bodies import RESPONSE_BYTES_MAX
from replayfloor.core.journal import (
    BeginOperation,
    Begun,
    EndAttempt,
    JournalEntry,
    OperationState,
    StartAttempt,
)
from replayfloor.core.outcome import Outcome

pytestmark = [pytest.mark.anyio, on_each_stack_by_turns]

SLOW = Reply(delay_s=PATIENCE_S)
LARGE = Reply(201, body=b"x" * (RESPONSE_BYTES_MAX + 1))
SOON_S = 0.1
AT_ONCE_S = PATIENCE_S / 2
JOURNAL_S = 0.1
"""How long a slow journal takes; a write that has begun may end."""


class _RealTime(FakeTime):
    """Waits for real, so that a wait can be cancelled."""

    waiting = False

    async def sleep_async(self, wait_s: float) -> None:
        self.waiting = True
        await anyio.sleep(wait_s)


class _SlowJournal(MemoryJournal):
    """Takes its time for one kind of write; `writing` says that it has begun."""

    def __init__(self, slow: type[object]) -> None:
        super().__init__()
        self.slow = slow
        self.writing = False

    def begin(self, effect: BeginOperation) -> Begun:
        self._take_time(effect)
        return super().begin(effect)

    def start_attempt(self, effect: StartAttempt) -> JournalEntry:
        self._take_time(effect)
        return super().start_attempt(effect)

    def end_attempt(self, effect: EndAttempt) -> JournalEntry:
        self._take_time(effect)
        return super().end_attempt(effect)

    def _take_time(self, effect: object) -> None:
        if isinstance(effect, self.slow):
            self.writing = True
            time.sleep(JOURNAL_S)


Reached = Callable[[], bool]
Cancel = Callable[[httpx.AsyncClient, str, Reached], Awaitable[bool]]
"""Begins a call and cancels it; returns whether it had its answer all the same."""


async def _cancel_task(client: httpx.AsyncClient, url: str, reached: Reached) -> bool:
    task = asyncio.create_task(client.post(url, extensions=named("invoice-1")))
    await _until(reached)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return False


async def _cancel_timeout(client: httpx.AsyncClient, url: str, reached: Reached) -> bool:
    async def post() -> None:
        async with asyncio.timeout(None) as limit:
            limits.append(limit)
            await client.post(url, extensions=named("invoice-1"))

    limits: list[asyncio.Timeout] = []
    task = asyncio.create_task(post())
    await _until(reached)
    limits[0].reschedule(asyncio.get_running_loop().time())
    with pytest.raises(TimeoutError):
        await task
    return False


async def _cancel_scope(client: httpx.AsyncClient, url: str, reached: Reached) -> bool:
    ended = False

    async def post() -> None:
        nonlocal ended
        await client.post(url, extensions=named("invoice-1"))
        ended = True

    async with anyio.create_task_group() as group:
        group.start_soon(post)
        await _until(reached)
        group.cancel_scope.cancel()
    return ended


async def _until(reached: Reached) -> None:
    with anyio.fail_after(PATIENCE_S):
        while not reached():  # noqa: ASYNC110  (the server is a thread: no event to wait for)
            await anyio.sleep(0.005)


WAYS = {
    "task": ("asyncio", _cancel_task),
    "timeout": ("asyncio", _cancel_timeout),
    "scope": ("asyncio", _cancel_scope),
    "trio": ("trio", _cancel_scope),
}
in_each_way = pytest.mark.parametrize(("anyio_backend", "cancel"), WAYS.values(), ids=WAYS)


@contextmanager
def _at_once() -> Iterator[None]:
    """Hold the block to ending soon: a cancelled call waits for nothing."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < AT_ONCE_S


@in_each_way
async def test_while_sending(cancel: Cancel, stack: Stack, loopback: Loopback) -> None:
    loopback.script(SLOW, OK)
    setup = StackSetup(stack=stack, connections_max=1)
    inner = setup.async_connections()
    async with setup.async_client(inner) as client:
        with _at_once():
            assert not await cancel(client, loopback.url(), lambda: bool(loopback.received))
        assert slots_in_use(inner) == 0
        await anyio.sleep(SOON_S)
        received = len(loopback.received)
        (entry,) = setup.journal.pending()
        response = await client.post(loopback.url(), extensions=named("invoice-1"))

    assert (entry.state, entry.known) == (OperationState.OPEN, Outcome.UNKNOWN)
    assert (received, len(loopback.received)) == (1, 2)
    assert len(set(loopback.keys())) == 1
    assert (info(response).resumed, info(response).attempts) == (True, 2)


@in_each_way
async def test_while_waiting(cancel: Cancel, stack: Stack, loopback: Loopback) -> None:
    loopback.script(Reply(429, (("Retry-After", "5"),)), OK)
    waits = _RealTime()
    setup = StackSetup(stack=stack, time=waits, connections_max=1)
    inner = setup.async_connections()
    async with setup.async_client(inner) as client:
        with _at_once():
            assert not await cancel(client, loopback.url(), lambda: waits.waiting)
        assert slots_in_use(inner) == 0
        (entry,) = setup.journal.pending()
        response = await client.post(loopback.url(), extensions=named("invoice-1"))

    assert entry.known is Outcome.REJECTED
    assert (response.status_code, len(loopback.received)) == (201, 2)
    assert len(set(loopback.keys())) == 1


@in_each_way
async def test_while_waiting_for_a_connection(
    cancel: Cancel, stack: Stack, loopback: Loopback
) -> None:
    """Another call has the only one. Nothing was sent, and the journal says so."""
    loopback.script(LARGE, path="/other")
    setup = StackSetup(stack=stack, connections_max=1)
    inner = setup.async_connections()
    async with setup.async_client(inner) as client:
        async with client.stream("POST", loopback.url("/other")) as other:
            started = time.monotonic()
            with _at_once():
                later = started + SOON_S
                assert not await cancel(client, loopback.url(), lambda: time.monotonic() > later)
            await other.aread()
        assert slots_in_use(inner) == 0
        response = await client.post(loopback.url(), extensions=named("invoice-1"))

    assert [each.path for each in loopback.received] == ["/other", "/charges"]
    assert (response.status_code, info(response).resumed) == (201, True)


@in_each_way
async def test_while_writing_ahead(cancel: Cancel, stack: Stack, loopback: Loopback) -> None:
    journal = _SlowJournal(BeginOperation)
    setup = StackSetup(stack=stack, journal=journal)
    inner = setup.async_connections()
    async with setup.async_client(inner) as client:
        with _at_once():
            assert not await cancel(client, loopback.url(), lambda: journal.writing)
        await anyio.sleep(2 * JOURNAL_S)
        received = len(loopback.received)
        assert inner._pool.connections == []
        response = await client.post(loopback.url(), extensions=named("invoice-1"))

    assert (received, len(loopback.received)) == (0, 1)
    assert response.status_code == 201


@in_each_way
async def test_while_counting_a_further_attempt(
    cancel: Cancel, stack: Stack, loopback: Loopback
) -> None:
    loopback.script(Reply(503), OK)
    journal = _SlowJournal(StartAttempt)
    setup = StackSetup(stack=stack, journal=journal, connections_max=1)
    inner = setup.async_connections()
    async with setup.async_client(inner) as client:
        with _at_once():
            assert not await cancel(client, loopback.url(), lambda: journal.writing)
        await anyio.sleep(2 * JOURNAL_S)
        received = len(loopback.received)
        assert slots_in_use(inner) == 0
        response = await client.post(loopback.url(), extensions=named("invoice-1"))

    assert (received, len(loopback.received)) == (1, 2)
    assert response.status_code == 201
    assert len(set(loopback.keys())) == 1


# trio warns of the libraries' own generators if the rest of a large answer is not wanted.
ANSWERED = [(*way, reply) for way in WAYS.values() for reply in (OK, LARGE)][:-1]


@pytest.mark.parametrize(("anyio_backend", "cancel", "reply"), ANSWERED)
async def test_while_recording_the_answer(
    cancel: Cancel, reply: Reply, stack: Stack, loopback: Loopback
) -> None:
    """The caller may lose the answer: then the journal must not know less than 'unknown'."""
    loopback.script(reply, OK)
    journal = _SlowJournal(EndAttempt)
    setup = StackSetup(stack=stack, journal=journal, connections_max=1)
    inner = setup.async_connections()
    async with setup.async_client(inner) as client:
        with _at_once():
            await cancel(client, loopback.url(), lambda: journal.writing)
        await anyio.sleep(2 * JOURNAL_S)
        assert slots_in_use(inner) == 0
        for entry in journal.pending():
            assert (entry.state, entry.known) == (OperationState.OPEN, Outcome.UNKNOWN)
        response = await client.post(loopback.url(), extensions=named("invoice-1"))

    assert (response.status_code, len(loopback.received)) == (201, 2)
    assert len(set(loopback.keys())) == 1


class _SlowStream(httpx.AsyncByteStream, httpx2.AsyncByteStream):
    """An answer that never ends, of a transport that needs a moment to close it."""

    def __init__(self) -> None:
        self.reading = False
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.reading = True
        await anyio.sleep(PATIENCE_S)
        yield b""

    async def aclose(self) -> None:
        await checkpoint()
        self.closed = True


@in_each_way
async def test_an_answer_is_closed_whatever_its_transport_needs_for_it(
    cancel: Cancel, stack: Stack
) -> None:
    """The libraries' own transports shield their closing; others need not."""
    stream = _SlowStream()
    inner = stack.mock_transport(lambda _: stack.response(201, stream=stream))
    async with StackSetup(stack=stack).async_client(inner) as client:
        with _at_once():
            assert not await cancel(client, "https://api.example/", lambda: stream.reading)

    assert stream.closed
