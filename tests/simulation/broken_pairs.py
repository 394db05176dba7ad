"""Clients and servers with one protection removed, in a pair: the explorer has to catch each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from replayfloor.client.effects import Failure, Reply, Send
from replayfloor.client.progress import Verdict
from replayfloor.core.claims import Claim, Reuse
from replayfloor.core.effects import Effect
from replayfloor.core.journal import BeginOperation, Begun, EndAttempt, JournalEntry, StartAttempt
from replayfloor.core.outcome import Outcome
from replayfloor.testing.explore_flow import Place
from replayfloor.testing.pair_client import Client, Departure
from replayfloor.testing.pair_scenario import DEADLINE, HORIZON, PairFaults, PairScenario
from replayfloor.testing.pair_served import Served
from simulation import broken_processes as processes

# -- clients --------------------------------------------------------------------------------------


class SendsHoweverLateItIs(Client):
    """Looks at the clock before it gets a connection, and not again."""

    def held_back(self, send: Send) -> bool:
        return False


class WritesBehind(Client):
    """Writes the entry once the first attempt was sent."""

    waiting: JournalEntry | None = None

    def write(self, effect: Effect[object]) -> object:
        if isinstance(effect, BeginOperation) and self.entry is None:
            self.waiting = effect.entry
            return Begun(effect.entry, resumed=False)
        return super().write(effect)

    def depart(self, send: Send) -> Departure:
        departure = super().depart(send)
        self.entry = self.entry or self.waiting
        return departure


class MakesAKeyPerAttempt(Client):
    """Makes the key inside of the loop, and journals what it makes."""

    def depart(self, send: Send) -> Departure:
        key = f"{send.key}-{self.attempts}"
        assert self.entry is not None
        return replace(super().depart(send), key=key, entry=replace(self.entry, key=key))


class ForgetsWhenItDies(Client):
    """Keeps its journal in its memory: a restart begins with a new key."""

    def begin(self, place: Place[Verdict]) -> None:
        self.entry = None
        super().begin(place)


class DoesNotCount(Client):
    """Takes an attempt that was begun and did not end for one that was never begun."""

    def write(self, effect: Effect[object]) -> object:
        if isinstance(effect, BeginOperation) and self.entry is not None:
            self.entry = replace(self.entry, attempts_ended=self.entry.attempts)
        return super().write(effect)


class ForgetsWhatAnAttemptTaught(Client):
    """Does not keep the outcome of an attempt."""

    def write(self, effect: Effect[object]) -> object:
        if isinstance(effect, EndAttempt):
            effect = replace(effect, outcome=Outcome.NOT_SENT)
        return super().write(effect)


class TakesSilenceForFailure(Client):
    """Says that nothing was sent when no answer came."""

    def answer(self, answer: object) -> None:
        if isinstance(answer, Failure):
            answer = replace(answer, maybe_sent=False)
        super().answer(answer)


class TakesARefusalForSilence(Client):
    """Says that something may have been sent when no connection was had."""

    def answer(self, answer: object) -> None:
        if isinstance(answer, Failure):
            answer = replace(answer, maybe_sent=True)
        super().answer(answer)


class DoubtsAnAnswer(Client):
    """Takes an answer that took its time for none."""

    def answer(self, answer: object) -> None:
        if isinstance(answer, Reply):
            answer = Failure("ReadTimeout", maybe_sent=True)
        super().answer(answer)


class MakesItselfYounger(Client):
    """Counts the time from the latest attempt, not from the first."""

    def write(self, effect: Effect[object]) -> object:
        if isinstance(effect, StartAttempt) and self.entry is not None:
            later_ns = effect.at_ns - self.entry.first_attempt_at_ns
            self.entry = replace(
                self.entry, send_deadline_ns=self.entry.send_deadline_ns + later_ns
            )
        return super().write(effect)


# -- servers --------------------------------------------------------------------------------------


class GuardsNothing(Served):
    """Lets the store decide alone, which forgets."""

    def perform(self, effect: Effect[object]) -> object:
        if isinstance(effect, Claim):
            effect = replace(effect, reuse=Reuse.REFUSE)
        return super().perform(effect)


class WithoutUniqueIndex(processes.ClaimsWithoutUniqueIndex, Served):
    """Inserts its claim beside the one that stands."""


class ExecutingOrphansAgain(processes.ExecutesOrphansAgain, Served):
    """Takes over every orphan, also where a crash leaves an unknown outcome."""


BROKEN: dict[str, tuple[Callable[[], PairScenario], str]] = {
    "the clock is looked at when the request leaves": (
        partial(
            PairScenario,
            faults=PairFaults(losses=1),
            leaps_ms=DEADLINE,
            client=SendsHoweverLateItIs,
        ),
        "a request left at or past the send deadline",
    ),
    "the deadline counts from the first attempt": (
        partial(
            PairScenario,
            faults=PairFaults(losses=1),
            leaps_ms=DEADLINE,
            client=MakesItselfYounger,
        ),
        "a request left at or past the send deadline",
    ),
    "the entry is written ahead": (
        partial(PairScenario, client=WritesBehind),
        "a request left before its entry was in the journal",
    ),
    "one key over all attempts": (
        partial(PairScenario, faults=PairFaults(losses=1), client=MakesAKeyPerAttempt),
        "executed 2 times",
    ),
    "the journal outlives the process": (
        partial(PairScenario, faults=PairFaults(client_crashes=1), client=ForgetsWhenItDies),
        "executed 2 times",
    ),
    "an attempt is counted before it is sent": (
        partial(
            PairScenario,
            faults=PairFaults(client_crashes=1, refusals=2),
            client=DoesNotCount,
        ),
        "told that nothing was executed, and",
    ),
    "what an attempt taught is kept": (
        partial(
            PairScenario,
            faults=PairFaults(losses=1, refusals=2, client_crashes=1),
            client=ForgetsWhatAnAttemptTaught,
        ),
        "told that nothing was executed, and",
    ),
    "unknown is not guessed as failed": (
        partial(
            PairScenario,
            faults=PairFaults(timeouts=1, refusals=1),
            client=TakesSilenceForFailure,
        ),
        "told that nothing was executed, and",
    ),
    "what was not sent is not called unknown": (
        partial(PairScenario, faults=PairFaults(refusals=2), client=TakesARefusalForSilence),
        "the call ended unknown, and every attempt had its answer",
    ),
    "an answer that came is not called unknown": (
        partial(PairScenario, client=DoubtsAnAnswer),
        "the answer had come, and the call ended",
    ),
    "the guard of keys that are too old": (
        partial(
            PairScenario,
            faults=PairFaults(timeouts=1),
            leaps_ms=HORIZON,
            served=GuardsNothing,
        ),
        "executed 2 times",
    ),
    "the unique index, when a request arrives twice": (
        partial(
            PairScenario,
            faults=PairFaults(duplicates=1, lock_losses=1),
            served=WithoutUniqueIndex,
        ),
        "executed 2 times",
    ),
    "an external orphan is not taken over": (
        partial(
            PairScenario,
            faults=PairFaults(timeouts=1, server_crashes=1, expiries=1),
            served=ExecutingOrphansAgain,
        ),
        "executed 2 times",
    ),
}
"""By the protection that is missing: the world, and the promise that the shortest schedule breaks.
"""
