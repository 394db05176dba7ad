"""Worlds for the flow's tests: the usual one, and broken ones that the checker has to notice."""

from __future__ import annotations

from dataclasses import replace

from replayfloor.client.effects import Attempted, Send
from replayfloor.client.policy import RetryPolicy
from replayfloor.client.profiles import Profile
from replayfloor.core.effects import Effect
from replayfloor.core.journal import BeginOperation, Begun, JournalEntry
from replayfloor.testing.client_faults import Attempt
from replayfloor.testing.client_world import ClientWorld

RETENTION_S = 100.0
"""Of the simulated provider; the margin is half of it, so that sending stops after 50 s."""
WINDOW_S = 50.0

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

    def send(self, send: Send) -> Attempted:
        self.made += 1
        return super().send(replace(send, key=f"{send.key}-{self.made}"))


class WriteBehind(ClientWorld):
    """The entry is written after the first attempt was sent, not before it."""

    waiting: BeginOperation | None = None

    def write(self, effect: Effect[object]) -> object:
        if isinstance(effect, BeginOperation) and not self._stands(effect.entry):
            self.waiting = effect
            return Begun(effect.entry, resumed=False)
        return super().write(effect)

    def send(self, send: Send) -> Attempted:
        answer = super().send(send)
        if self.waiting is not None:
            self.journal.begin(self.waiting)
            self.waiting = None
        return answer

    def _stands(self, entry: JournalEntry) -> bool:
        return any(each.operation_id == entry.operation_id for each in self.journal.pending())
