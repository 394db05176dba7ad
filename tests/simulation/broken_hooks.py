"""Ways to receive webhooks with one protection removed. The explorer has to catch each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from replayfloor.core.claims import Abandon, Begin, Claim, Claimed, Commit, Finish, Finished
from replayfloor.core.effects import Effect, Flow
from replayfloor.core.message import Response
from replayfloor.core.problem import in_flight
from replayfloor.core.receipt import keep
from replayfloor.server.effects import Captured, Execute
from replayfloor.server.flow import (
    Admitted,
    Answer,
    Answered,
    Call,
    Refused,
    Replayed,
    admit,
    fail,
    serve,
    settle,
)
from replayfloor.server.flow.deliver import identity
from replayfloor.server.policy import AfterExpiry, Effects, Options
from replayfloor.testing.server_scenario import Faults
from replayfloor.testing.server_webhooks import (
    EVENT,
    FIRST,
    ID,
    AnswersFailure,
    HookProcess,
    HookScenario,
    Past,
)
from simulation.broken_flows import Show


def stores_failures(call: Call, options: Options) -> Flow[Answer]:
    """Keep what any client would be told of a failure that cannot be rolled back."""
    return serve(call, replace(options, until_success=False))


def runs_what_is_past(call: Call, options: Options) -> Flow[Answer]:
    """Run the handler, although nobody knows whether it ran before."""
    return serve(call, replace(options, after_expiry=AfterExpiry.HANDLER))


def frees_what_was_stopped(call: Call, options: Options) -> Flow[Answer]:
    """Take a handler that was stopped for one that failed."""
    admission = yield from admit(call, options)
    if not isinstance(admission, Admitted):
        return admission
    try:
        captured = yield from Execute()
    except GeneratorExit:
        raise
    except BaseException:
        yield from fail(admission, options, RuntimeError())
        raise
    return (yield from settle(admission, captured, options))


def acknowledge_before_commit(call: Call, options: Options) -> Flow[Answer]:
    """Answer as soon as the handler has, and commit after that."""
    request = identity(EVENT)
    claim = Claim(ID, request, call.fence, options.lease_ms, options.takes_over)
    answer = yield from claim
    if isinstance(answer, Finished):
        return Replayed(answer.receipt)
    if not isinstance(answer, Claimed):
        return Refused(in_flight(0))
    yield from Begin(ID)
    captured = yield from Execute()
    yield from Show(captured)
    yield from Commit(Finish(ID, call.fence, keep(request, captured.response)))
    return Answered(captured)


class Showing(HookProcess):
    """A delivery whose answer may be out before its flow has ended."""

    def perform(self, effect: Effect[object]) -> object:
        """Perform what the right flow never asks for."""
        if isinstance(effect, Show):
            self.hooks.acknowledged.add(self.ticket.id)
            return None
        return super().perform(effect)


class ForgetsWhatWasUsed(HookProcess):
    """A delivery that does not look for the proof of a receipt that expired."""

    def perform(self, effect: Effect[object]) -> object:
        """Claim without it."""
        return super().perform(
            replace(effect, proofs=False) if isinstance(effect, Claim) else effect
        )


class KeepsWhatFailed(AnswersFailure):
    """A delivery that does not free the key of an event whose handler failed."""

    def perform(self, effect: Effect[object]) -> object:
        """Leave the claim."""
        return True if isinstance(effect, Abandon) else super().perform(effect)


class WritesOutside(AnswersFailure):
    """A delivery whose handler fails, and whose writes stay."""

    def execute(self) -> Captured:
        """Write at once."""
        if self.ticket.name != FIRST:
            return super().execute()
        self.write(1)
        return Captured(Response(500, (), b"failed"))


BROKEN: dict[str, tuple[Callable[[], HookScenario], str]] = {
    "a failure is not stored": (
        lambda: HookScenario(Effects.EXTERNAL, flow=stores_failures, process=AnswersFailure),
        "the event cannot be applied any more",
    ),
    "a failure frees its event": (
        lambda: HookScenario(Effects.EXTERNAL, process=KeepsWhatFailed),
        "the event cannot be applied any more",
    ),
    "a failure is rolled back": (
        lambda: HookScenario(Effects.ATOMIC, process=WritesOutside),
        "applied 2 times",
    ),
    "the commit before the acknowledgement": (
        lambda: HookScenario(
            Effects.ATOMIC,
            faults=Faults(crashes=1, expiries=1),
            flow=acknowledge_before_commit,
            process=Showing,
        ),
        "a handler was run for an event that had been acknowledged",
    ),
    "a handler that was stopped leaves an orphan": (
        lambda: HookScenario(
            Effects.EXTERNAL, faults=Faults(cancels=1), flow=frees_what_was_stopped
        ),
        "applied 2 times",
    ),
    "an event past its horizon is acknowledged": (
        lambda: HookScenario(Effects.ATOMIC, past=Past.TOLD, flow=runs_what_is_past),
        "applied, although it was past its horizon",
    ),
    "an expired receipt leaves a proof": (
        lambda: HookScenario(
            Effects.ATOMIC,
            faults=Faults(crashes=1, expiries=1),
            past=Past.USED,
            process=ForgetsWhatWasUsed,
        ),
        "a handler was run for an event that had been acknowledged",
    ),
}
"""By the protection that is missing: the world, and the promise that the shortest schedule breaks.
"""
