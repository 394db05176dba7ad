"""One asynchronous worker: performs the effects of `flow.work`, one event after the other."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from typing import assert_never

import anyio
from starlette.types import ASGIApp

from replayfloor.core.claims import FENCE_BYTES, Begin, Extend, Fence, Renew, Rollback
from replayfloor.core.drivers import run_async
from replayfloor.core.effects import Effect
from replayfloor.core.errors import StoreUnavailable
from replayfloor.server.claim import AsyncActiveClaim
from replayfloor.server.effects import Emit, Pause
from replayfloor.server.flow.renew import period_ms, renew
from replayfloor.server.keeper_async import AsyncAlarm, AsyncLeaseKeeper
from replayfloor.server.lease import Lease
from replayfloor.server.policy import Effects
from replayfloor.server.stores.inbox import AsyncInbox, commit_of
from replayfloor.server.stores.inbox_put import open_request
from replayfloor.server.stores.protocols import AsyncTransaction
from replayfloor.server.webhooks.inbox.bell_async import AsyncBell
from replayfloor.server.webhooks.inbox.call_async import AsyncCall
from replayfloor.server.webhooks.inbox.effects import (
    Bury,
    CommitDone,
    CutOff,
    Done,
    Draw,
    Go,
    Hand,
    HandAnswer,
    Handling,
    Idle,
    Later,
    Prepare,
    Rest,
    Take,
)
from replayfloor.server.webhooks.inbox.flow import work
from replayfloor.server.webhooks.inbox.options import EffectsOf, WorkerSettings
from replayfloor.server.webhooks.inbox.told import tell
from replayfloor.server.webhooks.inbox.values import Taken

log = logging.getLogger("replayfloor.server")


class AsyncWorker:
    """Takes events until it is told to stop."""

    def __init__(
        self,
        settings: WorkerSettings,
        inbox: AsyncInbox,
        app: ASGIApp,
        effects_of: EffectsOf,
        state: Callable[[], Mapping[str, object]],
        bell: AsyncBell,
        alarm: AsyncAlarm,
    ) -> None:
        """Share everything with the other workers of the process."""
        self._settings, self._inbox, self._app = settings, inbox, app
        self._effects_of, self._state = effects_of, state
        self._bell, self._alarm = bell, alarm
        self._seen = bell.count
        self._fence = Fence(b"")
        self._taken: Taken | None = None
        self._handling: Handling | None = None
        self._lease = Lease()
        self._transaction: AsyncTransaction | None = None
        self._call: AsyncCall | None = None
        self._cut = False
        self.stopping = False

    async def run(self) -> None:
        """Work until `stopping` is set; an event that is at hand is settled first.

        What nobody has foreseen ends an execution, whose lease runs out then, and not the worker.
        """
        while not self.stopping:
            try:
                await run_async(work(self._settings.limits), self._perform)
            except Exception:
                log.exception("a worker of the inbox failed; it goes on")
                await self._rest()
                await self._bell.wait(self._bell.count, self._settings.poll_s)

    def cut(self) -> None:
        """Stop the application that has the event at hand, as far as it can be stopped."""
        self._cut = True
        if self._call is not None:
            self._call.cut()

    async def give_back(self) -> None:
        """Give the event at hand back although its handler cannot be stopped.

        What the handler still does is refused at its end. That of an external route keeps its
        event: when the process ends, its lease runs out, and nobody knows the outcome.
        """
        taken, handling = self._taken, self._handling
        if taken is None or handling is None or handling.effects is Effects.EXTERNAL:
            return
        try:
            await self._inbox.later(Later(taken.id, taken.fence, 0, counts=False))
        except StoreUnavailable:
            return  # the lease does it

    # -- effects ----------------------------------------------------------------------------------

    async def _perform(self, effect: Effect[object]) -> object:
        match effect:
            case Go():
                self._seen = self._bell.count
                return not self.stopping
            case Take():
                return await self._take(effect)
            case Idle(pause_ms):
                return await self._bell.wait(self._seen, pause_ms / 1000)
            case Prepare(taken):
                return self._prepare(taken)
            case Hand():
                return await self._hand(effect)
            case Rest():
                await self._rest()
                return None
            case Draw():
                return self._settings.random()
            case Pause(pause_ms):
                await anyio.sleep(pause_ms / 1000)
                return None
            case Emit(event):
                tell(event, self._settings.on_event)
                return None
            case Renew() | Done() | Later() | Bury() | Begin() | CommitDone() | Rollback():
                return await self._perform_in_inbox(effect)
            case Extend():
                return True  # there is no lock beside the inbox
            case _:
                raise TypeError(f"the flow of the inbox asked for {effect!r}")

    async def _perform_in_inbox(
        self, effect: Renew | Done | Later | Bury | Begin | CommitDone | Rollback
    ) -> bool | None:
        match effect:
            case Renew():
                asked = self._lease.asked()
                held = await self._inbox.renew(effect)
                if held:
                    self._lease.begin(asked, effect.lease_ms)
                return held
            case Done():
                return await self._inbox.done(effect)
            case Later():
                return await self._inbox.later(effect)
            case Bury():
                return await self._inbox.bury(effect)
            case Begin():
                self._transaction = await self._inbox.begin()
                return None
            case CommitDone():
                if self._transaction is None:
                    raise TypeError("commit without a transaction")
                return await self._transaction.commit(commit_of(effect))
            case Rollback():
                if self._transaction is not None:
                    await self._transaction.rollback()
                return None
            case _:
                assert_never(effect)

    async def _take(self, effect: Take) -> Taken | None:
        self._taken = self._handling = self._transaction = self._call = None
        if not effect.again:
            self._fence = Fence(secrets.token_bytes(FENCE_BYTES))
        self._lease = Lease()
        asked = self._lease.asked()
        taken = await self._inbox.take(self._fence, effect.lease_ms, again=effect.again)
        if taken is not None:
            self._lease.begin(asked, effect.lease_ms)
            self._bell.ring()  # where there is one event there may be another
        self._taken = taken
        return taken

    def _prepare(self, taken: Taken) -> Handling | None:
        request = open_request(taken.stored, self._settings.sealer, sealed=taken.sealed)
        item = taken.item(request)
        effects = self._effects_of(item)
        self._handling = None if effects is None else Handling(item, effects)
        return self._handling

    async def _hand(self, hand: Hand) -> HandAnswer:
        options = self._settings.options(hand.handling.effects)
        claim = AsyncActiveClaim(
            hand.admitted, options, self._lease, self._transaction, self._inbox.done_in
        )
        call = self._call = AsyncCall(hand.handling.item.request, claim, self._state())
        if self._cut:
            return CutOff()
        keeper = AsyncLeaseKeeper(
            self._alarm,
            period_ms(options) / 1000,
            lambda: run_async(renew(hand.admitted, options), self._perform),
            claim.lose,
        )
        try:
            return await call.answer(self._app)
        finally:
            keeper.stop()
            self._lease.end()

    async def _rest(self) -> None:
        if self._call is not None:
            await self._call.rest()
        self._taken = None
