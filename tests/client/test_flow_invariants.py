"""Random histories of one operation: what holds after each of them, whatever happened.

One key; no request at or past the send deadline, none after the operation was closed, none before
its entry was durable; knowledge only grows; every answer is closed; every lease is given back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx
from hypothesis import given, settings
from hypothesis import strategies as st

from client.clients import Setup
from client.worlds import POLICY, PROFILE, WINDOW_S
from replayfloor.client.errors import OperationError
from replayfloor.client.events import Ending
from replayfloor.client.policy import RetryPolicy
from replayfloor.client.profiles import Profile
from replayfloor.core.outcome import executed_nothing
from replayfloor.testing.client_faults import Attempt, Crash, CrashPoint, Fate
from replayfloor.testing.client_world import ClientWorld, violations

EFFECTS_MAX = 40
CLOCK_STEP_MAX_S = 3600.0


@dataclass(frozen=True)
class Step:
    """One call, and what happens after it."""

    crash: CrashPoint | None
    journal_down: bool
    idle_s: float
    wall_step_s: float
    boots: bool


SECONDS = st.floats(0.0, 60.0)
ATTEMPTS = st.lists(st.builds(Attempt, st.sampled_from(Fate), SECONDS, SECONDS), max_size=12)
CRASHES = st.none() | st.builds(CrashPoint, st.integers(0, EFFECTS_MAX), st.booleans())
STEPS = st.builds(
    Step,
    CRASHES,
    st.booleans(),
    st.floats(0.0, 150.0),
    st.floats(-CLOCK_STEP_MAX_S, CLOCK_STEP_MAX_S) | st.just(0.0),
    st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(ATTEMPTS, st.lists(STEPS, min_size=1, max_size=6), st.floats(0, 0.99))
def test_no_history_breaks_a_promise(
    attempts: list[Attempt], steps: list[Step], draw: float
) -> None:
    """The wall clock may be set while the machine runs. When it boots the clock is right, or so
    far behind that the journal has seen later: one that is a little behind tells nobody."""
    world = ClientWorld(PROFILE, POLICY, attempts)
    world.draw = draw
    for number, step in enumerate(steps):
        world.journal.down = step.journal_down
        _call(world, step.crash)
        world.pass_time(step.idle_s)
        if step.boots:
            world.restart(f"boot-{number + 2}")
            world.now_ns = max(world.now_ns, world.true_ns)
        else:
            world.now_ns += int(step.wall_step_s * 1e9)

    assert violations(world) == []


def _call(world: ClientWorld, crash: CrashPoint | None) -> None:
    try:
        verdict = world.call(crash)
    except Crash:
        return
    if verdict.ending is Ending.NOT_EXECUTED or executed_nothing(verdict.outcome):
        assert world.provider.executions == []
    entry = world.entry()
    # One that a crashed call left behind ends by itself; this call's own is given back.
    assert world.journal.down or entry is None or entry.lease_owner != world.drawn


# -- the answers ----------------------------------------------------------------------------------


class _Watched(httpx.SyncByteStream):
    """A body that says whether it was closed, and may break off."""

    def __init__(self, *, breaks: bool) -> None:
        self.closed = False
        self._breaks = breaks

    def __iter__(self) -> Iterator[bytes]:
        yield b"{"
        if self._breaks:
            raise httpx.RemoteProtocolError("the peer closed the connection")
        yield b"}"

    def close(self) -> None:
        self.closed = True


@dataclass
class _Scripted(httpx.BaseTransport):
    """Answers from a script, or fails; tells nothing of what it sends."""

    script: list[tuple[int, bool] | None]
    bodies: list[_Watched] = field(default_factory=list[_Watched])

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        step = self.script.pop(0) if self.script else (201, False)
        if step is None:
            raise httpx.ReadTimeout("no answer", request=request)
        status, breaks = step
        self.bodies.append(_Watched(breaks=breaks))
        return httpx.Response(status, stream=self.bodies[-1])


ANSWERS = st.none() | st.tuples(st.sampled_from([200, 400, 401, 409, 429, 500, 503]), st.booleans())


@settings(max_examples=100, deadline=None)
@given(st.lists(ANSWERS, max_size=8), st.integers(1, 4))
def test_every_answer_is_closed(script: list[tuple[int, bool] | None], calls: int) -> None:
    inner = _Scripted(script)
    policy = RetryPolicy(attempts_max=3, wait_base_s=1, wait_cap_s=4, budget_s=WINDOW_S)
    setup = Setup(profile=Profile(name="provider", retention_s=1000), retry=policy)
    with setup.client(inner) as client:
        for _ in range(calls):
            try:
                client.post("https://api.example/", extensions={"idempotency": _NAMED})
            except (OperationError, httpx.HTTPError):
                continue

    assert all(body.closed for body in inner.bodies)


_NAMED = {"operation_id": "invoice-1"}
