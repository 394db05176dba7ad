"""Performs the effects of settling an orphan, in both colours. Decides nothing."""

from __future__ import annotations

import inspect
import logging
import secrets
from functools import partial
from typing import TypeAlias, TypedDict, Unpack, cast

import anyio

from replayfloor.core.claims import FENCE_BYTES, Abandon, Claim, Fence, Finish, Renew
from replayfloor.core.effects import Effect, Flow
from replayfloor.core.errors import ConfigurationError, StoreUnavailable
from replayfloor.server.bounded import OwnThread
from replayfloor.server.effects import Emit
from replayfloor.server.events import WORTH_A_WARNING, ServerEvent
from replayfloor.server.flow.reconcile import Settled, settle_orphan
from replayfloor.server.options import OnEvent
from replayfloor.server.sealing import Cipher, Sealer
from replayfloor.server.stores import AsyncReceipts, Receipts
from replayfloor.server.verdicts import Ask, AsyncReconciler, Orphan, Reconciler, Verdict

log = logging.getLogger("replayfloor.server")

ANSWER_S = 30.0
"""How long a reconciler may take for one orphan: some calls to a provider with its retries."""

ANSWER_S_MAX = 3600.0
"""While it is asked, its key is in flight and nobody else can settle it."""

STORE_S = 15.0
"""How much longer than the reconciler's time our lease is: three operations of a store."""

THREAD = "replayfloor reconciler"

CLEANUP_S = 10.0
"""How long giving an orphan back may take after a cancellation: longer than one operation."""


class ReconcileOptions(TypedDict, total=False):
    """Options of reconciling; all may be left out.

    answer_s: how many seconds the reconciler has for one orphan (30). One that is not done by
        then is cancelled, or its thread is given up, and the orphan stays one.
    cipher: the middleware's `response_cipher`, if it has one: answers are stored enciphered.
    on_event: called with a ServerEvent for what happens: RECONCILED, LEFT_ORPHANED, and others.
    """

    answer_s: float
    cipher: Cipher | None
    on_event: OnEvent | None


Operation: TypeAlias = Claim | Finish | Abandon | Renew


class _Common:
    """What both colours share: the options, and everything that waits for nobody."""

    def __init__(self, **options: Unpack[ReconcileOptions]) -> None:
        self._answer_s = options.get("answer_s", ANSWER_S)
        if not 0 < self._answer_s <= ANSWER_S_MAX:
            raise ConfigurationError(f"answer_s must be above 0, and at most {ANSWER_S_MAX:g}")
        self._sealer = Sealer(options.get("cipher"))
        self._on_event = options.get("on_event")

    def flow(self, orphan: Orphan) -> Flow[Settled]:
        """Return the flow that settles an orphan, with a fence that nobody had before."""
        lease_ms = round((self._answer_s + STORE_S) * 1000)
        return settle_orphan(orphan, Fence(secrets.token_bytes(FENCE_BYTES)), lease_ms)

    def _sealed(self, effect: Effect[object]) -> Operation:
        match effect:
            case Finish():
                return self._sealer.seal_finish(effect)
            case Claim() | Abandon() | Renew():
                return effect
            case _:
                raise TypeError(f"the flow that settles an orphan asked for {effect!r}")

    def _tell(self, event: ServerEvent) -> None:
        level = logging.WARNING if event.kind in WORTH_A_WARNING else logging.INFO
        log.log(level, "%s receipt=%s %s", event.kind.value, event.receipt_id, event.detail)
        if self._on_event is not None:
            try:
                self._on_event(event)
            except Exception:
                # A listener that fails must not decide over a payment.
                log.exception("on_event failed for %s", event.kind.value)


class Settlement(_Common):
    """Settles orphans with blocking stores and a blocking reconciler."""

    def __init__(
        self, receipts: Receipts, reconciler: Reconciler, **options: Unpack[ReconcileOptions]
    ) -> None:
        """Check the options. Raises ConfigurationError."""
        super().__init__(**options)
        if is_async(reconciler):
            raise ConfigurationError("the reconciler is asynchronous: use async_reconcile")
        self._receipts, self._reconciler = receipts, reconciler
        self._thread = OwnThread[Verdict](THREAD)

    def close(self) -> None:
        """Let the reconciler's thread end."""
        self._thread.close()

    def perform(self, effect: Effect[object]) -> object:
        """Perform one effect."""
        match effect:
            case Ask(orphan):
                return self._ask(orphan)
            case Emit(event):
                self._tell(event)
                return None
            case _:
                return self._operate(self._sealed(effect))

    def _operate(self, operation: Operation) -> object:
        match operation:
            case Claim():
                return self._receipts.claim(operation)
            case Finish():
                return self._receipts.finish(operation)
            case Abandon():
                return self._receipts.abandon(operation)
            case Renew():
                return self._receipts.renew(operation)

    def _ask(self, orphan: Orphan) -> Verdict:
        try:
            return self._thread.call(partial(self._reconciler, orphan), self._answer_s)
        except Exception:
            log.exception("the reconciler failed for receipt=%s", orphan.id)
            raise


class AsyncSettlement(_Common):
    """Settles orphans with asynchronous stores and a reconciler of either kind."""

    def __init__(
        self,
        receipts: AsyncReceipts,
        reconciler: AsyncReconciler | Reconciler,
        **options: Unpack[ReconcileOptions],
    ) -> None:
        """Check the options. Raises ConfigurationError."""
        super().__init__(**options)
        self._receipts = receipts
        self._threaded = None if is_async(reconciler) else Threaded(cast("Reconciler", reconciler))
        self._reconciler = self._threaded or cast("AsyncReconciler", reconciler)

    def close(self) -> None:
        """Let the reconciler's thread end, if one was made here."""
        if self._threaded is not None:
            self._threaded.close()

    async def perform(self, effect: Effect[object]) -> object:
        """Perform one effect."""
        match effect:
            case Ask(orphan):
                return await self._ask(orphan)
            case Emit(event):
                self._tell(event)
                return None
            case _:
                return await self._operate(self._sealed(effect))

    async def perform_shielded(self, effect: Effect[object]) -> object:
        """Perform one effect of the cleanup after a failure. Raises StoreUnavailable in the end."""
        try:
            with anyio.fail_after(CLEANUP_S, shield=True):
                return await self.perform(effect)
        except TimeoutError as error:
            raise StoreUnavailable("the store did not answer during cleanup") from error

    async def _operate(self, operation: Operation) -> object:
        match operation:
            case Claim():
                return await self._receipts.claim(operation)
            case Finish():
                return await self._receipts.finish(operation)
            case Abandon():
                return await self._receipts.abandon(operation)
            case Renew():
                return await self._receipts.renew(operation)

    async def _ask(self, orphan: Orphan) -> Verdict:
        try:
            with anyio.fail_after(self._answer_s):
                return await self._reconciler(orphan)
        except Exception:
            log.exception("the reconciler failed for receipt=%s", orphan.id)
            raise


class Threaded:
    """A blocking reconciler as an asynchronous one: it runs in a thread of its own.

    Always the same thread, also over several passes, unless a call does not return in time.
    """

    def __init__(self, reconciler: Reconciler) -> None:
        """Start nothing yet."""
        self._reconciler, self._thread = reconciler, OwnThread[Verdict](THREAD)

    async def __call__(self, orphan: Orphan) -> Verdict:
        """Ask the reconciler."""
        return await self._thread.call_async(partial(self._reconciler, orphan))

    def close(self) -> None:
        """Let the thread end; may be called again, and use may follow."""
        self._thread.close()


def is_async(reconciler: AsyncReconciler | Reconciler) -> bool:
    """Say whether a function, or an object that is called like one, is asynchronous."""
    call: object = getattr(reconciler, "__call__", None)  # noqa: B004 - asked for its own sake
    return inspect.iscoroutinefunction(reconciler) or inspect.iscoroutinefunction(call)
