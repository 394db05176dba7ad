"""Which protection of the server is removed, and the smallest world in which that is noticed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from replayfloor.server.policy import Effects
from replayfloor.testing.server_scenario import Faults, ServerScenario
from simulation import broken_flows as flows
from simulation import broken_processes as processes

ONE_OF_EACH = Faults(crashes=1, expiries=1)
EXPIRY = Faults(expiries=1)

_external = partial(ServerScenario, Effects.EXTERNAL)
_atomic = partial(ServerScenario, Effects.ATOMIC)
_repeatable = partial(ServerScenario, Effects.REPEATABLE)

BROKEN: dict[str, tuple[Callable[[], ServerScenario], str]] = {
    "the look is inside the lock": (
        partial(_external, flow=flows.look_outside_the_lock, process=flows.LookingProcess),
        "executed 2 times",
    ),
    "a claim and not only a lock, when a lease runs out": (
        partial(
            _external,
            faults=EXPIRY,
            flow=flows.lock_instead_of_a_claim,
            process=flows.LookingProcess,
        ),
        "executed 2 times",
    ),
    "a claim and not only a lock, when a process dies": (
        partial(
            _external,
            faults=Faults(crashes=1),
            flow=flows.lock_instead_of_a_claim,
            process=flows.LookingProcess,
        ),
        "executed 2 times",
    ),
    "a claim and not only a lock, when the lock forgets": (
        partial(
            _external,
            faults=Faults(lock_losses=1),
            flow=flows.lock_instead_of_a_claim,
            process=flows.LookingProcess,
        ),
        "executed 2 times",
    ),
    "claim first, look second": (
        partial(_external, flow=flows.look_before_the_insert, process=flows.FencedLookingProcess),
        "executed 2 times",
    ),
    "the unique index of the claims": (
        partial(
            _external,
            faults=Faults(lock_losses=1),
            process=processes.ClaimsWithoutUniqueIndex,
        ),
        "executed 2 times",
    ),
    "the token of the lock": (
        partial(_atomic, faults=EXPIRY, process=processes.UnlocksWithoutToken),
        "a lock was released by somebody who does not hold it",
    ),
    "an external orphan is not taken over": (
        partial(_external, faults=ONE_OF_EACH, process=processes.ExecutesOrphansAgain),
        "executed 2 times",
    ),
    "unknown is not guessed as failed": (
        partial(_external, faults=ONE_OF_EACH, flow=flows.guess_that_an_orphan_failed),
        "executed 2 times",
    ),
    "the fence of the commit": (
        partial(_atomic, faults=EXPIRY, process=processes.FinishesWithoutFence),
        "executed 2 times",
    ),
    "an atomic orphan is taken over": (
        partial(_atomic, faults=ONE_OF_EACH, process=processes.NeverTakesOver),
        "the key is stuck",
    ),
    "the fence of the finish": (
        partial(_repeatable, faults=EXPIRY, process=processes.AnswersAfterItLostTheKey),
        "different answers",
    ),
    "the receipt in the handler's own transaction": (
        partial(
            _repeatable,
            faults=EXPIRY,
            process=processes.CommitsWithoutItsReceipt,
            own_transaction=True,
        ),
        "executed 2 times",
    ),
    "the effect in the transaction": (
        partial(_atomic, faults=ONE_OF_EACH, process=processes.WritesOutsideTheTransaction),
        "executed 2 times",
    ),
    "the receipt before the answer, external": (
        partial(
            _external,
            faults=Faults(crashes=1),
            flow=flows.answer_before_finish,
            process=flows.ShowingProcess,
        ),
        "different answers",
    ),
    "the commit before the answer, atomic": (
        partial(
            _atomic,
            faults=Faults(crashes=1),
            flow=flows.answer_before_finish,
            process=flows.ShowingProcess,
        ),
        "answered, and nothing was executed",
    ),
    "the lease is renewed while the handler runs": (
        partial(_external, periods=4, renews=False),
        "was told unknown, and nobody was lost or late",
    ),
    "cleanup is shielded, external": (
        partial(_external, faults=Faults(cancels=1), process=processes.CleansUpWithoutShield),
        "the key is held, and nobody is left who works on it",
    ),
    "cleanup is shielded, atomic": (
        partial(_atomic, faults=Faults(cancels=1), process=processes.CleansUpWithoutShield),
        "the key is held, and nobody is left who works on it",
    ),
    "a release before the worker's next operation on the lock": (
        partial(_external, sequential=True, workers=("w", "w"), ordered=False),
        "was told in flight, after the first answer",
    ),
    "an answer for each entry of a batch": (
        partial(
            _external,
            batches=True,
            workers=("w", "w"),
            faults=Faults(lock_losses=1),
            course=processes.TakesEveryEntryForTheFirst,
        ),
        "executed 2 times",
    ),
    "a receipt is moved in one commit": (
        partial(
            _external,
            faults=Faults(lock_losses=1),
            course=processes.MovesReceiptsInTwoCommits,
        ),
        "executed 2 times",
    ),
}
"""By the protection that is missing: the world, and the promise that the shortest schedule breaks.
"""
