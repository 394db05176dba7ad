"""Settle what crashed executions left behind, by asking the user what became of each.

An orphaned key of an external handler is answered 409 and never executed again until it has been
settled here, or by hand with `replayfloor receipts resolve`. One pass asks about each orphan once;
run it every minute or so (`replayfloor reconcile`, or a job of your own). Any number of passes may
run at the same time. The order of the steps, and why, is in `flow/reconcile.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Unpack

from replayfloor.core.drivers import run, run_async
from replayfloor.core.errors import ConfigurationError
from replayfloor.server.flow.reconcile import Settled
from replayfloor.server.reconcile_perform import (
    AsyncSettlement,
    ReconcileOptions,
    Settlement,
)
from replayfloor.server.shield import in_thread
from replayfloor.server.stores import AsyncReceipts, Receipts
from replayfloor.server.stores.records import ClaimRecord, Records
from replayfloor.server.verdicts import (
    Applied,
    AsyncReconciler,
    NotApplied,
    Orphan,
    Reconciler,
    StillUnknown,
    Verdict,
)

__all__ = [
    "Applied",
    "AsyncReconciler",
    "NotApplied",
    "Orphan",
    "ReconcileOptions",
    "Reconciled",
    "Reconciler",
    "Settled",
    "StillUnknown",
    "Verdict",
    "async_reconcile",
    "async_settle",
    "orphan_of",
    "reconcile",
    "settle",
]

ORPHANS_PER_PASS = 100
"""One after the other, and a provider is asked about each: a pass stays a matter of minutes."""

OLDER_THAN_S = 60.0
"""How long an orphan is left alone. Its execution may only stand still (a stopped virtual machine,
a database that fails over) and finish by itself, and then nobody has to be asked; and an orphan
that was given back is not asked about again at once."""


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What one pass did, in numbers of orphans.

    `applied` and `not_applied` are settled. `unknown` are orphans still: the reconciler could not
    say, or failed. `skipped` were settled, or taken over, by somebody else meanwhile.
    """

    applied: int = 0
    not_applied: int = 0
    unknown: int = 0
    skipped: int = 0


def reconcile(
    records: Records,
    receipts: Receipts,
    reconciler: Reconciler,
    *,
    limit: int = ORPHANS_PER_PASS,
    older_than_s: float = OLDER_THAN_S,
    **options: Unpack[ReconcileOptions],
) -> Reconciled:
    """Ask the reconciler about every orphan, once, and settle those it knows about.

    Args:
        records: where orphans are listed, such as `open_records(url)`.
        receipts: the store of the same database, such as `open_receipts(url)`. It stays open.
        reconciler: a function that is given an Orphan and returns a Verdict. It is called in a
            thread of its own, always the same one unless it does not return in time.
        limit: how many orphans one pass takes, longest orphaned first.
        older_than_s: how long they must have been orphans.
        **options: see ReconcileOptions.

    A reconciler that raises, or takes too long, is logged and counts as StillUnknown. Raises
    StoreUnavailable as soon as the database does not answer; what was settled by then stays so,
    and the rest is for the next pass. Raises ConfigurationError for options that cannot be
    honoured.
    """
    older_than = _checked(limit, older_than_s)
    settlement = Settlement(receipts, reconciler, **options)
    try:
        found = records.orphans(limit, older_than)
        return _counted(
            run(settlement.flow(orphan_of(record)), settlement.perform) for record in found
        )
    finally:
        settlement.close()


async def async_reconcile(
    records: Records,
    receipts: AsyncReceipts,
    reconciler: AsyncReconciler | Reconciler,
    *,
    limit: int = ORPHANS_PER_PASS,
    older_than_s: float = OLDER_THAN_S,
    **options: Unpack[ReconcileOptions],
) -> Reconciled:
    """Do the same asynchronously; see `reconcile`.

    The reconciler is an asynchronous function, or a blocking one, which then runs in a thread of
    its own. A pass that is cancelled gives back the orphan it was at.
    """
    older_than = _checked(limit, older_than_s)
    settlement = AsyncSettlement(receipts, reconciler, **options)
    try:
        found = await in_thread(partial(records.orphans, limit, older_than))
        done = [await _settle(settlement, orphan_of(record)) for record in found]
        return _counted(done)
    finally:
        settlement.close()


def settle(
    receipts: Receipts,
    orphan: Orphan,
    reconciler: Reconciler,
    **options: Unpack[ReconcileOptions],
) -> Settled:
    """Settle one orphan, whatever its age; see `reconcile`."""
    settlement = Settlement(receipts, reconciler, **options)
    try:
        return run(settlement.flow(orphan), settlement.perform)
    finally:
        settlement.close()


async def async_settle(
    receipts: AsyncReceipts,
    orphan: Orphan,
    reconciler: AsyncReconciler | Reconciler,
    **options: Unpack[ReconcileOptions],
) -> Settled:
    """Settle one orphan, whatever its age; see `async_reconcile`."""
    settlement = AsyncSettlement(receipts, reconciler, **options)
    try:
        return await _settle(settlement, orphan)
    finally:
        settlement.close()


async def _settle(settlement: AsyncSettlement, orphan: Orphan) -> Settled:
    flow = settlement.flow(orphan)
    return await run_async(flow, settlement.perform, settlement.perform_shielded)


def orphan_of(record: ClaimRecord) -> Orphan:
    """Return what a reconciler is shown of an orphaned claim."""
    return Orphan(
        id=record.id.hex(),
        claimed_at=record.claimed_at,
        orphaned_since=record.lease_until,
        fingerprint=record.fingerprint,
    )


def _counted(done: Iterable[Settled]) -> Reconciled:
    counts = Counter(done)
    return Reconciled(
        applied=counts[Settled.APPLIED],
        not_applied=counts[Settled.NOT_APPLIED],
        unknown=counts[Settled.UNKNOWN],
        skipped=counts[Settled.SKIPPED],
    )


def _checked(limit: int, older_than_s: float) -> timedelta:
    if limit < 1:
        raise ConfigurationError(f"limit={limit}: a pass takes one orphan at least")
    if not 0 <= older_than_s < float("inf"):
        raise ConfigurationError(f"older_than_s={older_than_s}: expected a number of seconds")
    return timedelta(seconds=older_than_s)
