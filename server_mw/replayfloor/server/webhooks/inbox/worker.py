"""One worker in a thread: performs the effects of `flow.work`, one event after the other."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from functools import partial
from typing import assert_never

from replayfloor.core.claims import FENCE_BYTES, Begin, Extend, Fence, Renew, Rollback
from replayfloor.core.drivers import run
from replayfloor.core.effects import Effect
from replayfloor.core.errors import StoreUnavailable
from replayfloor.server.claim import ActiveClaim
from replayfloor.server.effects import Emit, Pause
from replayfloor.server.flow.renew import period_ms, renew
from replayfloor.server.flow.values import Admitted
from replayfloor.server.keeper import Alarm, LeaseKeeper, Stopped
from replayfloor.server.lease import Lease
from replayfloor.server.policy import Effects, Options
from replayfloor.server.stores.inbox import Inbox, commit_of
from replayfloor.server.stores.inbox_put import open_request
from replayfloor.server.stores.protocols import Transaction
from replayfloor.server.webhooks.inbox.bell import Bell
from replayfloor.server.webhooks.inbox.call import Call
from replayfloor.server.webhooks.inbox.effects import (
    Bury,
    CommitDone,
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
from replayfloor.server.wsgi_exchange import WSGIApp

log = logging.getLogger("replayfloor.server")


class Worker:
    """Takes events until it is told to stop."""

    def __init__(
        self,
        settings: WorkerSettings,
        inbox: Inbox,
        app: WSGIApp,
        effects_of: EffectsOf,
        bell: Bell,
        alarm: Alarm,
    ) -> None:
        """Share everything with the other workers of the process."""
        self._settings, self._inbox, self._app = settings, inbox, app
        self._effects_of = effects_of
        self._bell, self._alarm = bell, alarm
        self._seen = bell.count
        self._fence = Fence(b"")
        self._taken: Taken | None = None
        self._handling: Handling | None = None
        self._lease = Lease()
        self._transaction: Transaction | None = None
        self._call: Call | None = None
        self.stopping = False

    def run(self) -> None:
        """Work until `stopping` is set; an event that is at hand is settled first.

        What nobody has foreseen ends an execution, whose lease runs out then, and not the worker.
        """
        while not self.stopping:
            try:
                run(work(self._settings.limits), self._perform)
            except Exception:
                log.exception("a worker of the inbox failed; it goes on")
                self._rest()
                self._bell.wait(self._bell.count, self._settings.poll_s)

    def give_back(self) -> None:
        """Give the event at hand back although its handler cannot be stopped.

        What the handler still does is refused at its end. That of an external route keeps its
        event: when the process ends, its lease runs out, and nobody knows the outcome.
        """
        taken, handling = self._taken, self._handling
        if taken is None or handling is None or handling.effects is Effects.EXTERNAL:
            return
        try:
            self._inbox.later(Later(taken.id, taken.fence, 0, counts=False))
        except StoreUnavailable:
            return  # the lease does it

    # -- effects ----------------------------------------------------------------------------------

    def _perform(self, effect: Effect[object]) -> object:
        match effect:
            case Go():
                self._seen = self._bell.count
                return not self.stopping
            case Take():
                return self._take(effect)
            case Idle(pause_ms):
                return self._bell.wait(self._seen, pause_ms / 1000)
            case Prepare(taken):
                return self._prepare(taken)
            case Hand():
                return self._hand(effect)
            case Rest():
                self._rest()
                return None
            case Draw():
                return self._settings.random()
            case Pause(pause_ms):
                time.sleep(pause_ms / 1000)
                return None
            case Emit(event):
                tell(event, self._settings.on_event)
                return None
            case Renew() | Done() | Later() | Bury() | Begin() | CommitDone() | Rollback():
                return self._perform_in_inbox(effect)
            case Extend():
                return True  # there is no lock beside the inbox
            case _:
                raise TypeError(f"the flow of the inbox asked for {effect!r}")

    def _perform_in_inbox(
        self, effect: Renew | Done | Later | Bury | Begin | CommitDone | Rollback
    ) -> bool | None:
        match effect:
            case Renew():
                asked = self._lease.asked()
                held = self._inbox.renew(effect)
                if held:
                    self._lease.begin(asked, effect.lease_ms)
                return held
            case Done():
                return self._inbox.done(effect)
            case Later():
                return self._inbox.later(effect)
            case Bury():
                return self._inbox.bury(effect)
            case Begin():
                self._transaction = self._inbox.begin()
                return None
            case CommitDone():
                if self._transaction is None:
                    raise TypeError("commit without a transaction")
                return self._transaction.commit(commit_of(effect))
            case Rollback():
                if self._transaction is not None:
                    self._transaction.rollback()
                return None
            case _:
                assert_never(effect)

    def _take(self, effect: Take) -> Taken | None:
        self._taken = self._handling = self._transaction = self._call = None
        if not effect.again:
            self._fence = Fence(secrets.token_bytes(FENCE_BYTES))
        self._lease = Lease()
        asked = self._lease.asked()
        taken = self._inbox.take(self._fence, effect.lease_ms, again=effect.again)
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

    def _hand(self, hand: Hand) -> HandAnswer:
        options = self._settings.options(hand.handling.effects)
        claim = ActiveClaim(
            hand.admitted, options, self._lease, self._transaction, self._inbox.done_in
        )
        call = self._call = Call(hand.handling.item.request, claim)
        keeper = LeaseKeeper(
            self._alarm,
            period_ms(options) / 1000,
            partial(self._renew, hand.admitted, options),
            claim.lose,
        )
        try:
            return call.answer(self._app)
        finally:
            keeper.stop()
            self._lease.end()

    def _renew(self, admitted: Admitted, options: Options, ended: threading.Event) -> None:
        """Renew in another thread than the application's, until `ended` is set."""

        def perform(effect: Effect[object]) -> object:
            if isinstance(effect, Pause):
                ended.wait(effect.pause_ms / 1000)
                answer = None
            else:
                answer = self._perform(effect)
            # Also after the effect: a lease whose event was settled meanwhile was not lost.
            if ended.is_set():
                raise Stopped
            return answer

        run(renew(admitted, options), perform)

    def _rest(self) -> None:
        if self._call is not None:
            self._call.rest()
        self._taken = None
