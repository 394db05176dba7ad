"""Performs the effects of the server flow for one request over WSGI. Decides nothing."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TypeAlias, TypeVar, assert_never

from replayfloor.core.claims import (
    Abandon,
    Acquire,
    Begin,
    Claim,
    Claimed,
    Commit,
    Extend,
    Finish,
    Release,
    Renew,
    Rollback,
)
from replayfloor.core.drivers import run
from replayfloor.core.effects import Effect, Flow
from replayfloor.server.effects import Emit, Pause
from replayfloor.server.keeper import Stopped
from replayfloor.server.lease import Lease
from replayfloor.server.locks import Lock
from replayfloor.server.perform_common import emit
from replayfloor.server.settings import Settings
from replayfloor.server.settings import Stores as AnyStores
from replayfloor.server.stores import Receipts, Transaction

F = TypeVar("F")

Stores: TypeAlias = AnyStores[Receipts, Lock]


class Performer:
    """The effects on the stores for one request.

    `transaction` is what performing Begin left, `lease` what was had of claims and renewals.
    """

    def __init__(self, settings: Settings, stores: Stores) -> None:
        """Belong to one request."""
        self._settings = settings
        self._receipts, self._lock = stores.receipts, stores.lock
        self.transaction: Transaction | None = None
        self.lease = Lease()

    def drive(self, flow: Flow[F]) -> F:
        """Run a flow."""
        return run(flow, self.perform)

    def drive_until(self, stopped: threading.Event, flow: Flow[F]) -> F:
        """Run a flow in another thread than the request's; raises Stopped once the event is set."""
        return run(flow, partial(self._perform_until, stopped))

    def _perform_until(self, stopped: threading.Event, effect: Effect[object]) -> object:
        if isinstance(effect, Pause):
            stopped.wait(effect.pause_ms / 1000)
            answer = None
        else:
            answer = self.perform(effect)
        # Also after the effect: a claim that its own handler has ended meanwhile was not lost.
        if stopped.is_set():
            raise Stopped
        return answer

    def perform(self, effect: Effect[object]) -> object:
        """Perform one effect, blocking; its time is bounded by the stores."""
        sealer = self._settings.sealer
        match effect:
            case Acquire():
                return sealer.open_lock(self._lock.acquire(effect))
            case Release():
                # What becomes of it decides nothing, so no answer waits for it.
                self._lock.release_soon(sealer.seal_release(effect))
                return None
            case Claim():
                asked = self.lease.asked()
                answer = self._receipts.claim(effect)
                if isinstance(answer, Claimed):
                    self.lease.begin(asked, effect.lease_ms)
                return sealer.open_claim(answer)
            case Extend():
                return self._lock.extend(effect)
            case Renew():
                asked = self.lease.asked()
                held = self._receipts.renew(effect)
                if held:
                    self.lease.begin(asked, effect.lease_ms)
                return held
            case Finish():
                return self._receipts.finish(sealer.seal_finish(effect))
            case Abandon():
                return self._receipts.abandon(effect)
            case Begin() | Commit() | Rollback():
                return self._perform_in_transaction(effect)
            case Pause(pause_ms):
                time.sleep(pause_ms / 1000)
                return None
            case Emit(event):
                emit(self._settings, event)
                return None
            case _:
                raise TypeError(f"the server flow asked for {effect!r}")

    def _perform_in_transaction(self, effect: Begin | Commit | Rollback) -> bool | None:
        match effect:
            case Begin(id_):
                self.transaction = self._receipts.begin(id_)
                return None
            case Commit(finish):
                if self.transaction is None:
                    raise TypeError("commit without a transaction")
                return self.transaction.commit(self._settings.sealer.seal_finish(finish))
            case Rollback():
                if self.transaction is not None:
                    self.transaction.rollback()
                return None
            case _:
                assert_never(effect)

    def finish_in(self, connection: object, finish: Finish) -> bool:
        """Finish inside the handler's own transaction (see Receipts.finish_in)."""
        return self._receipts.finish_in(connection, self._settings.sealer.seal_finish(finish))
