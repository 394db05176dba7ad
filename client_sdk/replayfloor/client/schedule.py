"""tenacity's state machine, bound to one call: it says attempt, wait or stop. No loop of its own.

`Retrying.iter` neither sleeps nor calls anything, so the flow can drive it. What it measures itself
(a monotonic clock, the global random numbers) is not used: the strategies below read the call's
own clock and draw. One machine per call: its state must not be shared.
"""

from __future__ import annotations

from typing import Final, cast

from tenacity import DoAttempt, DoSleep, RetryCallState, Retrying, stop_after_attempt, stop_any
from tenacity.stop import stop_base
from tenacity.wait import wait_base

from replayfloor.client.classify import Action, Finding
from replayfloor.client.policy import IN_FLIGHT_WAIT_S, backoff_s, retry_after_s
from replayfloor.client.progress import Progress

DO_ATTEMPT: Final = DoAttempt()
"""The first step of every call. Its answer is mostly the last, and then no machine is made."""


class Stop:
    """The answer "make no further attempt"."""


Step = DoAttempt | DoSleep | Finding | Stop


class Schedule:
    """What to do next, given what the call knows: made once the first attempt was made."""

    def __init__(self, progress: Progress) -> None:
        self._machine = Retrying(
            stop=stop_any(
                stop_after_attempt(progress.terms.policy.attempts_max), _StopAt(progress)
            ),
            wait=_Wait(progress),
            retry=lambda _: _finding(progress).action is Action.RETRY,
            retry_error_callback=lambda _: Stop(),
        )
        self._machine.begin()
        self._state = RetryCallState(self._machine, fn=None, args=(), kwargs={})
        self._machine.iter(self._state)  # the first attempt

    def next(self) -> Step:
        """Return the next step: an attempt, a wait, the finding to hand over, or the stop."""
        step = cast("Step", self._machine.iter(self._state))
        if isinstance(step, DoSleep):
            self._state.prepare_for_next_attempt()
        return step

    def record(self, finding: Finding) -> None:
        """Take note of how the attempt ended. Failures are values too: none passes through here
        as an exception, and so no cancellation can be mistaken for one."""
        self._state.set_result(finding)


class _StopAt(stop_base):
    """Stop if the wait that would follow ends at or past the budget or the send deadline."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def __call__(self, retry_state: RetryCallState) -> bool:
        return not self._progress.fits(retry_state.upcoming_sleep)


class _Wait(wait_base):
    """Wait for as long as the server asked, and a random time on top."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def __call__(self, retry_state: RetryCallState) -> float:
        progress, finding = self._progress, _finding(self._progress)
        asked = None
        if finding.retry_after is not None:
            asked = retry_after_s(finding.retry_after, progress.seen.wall_ns)
        least = IN_FLIGHT_WAIT_S if finding.in_flight else 0.0
        jitter = backoff_s(progress.terms.policy, retry_state.attempt_number, progress.draw)
        return max(asked or 0.0, least) + jitter


def _finding(progress: Progress) -> Finding:
    assert progress.finding is not None  # an attempt has ended
    return progress.finding
