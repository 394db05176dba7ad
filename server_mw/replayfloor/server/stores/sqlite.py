"""Blocking receipts in one SQLite file: real and durable, for one machine. Standard library only.

SQLite has one writer. A turn (a lock) decides on this process's side who that is: operations, or a
handler's transaction from its first statement to its end; a thread may begin that, and another end
it. Only other processes are waited for inside SQLite. Operations that arrive while others have the
turn share the next one, and its commit, which is the one wait for the disk.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar, cast
from weakref import WeakSet

from replayfloor.core.claims import Abandon, Claim, ClaimAnswer, Finish, Renew
from replayfloor.core.errors import ConfigurationError, StoreUnavailable
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.coalesce_threads import Coalescer, Take
from replayfloor.server.stores.policies import Declaration, Declared
from replayfloor.server.stores.policies_sqlite import declare_policy
from replayfloor.server.stores.sqlite_file import Database
from replayfloor.server.stores.sqlite_finish_in import finish_in
from replayfloor.server.stores.sqlite_together import Claiming, Finishing, each_of
from replayfloor.server.stores.sqlite_transaction import SQLiteTransaction
from replayfloor.server.stores.sqlite_work import (
    BUSY,
    ENTRIES_MAX,
    OPERATION_S,
    Work,
    end_claim,
    renew_claim,
)

T = TypeVar("T")

FORK_S = 1.0
"""How long a fork waits for its turn: longer than an operation takes, and short for who forks."""

DECLARATION: Final = b"declaration"
"""Stands for the id of a receipt in the queue: it is no receipt's, which are of 16 bytes."""

FORKED = (
    "the process was forked while a transaction was open on the file, and SQLite's locks were "
    "copied as they were: fork before the first request, or start the process anew (spawn, exec)"
)

_unusable: set[str] = set()
"""Paths of files whose locks were copied into this process by a fork."""

_abandoned: list[Database] = []
"""The parent's connections to them: closing one here could remove the log of a file in use."""


class SQLiteReceipts:
    """Claims and receipts in a SQLite file, which is created with its schema if it is missing.

    Args:
        path: the file. Its directory must exist and be writable, and be on a local disk.
        operation_s: seconds until an operation raises StoreUnavailable.
        clock: seconds since 1970. Processes that share the file share the machine's clock.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        operation_s: float = OPERATION_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Check the options; open nothing. Raises ConfigurationError."""
        if operation_s <= 0:
            raise ConfigurationError("operation_s must be positive")
        self._path, self._operation_s, self._clock = Path(path), operation_s, clock
        self._turn = threading.Lock()
        self._database = Database(self._path, operation_s)
        self._forking: int | None = None
        """The thread that has the turn until its fork is done."""
        self._operations: Coalescer[Work[object], object] = Coalescer(
            self._together, self._alone, entries_max=ENTRIES_MAX, limit_s=operation_s
        )
        _stores.add(self)

    def open(self) -> None:
        """Open or create the file."""
        self._take_turn()
        try:
            self._database.ready()
        finally:
            self._turn.release()

    def close(self) -> None:
        """Close the file, after whatever is using it."""
        if self._is_unusable():
            return  # the connection, if there is one, is the parent's
        self._take_turn()
        try:
            self._database.close()
        finally:
            self._turn.release()

    def claim(self, claim: Claim) -> ClaimAnswer:
        """See `replayfloor.core.claims.Claim`."""
        return self._write(claim.id, Claiming(claim, self.now_ms))

    def finish(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Finish`."""
        return self._write(finish.id, Finishing(finish, self.now_ms))

    def abandon(self, abandon: Abandon) -> bool:
        """See `replayfloor.core.claims.Abandon`."""
        return self._write(abandon.id, partial(end_claim, abandon=abandon))

    def renew(self, renew: Renew) -> bool:
        """See `replayfloor.core.claims.Renew`."""
        return self._write(renew.id, partial(renew_claim, renew=renew, now_ms=self.now_ms))

    def declare(self, declaration: Declaration) -> Declared:
        """See `replayfloor.server.stores.Receipts.declare`."""
        work = partial(declare_policy, declaration=declaration, now_ms=self.now_ms)
        return self._write(DECLARATION, work)

    def begin(self, _id: ReceiptId | None = None, /) -> SQLiteTransaction:
        """See `replayfloor.core.claims.Begin`; the write lock is taken with the first statement."""
        return SQLiteTransaction(self, self._operation_s)

    def finish_in(self, connection: object, finish: Finish) -> bool:
        """See `replayfloor.server.stores.Receipts.finish_in`.

        Takes a `sqlite3.Connection` to the store's file.
        """
        return finish_in(connection, finish, self.now_ms)

    # -- for the transaction ------------------------------------------------------------------

    def enter(self) -> sqlite3.Connection:
        """Take the turn and open a write transaction; `leave` has to follow."""
        self._take_turn()
        try:
            return self._database.begun()
        except BaseException:
            self._turn.release()
            raise

    def leave(self) -> None:
        """Give the turn back."""
        self._turn.release()

    def now_ms(self) -> int:
        """Return the store's time in ms since 1970."""
        return int(self._clock() * 1000)

    def _write(self, key: bytes, work: Work[T]) -> T:
        """Run `work` in a transaction that it may share with others; its commit is durable."""
        return cast("T", self._operations.ask(key, work))

    def _alone(self, work: Work[T], deadline: float) -> T:
        self._take_turn(deadline)
        try:
            return self._database.committed(work)
        finally:
            self._turn.release()

    def _together(self, take: Take[Work[object]], deadline: float) -> Sequence[object]:
        self._take_turn(deadline)
        try:
            return self._database.committed(each_of(take()))
        finally:
            self._turn.release()

    def _take_turn(self, deadline: float | None = None) -> None:
        if self._is_unusable():
            raise StoreUnavailable(FORKED, performed=False)
        left_s = self._operation_s if deadline is None else max(0.0, deadline - time.monotonic())
        if not self._turn.acquire(timeout=left_s):
            raise StoreUnavailable(BUSY, performed=False)

    # -- for a fork ---------------------------------------------------------------------------

    def pause(self) -> None:
        """Close the file before the process forks; it is opened again by whoever needs it.

        What SQLite remembers of its locks would be copied, and the locks would not: the child
        would write without any, or wait for a thread that it does not have. While a transaction is
        open nothing can be closed; then the child is not let near the file, not by another store.
        """
        if self._turn.acquire(timeout=FORK_S):
            # By thread, because two of them may fork at a time, and one wait in vain.
            self._forking = threading.get_ident()
            self._database.close()

    def resume(self) -> None:
        """Go on in the parent."""
        if self._forking == threading.get_ident():
            self._forking = None
            self._turn.release()

    def begin_anew(self) -> None:
        """Go on in the child: no thread that had the turn is here."""
        paused = self._forking == threading.get_ident()
        self._turn, self._forking = threading.Lock(), None
        if not paused:
            _unusable.add(os.path.realpath(self._path))
            _abandoned.append(self._database)

    def _is_unusable(self) -> bool:
        return bool(_unusable) and os.path.realpath(self._path) in _unusable


_stores: WeakSet[SQLiteReceipts] = WeakSet()


def _each(do: Callable[[SQLiteReceipts], None]) -> None:
    for store in list(_stores):
        do(store)


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(
        before=partial(_each, SQLiteReceipts.pause),
        after_in_parent=partial(_each, SQLiteReceipts.resume),
        after_in_child=partial(_each, SQLiteReceipts.begin_anew),
    )
