"""Orphans on real stores, and the reconciliation of the side that a test is about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Unpack, cast

import anyio
from anyio import to_thread
from starlette.types import ASGIApp

from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.problem import ProblemKind
from replayfloor.server.reconcile import (
    Orphan,
    Reconciled,
    ReconcileOptions,
    Settled,
    Verdict,
    async_reconcile,
    async_settle,
    orphan_of,
    reconcile,
    settle,
)
from replayfloor.server.stores import AsyncReceipts, Receipts
from replayfloor.server.stores.records import ClaimRecord, Records, open_records
from server.apps import LedgerApp
from server.backends import AnyReceipts, Backend, ProtectOptions
from server.doubles import unavailable, watched_receipts
from server.wire import Answer, Request, send

LEASE_S = 0.15
GIVEN_BACK_S = 0.1
"""An orphan that was given back has a lease of a millisecond left."""

UNKNOWN = (409, ProblemKind.OUTCOME_UNKNOWN, False)
IN_FLIGHT = (409, ProblemKind.IN_FLIGHT, False)
FRESH = (201, None, False)
REPLAY = (201, None, True)


@dataclass
class Asked:
    """A reconciler that answers the same to everybody, and remembers whom it was asked about."""

    verdict: Verdict | Exception
    orphans: list[Orphan] = field(default_factory=list)

    def __call__(self, orphan: Orphan) -> Verdict:
        """Answer."""
        self.orphans.append(orphan)
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict


def records_of(backend: Backend) -> Records:
    """Return the records of the backend's receipts."""
    return open_records(backend.receipts_url)


def worker(backend: Backend, **options: Unpack[ProtectOptions]) -> ASGIApp:
    """Return a worker whose handlers write one row each."""
    options["lease_s"] = LEASE_S
    return backend.protect(LedgerApp(backend), **options)


async def lose_receipt(backend: Backend, request: Request | None = None) -> Answer:
    """Execute a request and lose its receipt: the effect is there, the key becomes an orphan."""
    receipts = watched_receipts(backend.receipts())
    receipts.before["finish"] = unavailable(times=2)
    app = backend.protect(LedgerApp(backend), receipts=receipts, lease_s=LEASE_S)
    answer = await send(app, request)
    assert answer.brief == FRESH
    await anyio.sleep(LEASE_S + 0.05)
    return answer


async def die_before_the_effect(backend: Backend) -> None:
    """Claim the key for a request whose handler does nothing, and leave it an orphan."""

    async def fail() -> None:
        raise StoreUnavailable("the provider was not reached")

    receipts = watched_receipts(backend.receipts())
    receipts.before["finish"] = unavailable(times=2)
    app = backend.protect(LedgerApp(backend, before=fail), receipts=receipts, lease_s=LEASE_S)
    await send(app)
    await anyio.sleep(LEASE_S + 0.05)


async def one_pass(
    backend: Backend,
    reconciler: Callable[[Orphan], Verdict],
    *,
    receipts: object = None,
    limit: int = 10,
    older_than_s: float = 0.0,
    **options: Unpack[ReconcileOptions],
) -> Reconciled:
    """Make a pass with the function of the backend's side."""
    records, store = records_of(backend), receipts or backend.receipts()
    if backend.is_wsgi:
        blocking = partial(
            reconcile,
            records,
            cast("Receipts", store),
            reconciler,
            limit=limit,
            older_than_s=older_than_s,
            **options,
        )
        done = await to_thread.run_sync(blocking)
    else:
        done = await async_reconcile(
            records,
            cast("AsyncReceipts", store),
            reconciler,
            limit=limit,
            older_than_s=older_than_s,
            **options,
        )
    await anyio.sleep(GIVEN_BACK_S)
    return done


async def settle_one(
    backend: Backend,
    record: ClaimRecord,
    reconciler: Callable[[Orphan], Verdict],
    receipts: AnyReceipts | None = None,
) -> Settled:
    """Settle one orphan with the function of the backend's side."""
    store, orphan = receipts or backend.receipts(), orphan_of(record)
    if backend.is_wsgi:
        blocking = partial(settle, cast("Receipts", store), orphan, reconciler)
        return await to_thread.run_sync(blocking)
    return await async_settle(cast("AsyncReceipts", store), orphan, reconciler)
