"""Runs the renewals of claims beside their handlers, in threads. For WSGI.

Most handlers end long before their first renewal is due. One thread waits for all of them; only a
handler that outlives that moment gets a thread of its own, for as long as it runs.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from math import inf

log = logging.getLogger("replayfloor.server")

Renew = Callable[[threading.Event], None]


class Stopped(BaseException):
    """Ends a renewal from inside its flow; not an error, so nothing there takes it for one."""


class LeaseKeeper:
    """The renewals of one claim: `renew` once the time has come, `on_lost` if it returns.

    `renew` is given an event that is set when the handler has ended, and raises Stopped then.
    """

    __slots__ = ("_alarm", "_has_ended", "_on_lost", "_renew", "_stopped")

    def __init__(
        self, alarm: Alarm, first_s: float, renew: Renew, on_lost: Callable[[], None]
    ) -> None:
        """Begin to wait for the first renewal."""
        self._alarm, self._renew, self._on_lost = alarm, renew, on_lost
        self._has_ended = False
        self._stopped: threading.Event | None = None
        alarm.set(first_s, self)

    def stop(self) -> None:
        """Renew no more. May be called again."""
        self._has_ended = True
        if self._stopped is not None:
            self._stopped.set()
        else:
            self._alarm.forget(self)

    def begin(self) -> None:
        """Renew from now on, in a thread of its own; called when the first renewal is due.

        The event is made here: most handlers have ended before. One that ends just now has either
        been noted as ended, which is looked at after the event is there, or sees the event.
        """
        stopped = self._stopped = threading.Event()
        if not self._has_ended:
            _start(partial(self._keep, stopped), "replayfloor-lease")

    def _keep(self, stopped: threading.Event) -> None:
        try:
            self._renew(stopped)
        except Stopped:
            return
        except Exception:
            # A defect of the store. The handler goes on; its finish is fenced in any case.
            log.exception("a lease could not be renewed")
        self._on_lost()


class Alarm:
    """Begins the renewals of any number of claims, each at its time.

    A process that was forked begins anew. Threads stay behind in the parent, and so may the thread
    that holds a lock, which is copied as held; so nothing that may be held is touched again.
    """

    def __init__(self) -> None:
        """Start no thread before there is something to wait for."""
        self._clocks: dict[int, _Clock] = {}

    def set(self, in_s: float, keeper: LeaseKeeper) -> None:
        """Call `keeper.begin` after a time."""
        self._clock().set(time.monotonic() + in_s, keeper)

    def forget(self, keeper: LeaseKeeper) -> None:
        """Do not call it any more."""
        self._clock().forget(keeper)

    def _clock(self) -> _Clock:
        pid = os.getpid()
        # Of threads that come here at once, all get the one that `setdefault` took.
        return self._clocks.get(pid) or self._clocks.setdefault(pid, _Clock())


class _Clock:
    """The keepers that wait in this process, and the thread that waits for them, if there are any.

    A dictionary that is searched rather than a heap: a keeper is taken out when its handler ends,
    so it holds the requests that are under way and no others.
    """

    def __init__(self) -> None:
        self._due: dict[LeaseKeeper, float] = {}
        # The lock itself is taken: the condition's own way to it is a call of Python's more.
        self._guard = threading.Lock()
        self._changed = threading.Condition(self._guard)
        self._wakes_at = inf
        self._running = False

    def set(self, at: float, keeper: LeaseKeeper) -> None:
        with self._guard:
            self._due[keeper] = at
            if not self._running:
                self._running = _start(self._run, "replayfloor-alarm")
            elif at < self._wakes_at:
                self._changed.notify()

    def forget(self, keeper: LeaseKeeper) -> None:
        with self._guard:
            self._due.pop(keeper, None)

    def _run(self) -> None:
        while due := self._wait():
            for keeper in due:
                keeper.begin()

    def _wait(self) -> list[LeaseKeeper]:
        """Return those whose time has come; none if there is nothing left to wait for."""
        with self._guard:
            while self._due:
                now = time.monotonic()
                due = [keeper for keeper, at in self._due.items() if at <= now]
                if due:
                    for keeper in due:
                        del self._due[keeper]
                    return due
                self._wakes_at = min(self._due.values())
                self._changed.wait(self._wakes_at - now)
            self._running = False
            return []


def _start(target: Callable[[], None], name: str) -> bool:
    """Start a thread that keeps no process from ending; say whether there is one."""
    try:
        threading.Thread(target=target, name=name, daemon=True).start()
    except RuntimeError:
        # The system has no more threads, or the interpreter is ending. The handler goes on; what
        # a lease that runs out costs is seen when it finishes.
        log.exception("a lease is not renewed: no thread could be started")
        return False
    return True
