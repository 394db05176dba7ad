"""The maintenance as a part of the application: a thread per worker, of which one does the work.

    Maintenance("postgresql://…", retention=policy).start()

Which one is settled in the database, by an advisory lock and the time of the last run, so that any
number of workers on any number of machines may run it. What is done, and when it was done last, is
in the table replayfloor.maintenance; `on_run` is told of each run of this worker.
"""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Final

from replayfloor.core.errors import ConfigurationError, IdempotencyError
from replayfloor.retention import InboundPolicy
from replayfloor.server.options import RetentionOption
from replayfloor.server.shield import in_thread
from replayfloor.server.stores.maintenance import Keeping, Outcome, Run, keeping_of
from replayfloor.server.stores.maintenance_open import maintain_once

EVERY_S: Final = 600.0
"""How often a run is due: what has expired goes soon, a worker that died in one is made up for, and
a look at the catalogue that finds nothing to do takes milliseconds."""

EVERY_S_MIN: Final = 1.0

JITTER: Final = 0.2
"""By which share of the interval each wait differs, so that workers do not all ask at once."""

STOP_S: Final = 5.0
"""How long the end of a worker waits for a run; one that is cut off is repeated by the next."""

log = logging.getLogger("replayfloor.server")

OnRun = Callable[[Run], None]


class Maintenance:
    """Runs the maintenance in a thread from `start` to `stop`. Both may be repeated.

    Args:
        url: of the receipts.
        retention, policy, audit_retention: as the middleware has them.
        every_s: how often a run is due, in seconds, all workers taken together.
        on_run: called with each Run of this worker, in its thread; also with one that failed.
        random: a number from 0 to 1, for the jitter.
    """

    def __init__(
        self,
        url: str,
        *,
        retention: RetentionOption = None,
        policy: InboundPolicy | None = None,
        audit_retention: timedelta | float | None = None,
        every_s: float = EVERY_S,
        on_run: OnRun | None = None,
        random: Callable[[], float] = random.random,
    ) -> None:
        """Check the options; connect nothing. Raises ConfigurationError."""
        if every_s < EVERY_S_MIN:
            raise ConfigurationError(f"every_s must be at least {EVERY_S_MIN:g}")
        self._url = url
        self._keeping = keeping_of(retention, policy, audit_retention)
        self._every_s, self._on_run, self._random = every_s, on_run, random
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._process = 0
        self._last: Run | None = None

    @property
    def keeping(self) -> Keeping:
        """What is kept for how long."""
        return self._keeping

    @property
    def last(self) -> Run | None:
        """The last run of this worker, or the last that failed; None before the first."""
        return self._last

    def start(self) -> None:
        """Start the thread, unless it runs in this process.

        After a fork the child has no thread, whatever the parent had: call it again there.
        """
        if self._thread is not None and self._process == os.getpid():
            return
        if self._process not in (0, os.getpid()):
            self._lock = threading.Lock()  # a thread that held it is not here
        with self._lock:
            if self._thread is not None and self._process == os.getpid():
                return
            self._process, self._stopping = os.getpid(), threading.Event()
            self._thread = threading.Thread(
                target=self._run,
                args=(self._stopping,),
                name="replayfloor-maintenance",
                daemon=True,
            )
            self._thread.start()

    def stop(self, timeout_s: float = STOP_S) -> bool:
        """End the thread; say whether it has ended within the time."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._stopping.set()
        if thread is None or self._process != os.getpid():
            return True
        thread.join(timeout_s)
        return not thread.is_alive()

    def run_once(self, every_s: float = 0.0) -> Run:
        """Run it now, here, unless the last run began within `every_s`.

        Raises ConfigurationError, SchemaMissing, StoreUnavailable, and errors of the database.
        """
        run = maintain_once(self._url, self._keeping, by=_name(), every_s=every_s)
        if run.outcome not in (Outcome.BUSY, Outcome.NOT_DUE):
            self._tell(run)
        return run

    def __enter__(self) -> Maintenance:
        """Start it."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop it."""
        self.stop()

    def _run(self, stopping: threading.Event) -> None:
        # The first look comes soon: a deployment that starts after a pause may have much to do.
        wait_s = JITTER * min(self._every_s, EVERY_S) * self._random() / 10
        while not stopping.wait(wait_s):
            self._try()
            wait_s = self._every_s * (1 - JITTER + 2 * JITTER * self._random())

    def _try(self) -> None:
        try:
            self.run_once(self._every_s * (1 - JITTER))
        except Exception as error:  # noqa: BLE001 - the next run may fare better, whatever it was
            kind = "" if isinstance(error, IdempotencyError) else f"{type(error).__name__}: "
            self._tell(Run(Outcome.FAILED, by=_name(), detail=f"{kind}{error}"))

    def _tell(self, run: Run) -> None:
        self._last = run
        if run.outcome is Outcome.DONE:
            if run.made or run.dropped or run.removed:
                log.info(
                    "maintenance: %d partitions made, %d dropped, %d receipts deleted",
                    run.made,
                    run.dropped,
                    run.removed,
                )
        else:
            log.error("maintenance %s: %s", run.outcome, run.detail)
        if self._on_run is not None:
            try:
                self._on_run(run)
            except Exception:
                log.exception("on_run raised")


class AsyncMaintenance:
    """The same for the lifespan of an ASGI application: `await start()`, `await stop()`.

    The work is blocking, rare and long, so it has a thread of its own here too, and none of the
    event loop's.
    """

    def __init__(self, maintenance: Maintenance) -> None:
        """Take over when it starts and stops."""
        self.maintenance = maintenance

    async def start(self) -> None:
        """Start the thread; returns at once."""
        self.maintenance.start()

    async def stop(self, timeout_s: float = STOP_S) -> bool:
        """End the thread without holding up the event loop; say whether it ended in time."""
        return await in_thread(partial(self.maintenance.stop, timeout_s))

    async def __aenter__(self) -> AsyncMaintenance:
        """Start it."""
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop it."""
        await self.stop()


def _name() -> str:
    """Return who did it, for the record: a person has to find the worker's log."""
    return f"{socket.gethostname()}/{os.getpid()}"
