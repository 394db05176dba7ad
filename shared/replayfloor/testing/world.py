"""The server's two stores and a ledger, in memory, with time that passes only when told.

The same object backs the schedule explorer and, through SimulatedReceipts and SimulatedLock, the
contract suite: the suite is what keeps the simulation honest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from replayfloor.core.claims import (
    Abandon,
    Acquire,
    Acquired,
    Cached,
    Claim,
    ClaimAnswer,
    Claimed,
    Expired,
    Extend,
    Fence,
    Finish,
    Finished,
    Held,
    InFlight,
    LockAnswer,
    Orphaned,
    Release,
    Renew,
    Reuse,
)
from replayfloor.core.fingerprint import Fingerprint, ReceiptId
from replayfloor.core.receipt import Receipt
from replayfloor.testing.explore import Violation
from replayfloor.testing.explore_states import State


@dataclass(frozen=True, slots=True)
class _Taken:
    fence: Fence
    fingerprint: Fingerprint
    until_ms: int


@dataclass(frozen=True, slots=True)
class _Kept:
    receipt: Receipt
    until_ms: int


class World(State):
    """All that is shared between processes. `ledger` holds the id of every effect, in order."""

    def __init__(self) -> None:
        """Begin empty, at time 0."""
        self.now_ms = 0
        self.ledger: list[ReceiptId] = []
        self._locks: dict[ReceiptId, _Taken | _Kept] = {}
        self._replica: dict[ReceiptId, _Taken | _Kept] = {}
        self._claims: dict[ReceiptId, _Taken] = {}
        self._receipts: dict[ReceiptId, Receipt] = {}
        self._finished_ms: dict[ReceiptId, int] = {}
        self._proofs: set[ReceiptId] = set()

    # -- the lock -----------------------------------------------------------------------------

    def acquire(self, acquire: Acquire) -> LockAnswer:
        """See `replayfloor.core.claims.Acquire`."""
        held = self._lock(acquire.id)
        if isinstance(held, _Kept):
            return Cached(held.receipt)
        if held is not None and held.fence != acquire.fence:
            return Held(held.fingerprint, held.until_ms - self.now_ms)
        until_ms = self.now_ms + acquire.lease_ms
        self._locks[acquire.id] = _Taken(acquire.fence, acquire.fingerprint, until_ms)
        return Acquired()

    def release(self, release: Release, *, checked: bool = True) -> bool:
        """See `replayfloor.core.claims.Release`. Without `checked`, as a careless lock does it.

        Raises Violation if that ends the lock of another.
        """
        held = self._lock(release.id)
        mine = isinstance(held, _Taken) and held.fence == release.fence
        if checked and not mine:
            return False
        if isinstance(held, _Taken) and not mine:
            raise Violation("a lock was released by somebody who does not hold it")
        self._locks.pop(release.id, None)
        if release.receipt is not None and release.keep_ms > 0:
            self._locks[release.id] = _Kept(release.receipt, self.now_ms + release.keep_ms)
        return mine

    def extend(self, extend: Extend) -> bool:
        """See `replayfloor.core.claims.Extend`."""
        held = self._lock(extend.id)
        if not isinstance(held, _Taken) or held.fence != extend.fence:
            return False
        self._locks[extend.id] = replace(held, until_ms=self.now_ms + extend.lease_ms)
        return True

    def _lock(self, id_: ReceiptId) -> _Taken | _Kept | None:
        held = self._locks.get(id_)
        return held if held is not None and held.until_ms > self.now_ms else None

    def lose_locks(self) -> None:
        """Forget every lock and cached receipt, as a flushed or failed-over Redis does."""
        self._locks.clear()

    @property
    def is_replica_behind(self) -> bool:
        """Whether the lock's replica has not seen what was written last."""
        return self._replica != self._locks

    def replicate_locks(self) -> None:
        """Let the lock's replica catch up."""
        self._replica = self._locks.copy()

    def fail_over(self) -> None:
        """Let the lock's replica take its place, however far it is behind."""
        self._locks = self._replica.copy()

    def acquire_from_replica(self, acquire: Acquire) -> LockAnswer:
        """Answer as the replica does, which is behind; what is written there is lost."""
        locks, self._locks = self._locks, self._replica.copy()
        try:
            return self.acquire(acquire)
        finally:
            self._locks = locks

    # -- the receipts ---------------------------------------------------------------------------

    def claim(self, claim: Claim) -> ClaimAnswer:
        """See `replayfloor.core.claims.Claim`."""
        until_ms = self.now_ms + claim.lease_ms
        standing = self._claims.get(claim.id)
        if standing is None:
            return self._take_free(claim, until_ms)
        left_ms = standing.until_ms - self.now_ms
        if standing.fence == claim.fence:
            return Claimed(reused=self._is_proven(claim))
        if left_ms > 0:
            return InFlight(standing.fingerprint, left_ms)
        if not claim.takeover or standing.fingerprint != claim.fingerprint:
            return Orphaned(standing.fingerprint, -left_ms)
        self._claims[claim.id] = replace(standing, fence=claim.fence, until_ms=until_ms)
        return Claimed(taken_over=True, reused=self._is_proven(claim))

    def _take_free(self, claim: Claim, until_ms: int) -> ClaimAnswer:
        """Claim a key that nobody holds, if its receipt, or the lack of one, allows it."""
        receipt = self._receipts.get(claim.id)
        reused = receipt is not None or self._is_proven(claim)
        if receipt is not None:
            left_ms = None
            if claim.retention_ms is not None:
                left_ms = self._finished_ms[claim.id] + claim.retention_ms - self.now_ms
            if left_ms is None or left_ms > 0:
                return Finished(receipt, left_ms)
        if claim.reuse is Reuse.NEVER or (claim.reuse is Reuse.REFUSE and reused):
            return Expired()
        if receipt is not None:
            del self._receipts[claim.id]
            self._proofs.add(claim.id)
        self._claims[claim.id] = _Taken(claim.fence, claim.fingerprint, until_ms)
        return Claimed(reused=reused)

    def _is_proven(self, claim: Claim) -> bool:
        return claim.proofs and claim.id in self._proofs

    def finish(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Finish`."""
        if not self.is_mine(finish.id, finish.fence):
            return False
        del self._claims[finish.id]
        self._receipts[finish.id] = finish.receipt
        self._finished_ms[finish.id] = self.now_ms
        return True

    def abandon(self, abandon: Abandon) -> bool:
        """See `replayfloor.core.claims.Abandon`."""
        mine = self.is_mine(abandon.id, abandon.fence)
        if mine:
            del self._claims[abandon.id]
        return mine

    def renew(self, renew: Renew) -> bool:
        """See `replayfloor.core.claims.Renew`."""
        mine = self.is_mine(renew.id, renew.fence)
        if mine:
            until_ms = self.now_ms + renew.lease_ms
            self._claims[renew.id] = replace(self._claims[renew.id], until_ms=until_ms)
        return mine

    def is_mine(self, id_: ReceiptId, fence: Fence) -> bool:
        """Say whether the claim of an id stands and is this fence's."""
        standing = self._claims.get(id_)
        return standing is not None and standing.fence == fence

    # -- what happens to receipts by themselves --------------------------------------------------

    def drop_expired(self, retention_ms: int, *, to_proofs: bool) -> None:
        """Drop what was finished longer ago than that; what it was may live on as a proof."""
        gone = [
            id_ for id_ in self._receipts if self._finished_ms[id_] + retention_ms <= self.now_ms
        ]
        for id_ in gone:
            del self._receipts[id_]
            if to_proofs:
                self._proofs.add(id_)

    def has_expired(self, retention_ms: int) -> bool:
        """Say whether there is anything to drop."""
        return any(self._finished_ms[id_] + retention_ms <= self.now_ms for id_ in self._receipts)

    def finished_ms(self, id_: ReceiptId) -> int | None:
        """Return when an id was last finished, also after its receipt has gone."""
        return self._finished_ms.get(id_)

    # -- what only broken flows ask for -----------------------------------------------------------

    def find(self, id_: ReceiptId) -> Receipt | None:
        """Return the receipt of an id, without any claim."""
        return self._receipts.get(id_)

    def insert_claim(self, claim: Claim) -> ClaimAnswer:
        """Claim without the look into receipts that has to follow."""
        receipt = self._receipts.pop(claim.id, None)
        try:
            return self.claim(claim)
        finally:
            if receipt is not None:
                self._receipts[claim.id] = receipt

    def forget_claim(self, id_: ReceiptId) -> None:
        """End whatever claim stands."""
        self._claims.pop(id_, None)

    def take_receipt(self, id_: ReceiptId) -> Receipt:
        """Take a receipt out of the store; raises KeyError if there is none."""
        return self._receipts.pop(id_)

    def store(self, id_: ReceiptId, receipt: Receipt) -> None:
        """Write a receipt without looking at any fence."""
        self._claims.pop(id_, None)
        self._receipts[id_] = receipt
        self._finished_ms[id_] = self.now_ms
