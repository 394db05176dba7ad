"""What grows old in a journal: how long it is kept, and removing it, at once or now and then.

Only what is finished is ever removed, and never while its key could still be replayed: both are
in the contract of PruneOperations.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Final

from replayfloor.client.clock import look
from replayfloor.client.effects import Moment
from replayfloor.client.journal import Journal
from replayfloor.core.errors import UsageError
from replayfloor.core.journal import PRUNED_MAX, PruneOperations
from replayfloor.core.journal_rules import NS_PER_S

FINISHED_KEPT_S: Final = 35 * 86_400.0
"""How long what is finished is kept, after it was last seen and after its send deadline.

The person on call looks up what became of an operation of the last weeks, and a month's statement
is compared at its end: 31 days, and some for weekends. It is also how late a job queue may hand
the same operation id to a transport: one that was forgotten is begun anew, with a new key."""

KEPT_MAX_S: Final = 100 * 366 * 86_400.0
"""A century: for good, and still a moment that 64 bits of ns can tell."""

PRUNE_EVERY_S: Final = 3600.0
"""Rows that are kept for weeks need no closer look; and a write in every hour disturbs nobody."""

FIRST_PRUNE_S: Final = 10.0
"""After the first call of a process. Its start is the wrong moment: many start at once after a
deployment, and each has work that waits. A script of one call is gone by then, and prunes never."""

PRUNE_AGAIN_S: Final = 1.0
"""After a run that left some: a large backlog is removed in many short transactions, one for a
call, so that no call waits for all of it."""

logger = logging.getLogger(__name__)


def prune(
    journal: Journal,
    at: int | Moment,
    *,
    keep_finished_s: float = FINISHED_KEPT_S,
    namespace: str | None = None,
) -> int:
    """Remove all that was finished long ago, in short transactions; return how many.

    Kept is whatever was last seen, or had its send deadline, within the last `keep_finished_s`
    seconds, and whatever is not finished, however old. `at` is the wall clock in ns since 1970
    (UTC), or both clocks; `namespace` None means every one. Raises StoreUnavailable, UsageError.
    """
    removed = 0
    while True:
        one = journal.prune(prune_effect(at, keep_finished_s, namespace))
        removed += one
        if one < PRUNED_MAX:
            return removed


def prune_effect(
    at: int | Moment, keep_finished_s: float, namespace: str | None = None
) -> PruneOperations:
    """Return the effect of one short transaction of `prune`. Raises UsageError."""
    if not 0 <= keep_finished_s <= KEPT_MAX_S:
        raise UsageError(
            f"finished operations are kept for 0 to {KEPT_MAX_S:.0f} s, not {keep_finished_s}"
        )
    before_ns = look(lambda: at).wall_ns - int(keep_finished_s * NS_PER_S)
    return PruneOperations(namespace, before_ns)


class Upkeep:
    """Prunes a journal now and then, beside the calls of a transport. Safe for several threads.

    Args:
        keep_finished_s: see `prune`.
        every_s: seconds between two runs.
        namespaces: what is removed is in one of them; None means every one. Who shares a journal
            with others speaks for its own namespaces only: another keeps what it has for longer.

    Raises UsageError.
    """

    def __init__(
        self,
        keep_finished_s: float = FINISHED_KEPT_S,
        every_s: float = PRUNE_EVERY_S,
        *,
        namespaces: Sequence[str] | None = None,
    ) -> None:
        if not 0 < every_s <= KEPT_MAX_S:
            raise UsageError(f"every_s is more than 0 and at most {KEPT_MAX_S:.0f}, not {every_s}")
        prune_effect(0, keep_finished_s)
        self._namespaces: Sequence[str | None] = (None,) if namespaces is None else namespaces
        self._keep_finished_s = keep_finished_s
        self._every_ns = int(every_s * NS_PER_S)
        self._next_ns: int | None = None
        self._lock = threading.Lock()

    def due(self, now_ns: int) -> bool:
        """Return whether the caller has to run it now; of many callers, one is told so.

        `now_ns` is the wall clock, ns since 1970. It may be set back: then the wait begins anew.
        """
        next_ns = self._next_ns
        if next_ns is not None and now_ns < next_ns <= now_ns + self._every_ns:
            return False  # as nearly always, whatever another thread does at this moment
        with self._lock:
            if self._next_ns is None:
                self._next_ns = now_ns + min(self._every_ns, int(FIRST_PRUNE_S * NS_PER_S))
                return False
            if self._next_ns - now_ns > self._every_ns:
                self._next_ns = now_ns + self._every_ns
            if now_ns < self._next_ns:
                return False
            self._next_ns = now_ns + self._every_ns
            return True

    def sweep(self, journal: Journal, now_ns: int) -> int:
        """Remove a number of old entries, for a caller that was told that it is due.

        One short transaction for each namespace, so that it may be made at the end of a call. It
        never raises: a journal that cannot be pruned now is pruned later, and the call has its
        answer. Returns how many were removed.
        """
        removed, is_rest_left = 0, False
        try:
            for namespace in self._namespaces:
                effect = prune_effect(now_ns, self._keep_finished_s, namespace)
                one = journal.prune(effect)
                removed += one
                is_rest_left = is_rest_left or one >= PRUNED_MAX
        except Exception:
            logger.exception("the journal could not be pruned")
        if is_rest_left:
            with self._lock:
                again_ns = now_ns + min(self._every_ns, int(PRUNE_AGAIN_S * NS_PER_S))
                self._next_ns = again_ns
        return removed
