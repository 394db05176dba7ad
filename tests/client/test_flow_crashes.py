"""A process dies anywhere, and another one goes on: one key, one execution, nothing too late.

Every crash point of short scripts is visited; long ones are sampled. Each protection is taken away
once, and the checker has to notice: a checker that cannot fail checks nothing.
"""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.worlds import WINDOW_S, KeyPerAttempt, WithoutFence, WriteBehind, world_of
from replayfloor.client.events import Ending
from replayfloor.core.outcome import Outcome
from replayfloor.testing.client_faults import Attempt, Crash, CrashPoint, Fate
from replayfloor.testing.client_world import START_NS, ClientWorld, violations

EFFECTS_MAX = 40
"""More than a call of three attempts performs, so that the last crash points are never reached."""

# A moment later; just before the send deadline; after it; after the provider has forgotten.
IDLE_S = (1.0, WINDOW_S - 1.5, WINDOW_S, 200.0)
SCRIPTS = list(product(Fate, [Fate.REPLY_LOST, Fate.REFUSED, Fate.ANSWERED]))
# Nothing happens between one effect and the next: "before" is the "after" of the one before it.
CRASHES = [CrashPoint(effect, after=True) for effect in range(EFFECTS_MAX)]

TWICE = "it was executed more than once"
EARLY = "a request left before its entry was in the journal"
LATE = "a request left at or past the send deadline"
KEYS = "more than one key was sent"


def _crash_and_resume(world: ClientWorld, crash: CrashPoint, idle_s: float) -> Ending | None:
    try:
        world.call(crash)
    except Crash:
        world.pass_time(idle_s)
        return world.call().ending
    return None


def _every_violation(kind: type[ClientWorld]) -> set[str]:
    found: set[str] = set()
    for fates, crash, idle_s in product(SCRIPTS, CRASHES, IDLE_S):
        world = world_of(*map(Attempt, fates), kind=kind)
        _crash_and_resume(world, crash, idle_s)
        found.update(violations(world))
    return found


def test_no_crash_anywhere_makes_an_operation_run_twice() -> None:
    assert _every_violation(ClientWorld) == set()


def test_after_a_crash_the_next_call_ends_in_a_way_that_tells_the_truth() -> None:
    told: set[tuple[bool, Ending]] = set()
    for fates, crash, idle_s in product(SCRIPTS, CRASHES, IDLE_S):
        world = world_of(*map(Attempt, fates))
        ending = _crash_and_resume(world, crash, idle_s)
        if ending is not None:
            told.add((bool(world.provider.executions), ending))

    # Executed or not, and what the caller is told. "Not executed" is said only if it is true.
    assert (True, Ending.NOT_EXECUTED) not in told
    assert {ending for _, ending in told} >= {Ending.RETURNED, Ending.UNKNOWN, Ending.CLOSED}


def test_writing_the_entry_after_the_send_is_noticed() -> None:
    assert {EARLY, TWICE, KEYS} <= _every_violation(WriteBehind)


def test_a_key_made_inside_the_loop_is_noticed() -> None:
    assert {TWICE, KEYS} <= _every_violation(KeyPerAttempt)


def test_a_missing_fence_is_noticed() -> None:
    """The request waits for a connection until the provider has forgotten the key."""
    scripts = [Attempt(Fate.REPLY_LOST), Attempt(Fate.ANSWERED, pool_wait_s=150.0)]
    unprotected = world_of(*scripts, kind=WithoutFence)
    protected = world_of(*scripts)

    unprotected.call()
    protected.call()

    assert violations(unprotected) == [TWICE, LATE]
    assert violations(protected) == []


# -- sampled ------------------------------------------------------------------------------------

SECONDS = st.floats(0.0, 60.0)
ATTEMPTS = st.builds(Attempt, st.sampled_from(Fate), SECONDS, SECONDS)
STEPS = st.tuples(
    st.none() | st.builds(CrashPoint, st.integers(0, EFFECTS_MAX), st.booleans()),
    st.floats(0.0, 150.0),
    st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(ATTEMPTS, max_size=12), st.lists(STEPS, min_size=1, max_size=6), st.floats(0, 0.99))
def test_no_history_of_crashes_and_restarts_breaks_a_promise(
    attempts: list[Attempt], steps: list[tuple[CrashPoint | None, float, bool]], draw: float
) -> None:
    world = world_of(*attempts)
    world.draw = draw
    for crash, idle_s, journal_down in steps:
        world.journal.down = journal_down
        _call_and_check(world, crash)
        world.pass_time(idle_s)

    assert violations(world) == []


def _call_and_check(world: ClientWorld, crash: CrashPoint | None) -> None:
    try:
        verdict = world.call(crash)
    except Crash:
        return
    if verdict.ending is Ending.NOT_EXECUTED:
        assert world.provider.executions == []
    if verdict.ending is Ending.RETURNED and verdict.outcome is Outcome.DEFINITIVE:
        assert len(world.provider.executions) == 1


@settings(max_examples=150, deadline=None)
@given(
    st.lists(ATTEMPTS, max_size=12),
    st.lists(st.tuples(STEPS, st.floats(-3600.0, 3600.0)), min_size=1, max_size=6),
)
def test_a_clock_that_jumps_neither_renews_a_key_nor_reopens_an_operation(
    attempts: list[Attempt], steps: list[tuple[tuple[CrashPoint | None, float, bool], float]]
) -> None:
    """How much time passed cannot be known then; that no promise depends on it can."""
    world = world_of(*attempts)
    for (crash, _, _), jump_s in steps:
        _call(world, crash)
        world.now_ns = max(START_NS - 10**15, world.now_ns + int(jump_s * 1e9))

    assert set(violations(world)) <= {TWICE}
    entries = world.journal.versions
    assert all(entry.last_seen_at_ns >= entry.first_attempt_at_ns for entry in entries)


def _call(world: ClientWorld, crash: CrashPoint | None) -> None:
    try:
        world.call(crash)
    except Crash:
        return


@pytest.mark.parametrize("fate", Fate)
def test_a_script_is_what_it_says(fate: Fate) -> None:
    """The world itself: what counts as executed is decided in one place."""
    world = world_of(*[Attempt(fate)] * 3)

    world.call()

    executes = fate in (Fate.ANSWERED, Fate.REPLY_LOST, Fate.BROKEN_GATEWAY)
    assert bool(world.provider.executions) is executes
