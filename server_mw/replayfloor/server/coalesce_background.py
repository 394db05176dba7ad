"""A thread for what nobody else performs: what no caller waits for, or what would hold up a loop.

It is started when it is first needed, and ends when there was nothing to do for a while.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final, Generic, TypeVar

ItemT = TypeVar("ItemT")

IDLE_S: Final = 10.0
"""How long the thread waits for more. To start one takes longer than most of what it does."""

log = logging.getLogger("replayfloor.server")


class Background(Generic[ItemT]):
    """Calls `perform` with each item, in their order. One thread at most; a daemon, so that it
    keeps no process from ending."""

    def __init__(self, perform: Callable[[ItemT], None]) -> None:
        """Start nothing yet."""
        self._perform = perform
        self._items: SimpleQueue[ItemT] = SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def call(self, item: ItemT) -> bool:
        """Give an item to the thread; say whether there is one that will take it."""
        with self._starting:
            # A process that was forked has the object, and not the thread.
            if self._thread is None or not self._thread.is_alive():
                thread = threading.Thread(target=self._run, name="replayfloor-behind", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    # The system has no more threads, or the interpreter is ending.
                    log.exception("no thread could be started")
                    return False
                self._thread = thread
            self._items.put(item)
        return True

    def _run(self) -> None:
        while True:
            try:
                item = self._items.get(timeout=IDLE_S)
            except Empty:
                with self._starting:
                    if self._items.empty():
                        self._thread = None
                        return
                continue
            try:
                self._perform(item)
            except Exception:
                log.exception("what was performed in the background failed")
