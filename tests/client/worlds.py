"""Worlds for the flow's tests: the usual one, and broken ones that the checker has to notice."""

from __future__ import annotations

from dataclasses import replace

from replayfloor.client.effects import Attempted, Send
from replayfloor.client.policy import RetryPolicy
from replayfloor.client.profiles import Profile
from replayfloor.core.effects import Effect
from replayfloor.core.journal import (
    BeginOperation,
    Begun,
    CloseOperation,
    EndAttempt,
    JournalEntry,
    OperationState,
    ReadOperation,
    ReleaseLease,
    StartAttempt,
)
from replayfloor.core.outcome import Outcome
from replayfloor.testing.client_faults import Attempt
from replayfloor.testing.client_world import ClientWorld, SimulatedJournal

RETENTION_S = 100.0
"""Of the simulated provider; the margin is half of it, so that sending stops after 50 s."""
WINDOW_S = 50.0

SEND = 6
"""The effect of a first call that sends, after Now, Entropy, RecallSupport, BeginOperation, Now
and Emit."""

PROFILE = Profile(name="provider", retention_s=RETENTION_S)
POLICY = RetryPolicy(attempts_max=3, wait_base_s=1, wait_cap_s=4, budget_s=40)


def world_of(
    *attempts: Attempt, kind: type[ClientWorld] = ClientWorld, policy: RetryPolicy = POLICY
) -> ClientWorld:
    """Return a world in which the attempts end like this, and later ones are answered."""
    return kind(PROFILE, policy, attempts)


class WithoutFence(ClientWorld):
    """A request that waited for a connection is sent, however late it is."""

    def held_back(self, send: Send) -> bool:
        return False


class KeyPerAttempt(ClientWorld):
    """A key is made inside the loop, as if every attempt were a request of its own."""

    made = 0

    def depart(self, send: Send) -> tuple[Attempted, float]:
        self.made += 1
        return super().depart(replace(send, key=f"{send.key}-{self.made}"))


class WriteBehind(ClientWorld):
    """The entry is written after the first attempt was sent, not before it."""

    waiting: BeginOperation | None = None

    def write(self, effect: Effect[object]) -> object:
        if isinstance(effect, BeginOperation) and not self._stands(effect.entry):
            self.waiting = effect
            return Begun(effect.entry, resumed=False)
        return super().write(effect)

    def depart(self, send: Send) -> tuple[Attempted, float]:
        answer = super().depart(send)
        if self.waiting is not None:
            self.journal.begin(self.waiting)
            self.waiting = None
        return answer

    def _stands(self, entry: JournalEntry) -> bool:
        return any(each.operation_id == entry.operation_id for each in self.journal.pending())


# -- journals that break one promise each ---------------------------------------------------------


class WithoutLease(SimulatedJournal):
    """Whoever asks may send."""

    def begin(self, effect: BeginOperation) -> Begun:
        begun = super().begin(effect)
        return replace(begun, entry=self._freed(begun.entry))

    def start_attempt(self, effect: StartAttempt) -> JournalEntry:
        standing = self.read(ReadOperation(effect.namespace, effect.operation_id))
        assert standing is not None
        self._freed(standing)
        return super().start_attempt(effect)

    def _freed(self, entry: JournalEntry) -> JournalEntry:
        place = (entry.namespace, entry.operation_id)
        super().release_lease(ReleaseLease(*place, entry.lease_owner))
        return entry


class Forgetful(SimulatedJournal):
    """It does not keep how late it was: neither the moment nor the elapsed time."""

    def begin(self, effect: BeginOperation) -> Begun:
        begun = super().begin(effect)
        return replace(begun, entry=self._noted(begun.entry))

    def _noted(self, entry: JournalEntry) -> JournalEntry:
        return super()._noted(self._put(replace(entry, elapsed_ns=0, last_seen_at_ns=0)))


class WithoutLatch(Forgetful):
    """It does not keep that an operation was closed either."""

    def close_operation(self, effect: CloseOperation) -> JournalEntry:
        return self._noted(replace(super().close_operation(effect), state=OperationState.OPEN))


class Amnesiac(SimulatedJournal):
    """What an attempt has taught is not kept."""

    def end_attempt(self, effect: EndAttempt) -> JournalEntry:
        return super().end_attempt(replace(effect, outcome=Outcome.NOT_SENT))


class Uncounted(SimulatedJournal):
    """An attempt that was begun and did not end has not been, for the next process."""

    def begin(self, effect: BeginOperation) -> Begun:
        begun = super().begin(effect)
        if not begun.resumed:
            return begun
        ended = replace(begun.entry, attempts_ended=begun.entry.attempts)
        return replace(begun, entry=self._noted(self._put(ended)))
