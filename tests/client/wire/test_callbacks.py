"""Whatever a user's callback raises, no connection stays with the call: the next one gets it.

The pool has one connection, and the answers are larger than what is read inside the retry loop: an
answer that nobody closed would hold it for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import httpx
import pytest

from client.clients import PATIENCE_S, FakeTime, named
from client.loopback import OK, Loopback, Reply
from client.stacks import Stack, StackSetup, on_each_stack_by_turns, slots_in_use
from replayfloor.client import MemoryJournal
from replayfloor.client.bodies import RESPONSE_BYTES_MAX
from replayfloor.core.journal import EndAttempt, JournalEntry, StartAttempt

pytestmark = on_each_stack_by_turns

LARGE = b"x" * (RESPONSE_BYTES_MAX + 1)
# One that is asked for again, one that is handed over while it arrives, and a small one.
ANSWERS = [Reply(503, body=LARGE), Reply(201, body=LARGE), Reply(503), OK]
SCRIPTS = {"large": ANSWERS[:2], "small": ANSWERS[2:]}
with_each_script = pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
CALLS = 64
"""More calls than a callback gets in one request."""


class Broken(Exception):
    """What the callbacks raise."""


@dataclass
class Raiser:
    """Raises at one call of a callback, counted from 1."""

    at: int
    calls: int = 0

    def count(self) -> None:
        """Note a call of the callback."""
        self.calls += 1
        if self.calls == self.at:
            raise Broken


class _Journal(MemoryJournal):
    """Raises what no journal should raise."""

    def __init__(self, raiser: Raiser) -> None:
        super().__init__()
        self.raiser = raiser

    def start_attempt(self, effect: StartAttempt) -> JournalEntry:
        self.raiser.count()
        return super().start_attempt(effect)

    def end_attempt(self, effect: EndAttempt) -> JournalEntry:
        self.raiser.count()
        return super().end_attempt(effect)


class _Time(FakeTime):
    """A clock, or waits, that raise."""

    def __init__(self, clock: Raiser, waits: Raiser) -> None:
        super().__init__()
        self.raisers = clock, waits

    def clock(self) -> int:
        self.raisers[0].count()
        return super().clock()

    def sleep(self, wait_s: float) -> None:
        self.raisers[1].count()
        super().sleep(wait_s)


NEVER = Raiser(0)
Breaks = Callable[[StackSetup, Raiser], None]


def _clock(setup: StackSetup, raiser: Raiser) -> None:
    setup.time = _Time(raiser, NEVER)


def _waits(setup: StackSetup, raiser: Raiser) -> None:
    setup.time = _Time(NEVER, raiser)


def _journal(setup: StackSetup, raiser: Raiser) -> None:
    setup.journal = _Journal(raiser)


CALLBACKS = {"clock": _clock, "sleep": _waits, "journal": _journal}
of_each_kind = pytest.mark.parametrize("breaks", CALLBACKS.values(), ids=CALLBACKS)


@of_each_kind
@with_each_script
def test_a_callback_that_raises_leaves_the_pool_empty(
    breaks: Breaks, script: list[Reply], stack: Stack, loopback: Loopback
) -> None:
    for at in range(1, CALLS):
        loopback.counts.clear()
        loopback.script(*script)
        setup = StackSetup(stack=stack, connections_max=1)
        breaks(setup, raiser := Raiser(at))
        inner = setup.connections()
        with setup.client(inner) as client:
            try:
                with client.stream("POST", loopback.url()) as response:
                    response.read()
            except Broken:
                pass
            if raiser.calls < at:
                break
            assert slots_in_use(inner) == 0
            assert client.get(loopback.url("/next"), timeout=PATIENCE_S).status_code == 201
    else:
        pytest.fail(f"more than {CALLS} calls of a callback: none was seen to be the last")


@with_each_script
def test_an_event_sink_that_always_raises_changes_nothing(
    script: list[Reply], stack: Stack, loopback: Loopback
) -> None:
    def sink(_: object) -> None:
        raise Broken

    loopback.script(*script)
    setup = StackSetup(stack=stack, connections_max=1, on_event=sink)
    inner = setup.connections()
    with setup.client(inner) as client:
        response = client.post(loopback.url())
        assert slots_in_use(inner) == 0

    assert (response.status_code, response.content) == (201, script[-1].body)


# trio warns of the libraries' own generators if the rest of an answer is not read.
ASYNCHRONOUS = [
    *(pytest.param("asyncio", SCRIPTS["large"], CALLBACKS[name], id=name) for name in CALLBACKS),
    pytest.param("trio", SCRIPTS["small"], CALLBACKS["sleep"], id="sleep-trio"),
    pytest.param("trio", SCRIPTS["small"], CALLBACKS["journal"], id="journal-trio"),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("anyio_backend", "script", "breaks"), ASYNCHRONOUS)
async def test_asynchronously_it_leaves_the_pool_empty_too(
    script: list[Reply], breaks: Breaks, stack: Stack, loopback: Loopback
) -> None:
    for at in range(1, CALLS):
        loopback.counts.clear()
        loopback.script(*script)
        setup = StackSetup(stack=stack, connections_max=1)
        breaks(setup, raiser := Raiser(at))
        inner = setup.async_connections()
        async with setup.async_client(inner) as client:
            try:
                async with client.stream("POST", loopback.url()) as response:
                    await response.aread()
            except Broken:
                pass
            if raiser.calls < at:
                return
            assert slots_in_use(inner) == 0
            assert (await client.get(loopback.url("/next"))).status_code == 201
    pytest.fail(f"more than {CALLS} calls of a callback: none was seen to be the last")


TRACED = [
    "connection.connect_tcp.started",
    "http11.send_request_headers.started",
    "http11.send_request_headers.complete",
    "http11.send_request_body.started",
    "http11.send_request_body.complete",
    "http11.receive_response_headers.started",
    "http11.receive_response_headers.complete",
    "http11.receive_response_body.started",
]


@pytest.mark.parametrize("event", TRACED)
def test_a_trace_callable_of_the_user_that_raises_leaves_the_pool_empty(
    event: str, stack: Stack, loopback: Loopback
) -> None:
    def trace(name: str, _: object) -> None:
        if name == event:
            raise Broken

    setup = StackSetup(stack=stack, connections_max=1)
    inner = setup.connections()
    with setup.client(inner) as client:
        with pytest.raises(Broken):
            client.post(loopback.url(), extensions=named("invoice-1") | {"trace": trace})
        assert slots_in_use(inner) == 0
        response = client.post(loopback.url(), extensions=named("invoice-1"))

    assert response.status_code == 201
    assert len(set(loopback.keys())) == 1


def test_a_response_hook_that_raises_leaves_the_pool_empty(
    stack: Stack, loopback: Loopback
) -> None:
    """It sees a whole answer, with its request: `raise_for_status` needs that."""
    loopback.script(Reply(402, body=LARGE))
    setup = StackSetup(stack=stack, connections_max=1)
    inner = setup.connections()

    def hook(response: httpx.Response) -> None:
        response.raise_for_status()

    with setup.client(inner) as client:
        client.event_hooks = {"response": [hook]}
        with pytest.raises(stack.http_status_error) as caught:
            client.post(loopback.url())
        assert slots_in_use(inner) == 0
        client.event_hooks = {}
        assert client.get(loopback.url("/next")).status_code == 201

    assert caught.value.request.method == "POST"
