"""Server processes, and a course, with one protection removed; the flow they run is the right one.

Which protection each of them lacks is listed in `broken_server`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from replayfloor.core.claims import Claim, Claimed, Commit, Finish, Release
from replayfloor.core.effects import Effect
from replayfloor.core.errors import ClaimLost
from replayfloor.core.receipt import Receipt
from replayfloor.server.effects import Captured
from replayfloor.testing.explore_states import Move
from replayfloor.testing.server_course import ServerCourse
from replayfloor.testing.server_process import Cancelled, Process


class UnlocksWithoutToken(Process):
    """Deletes the lock, whoever holds it by now."""

    def perform(self, effect: Effect[object]) -> object:
        if isinstance(effect, Release):
            return self.world.release(effect, checked=False)
        return super().perform(effect)


class ExecutesOrphansAgain(Process):
    """Takes over every orphan, also where a crash leaves an unknown outcome."""

    def perform(self, effect: Effect[object]) -> object:
        if isinstance(effect, Claim):
            return self.world.claim(replace(effect, takeover=True))
        return super().perform(effect)


class ClaimsWithoutUniqueIndex(Process):
    """Inserts its claim beside the one that stands."""

    def perform(self, effect: Effect[object]) -> object:
        if isinstance(effect, Claim):
            self.world.forget_claim(effect.id)
        return super().perform(effect)


class FinishesWithoutFence(Process):
    """Commits what it has, although another execution took the claim over."""

    def perform(self, effect: Effect[object]) -> object:
        if isinstance(effect, Commit):
            self.world.store(effect.finish.id, effect.finish.receipt)
            self.write(len(self.pending))
            return True
        return super().perform(effect)


class NeverTakesOver(Process):
    """Leaves an atomic orphan alone, although it provably did nothing."""

    def perform(self, effect: Effect[object]) -> object:
        if isinstance(effect, Claim):
            return self.world.claim(replace(effect, takeover=False))
        return super().perform(effect)


class WritesOutsideTheTransaction(Process):
    """Has an effect that a rollback does not undo, on a route that says it is atomic."""

    def execute(self) -> Captured:
        self.in_transaction = False
        return super().execute()


class AnswersAfterItLostTheKey(Process):
    """Takes a refused finish for a stored one, on a route whose orphans are executed again."""

    def perform(self, effect: Effect[object]) -> object:
        answer = super().perform(effect)
        return True if isinstance(effect, Finish) else answer


class CommitsWithoutItsReceipt(Process):
    """Keeps what it wrote in its own transaction, although the receipt in it was refused."""

    def execute_in_own_transaction(self) -> Captured:
        try:
            return super().execute_in_own_transaction()
        except ClaimLost:
            self.write(1)
            raise


class CleansUpWithoutShield(Process):
    """Cancelled once, every further await is cancelled too: cleanup is asked for and not done."""

    def cancel(self, *, performed: bool) -> None:
        super().cancel(performed=performed)
        while self.running:
            self.go(self.place.throw(Cancelled()))


class TakesEveryEntryForTheFirst(ServerCourse):
    """Answers all entries of a batch as the first of them, if it was claimed."""

    def batch(self, found: Sequence[int]) -> object:
        first, *others = (self.processes[at] for at in found)
        effect = first.waiting_for
        answer = first.step()
        for process in others:
            if isinstance(effect, Claim) and isinstance(answer, Claimed):
                process.go(process.place.send(answer))
            else:
                process.step()
        return answer


class MovesReceiptsInTwoCommits(ServerCourse):
    """Takes a receipt out of one partition, and puts it into another one in a later commit."""

    moved: Receipt | None = None
    done: bool = False

    def moves(self) -> Sequence[Move]:
        found = list(super().moves())
        id_ = self.processes[0].ticket.id
        if found and self.moved is not None:
            found.append(Move("the receipt is put into another partition", _put))
        elif found and not self.done and self.world.find(id_) is not None:
            found.append(Move("the receipt is taken out of its partition", _take))
        return found

    def copy(self) -> MovesReceiptsInTwoCommits:
        other = super().copy()
        other.moved, other.done = self.moved, self.done
        return other

    def key(self) -> tuple[object, ...]:
        return (*super().key(), self.moved, self.done)

    def check(self) -> None:
        if self.moved is not None:
            _put(self)
        super().check()


def _take(course: MovesReceiptsInTwoCommits) -> None:
    course.done = True
    course.moved = course.world.take_receipt(course.processes[0].ticket.id)


def _put(course: MovesReceiptsInTwoCommits) -> None:
    assert course.moved is not None
    course.world.store(course.processes[0].ticket.id, course.moved)
    course.moved = None
