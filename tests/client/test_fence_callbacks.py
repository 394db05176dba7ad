"""The fence looks after everybody else was called: a callback that takes its time sends nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from client.clients import FakeTime, named
from client.loopback import DROP, OK, Loopback
from client.stacks import HTTPX, Stack, StackSetup, on_each_loop, on_each_stack
from replayfloor.client import OutcomeUnknown, Profile
from replayfloor.client.events import AttemptEnded, AttemptLeft, Event
from replayfloor.core.outcome import Outcome

PROFILE = Profile(name="provider", retention_s=1000)


@dataclass
class SlowSink:
    """It writes for longer than the provider keeps the key."""

    time: FakeTime
    ended: list[AttemptEnded] = field(default_factory=list[AttemptEnded])

    def __call__(self, event: Event) -> None:
        if isinstance(event, AttemptLeft):
            self.time.pass_time(2000)
        if isinstance(event, AttemptEnded):
            self.ended.append(event)


def _setup(stack: Stack) -> tuple[StackSetup, SlowSink]:
    time = FakeTime()
    sink = SlowSink(time)
    return StackSetup(stack=stack, profile=PROFILE, time=time, on_event=sink), sink


@on_each_stack
def test_an_event_sink_that_takes_its_time_does_not_make_a_request_leave_late(
    loopback: Loopback, stack: Stack
) -> None:
    loopback.script(OK)
    setup, sink = _setup(stack)
    with setup.client() as client, pytest.raises(OutcomeUnknown) as caught:
        client.post(loopback.url(), extensions=named("invoice-1"))

    assert loopback.received == []
    assert caught.value.outcome is Outcome.NOT_SENT
    assert [event.maybe_sent for event in sink.ended] == [False]


@pytest.mark.anyio
@on_each_loop
async def test_the_same_with_await(loopback: Loopback) -> None:
    loopback.script(DROP)
    setup, _ = _setup(HTTPX)
    async with setup.async_client() as client:
        with pytest.raises(OutcomeUnknown):
            await client.post(loopback.url(), extensions=named("invoice-1"))

    assert loopback.received == []
