"""The effects on the server's two stores, and their answers. What each promises is written here.

The lock is a fast path: losing all of it at any moment must never cause a second execution. The
receipts are the truth: a claim is refused by a unique index, and every later write of a claim is
fenced. Ids and fingerprints are 16 bytes; a fence is 16 random bytes that name one execution.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NewType, TypeAlias

from replayfloor.core.effects import Effect
from replayfloor.core.fingerprint import Fingerprint, ReceiptId
from replayfloor.core.receipt import Receipt
from replayfloor.core.values import frozen

Fence = NewType("Fence", bytes)
"""16 random bytes made per request. They are the owner token of the lock and the fence of the
claim; being made before the first round trip, they let an execution recognise its own claim when
the answer to the claim was lost."""

FENCE_BYTES = 16


# -- the lock ---------------------------------------------------------------------------------


@frozen
class Acquired:
    """The lock is this fence's until it is released or the lease ends."""


@frozen
class Held:
    """Another fence holds the lock for at most `left_ms`."""

    fingerprint: Fingerprint
    left_ms: int


@frozen
class Cached:
    """The key is finished and its receipt was kept in the lock's place."""

    receipt: Receipt


@frozen
class LockUnavailable:
    """The lock did not answer in time. Go on: the receipts alone are enough."""


LockAnswer: TypeAlias = Acquired | Held | Cached | LockUnavailable


@frozen
class Acquire(Effect[LockAnswer]):
    """Take the lock of an id unless another fence holds it (one atomic operation).

    Taking it again with the same fence succeeds: the first answer may have been lost. Never
    raises for a lock that is down; that is an answer.
    """

    id: ReceiptId
    fingerprint: Fingerprint
    fence: Fence
    lease_ms: int


@frozen
class Release(Effect[bool]):
    """End the lock if, and only if, it is still this fence's; say whether it was.

    With a `receipt`, the lock's place keeps it for `keep_ms`, as a cache: the caller has made it
    durable before. Never raises for a lock that is down.
    """

    id: ReceiptId
    fence: Fence
    receipt: Receipt | None = None
    keep_ms: int = 0


@frozen
class Extend(Effect[bool]):
    """Begin the lock's lease anew if it is still this fence's; say whether it was.

    Never raises for a lock that is down.
    """

    id: ReceiptId
    fence: Fence
    lease_ms: int


# -- the receipts -----------------------------------------------------------------------------


class Reuse(StrEnum):
    """What a claim does about a key whose receipt has expired."""

    TELL = "tell"
    """The key is taken as a new one, and the answer says whether it was used before."""
    REFUSE = "refuse"
    """The key is refused as long as the store still knows that it was used."""
    NEVER = "never"
    """No key is taken that has no live receipt: the caller knows it to be older than those."""


@frozen
class Claimed:
    """The key is taken by this fence.

    `taken_over`: from an orphan. `reused`: it was used before, and its receipt has expired.
    """

    taken_over: bool = False
    reused: bool = False


@frozen
class InFlight:
    """Another fence holds the claim, and its lease lasts for `left_ms` more."""

    fingerprint: Fingerprint
    left_ms: int


@frozen
class Finished:
    """The key has a receipt. It is live for `left_ms` more; None if it never expires."""

    receipt: Receipt
    left_ms: int | None = None


@frozen
class Orphaned:
    """Another fence holds the claim and its lease ran out `since_ms` ago; nobody took it over."""

    fingerprint: Fingerprint
    since_ms: int


@frozen
class Expired:
    """The key was used, or is too old to be a first request, and its receipt is gone."""


ClaimAnswer: TypeAlias = Claimed | InFlight | Finished | Orphaned | Expired


@frozen
class Claim(Effect[ClaimAnswer]):
    """Take the key for one execution, durably, or say what stands in the way.

    Of any number of simultaneous claims of one id, exactly one is answered Claimed. A key with a
    receipt is never claimed, however closely the claim follows the finish. With `takeover`, an
    orphan with the same fingerprint passes to this fence, and the old fence can write no more.
    Claiming again with the same fence is answered Claimed. The store's own clock decides whether
    a lease ran out.

    With `retention_ms`, a receipt is live for so long after it was finished, to the microsecond;
    None means for ever. What an expired one means is said by `reuse`, and the store knows of it
    as long as its row stands; with `proofs`, also by the proof that outlives the row. A claim that
    stands, in flight or orphaned, comes before all that, however old it is. Raises
    StoreUnavailable.
    """

    id: ReceiptId
    fingerprint: Fingerprint
    fence: Fence
    lease_ms: int
    takeover: bool = False
    retention_ms: int | None = None
    reuse: Reuse = Reuse.TELL
    proofs: bool = False


@frozen
class Finish(Effect[bool]):
    """Turn the claim into a receipt, durably, if it is still this fence's; say whether it was.

    Claim gone and receipt there are one commit. Raises StoreUnavailable.
    """

    id: ReceiptId
    fence: Fence
    receipt: Receipt


@frozen
class Abandon(Effect[bool]):
    """Free the key if the claim is still this fence's; say whether it was.

    Only for an execution that provably had no effect. Raises StoreUnavailable.
    """

    id: ReceiptId
    fence: Fence


@frozen
class Renew(Effect[bool]):
    """Begin the claim's lease anew if it is still this fence's; say whether it was.

    Also an orphan is in flight again, unless it was taken over. Raises StoreUnavailable.
    """

    id: ReceiptId
    fence: Fence
    lease_ms: int


# -- the handler's own transaction in the receipts' database ------------------------------------


@frozen
class Begin(Effect[None]):
    """Open the transaction that the handler of this key writes in. Raises StoreUnavailable."""

    id: ReceiptId


@frozen
class Commit(Effect[bool]):
    """Finish inside the open transaction and commit it; if the claim was lost, roll back.

    The handler's writes and the receipt appear together or not at all; says which. After
    StoreUnavailable it is not known which.
    """

    finish: Finish


@frozen
class Rollback(Effect[None]):
    """Undo the open transaction, if one is open. Never raises."""
