"""`replayfloor reconcile …`: the job that asks the user's function about every orphan."""

from __future__ import annotations

import logging
import signal
from dataclasses import dataclass
from typing import Annotated, cast

import anyio
import typer

from replayfloor.core.errors import StoreUnavailable, UsageError
from replayfloor.server.cli_common import (
    NOT_DONE,
    Url,
    complain,
    failures_as_exit_codes,
    load_object,
    say,
    start_log,
)
from replayfloor.server.cli_settle import CipherName
from replayfloor.server.reconcile import (
    OLDER_THAN_S,
    ORPHANS_PER_PASS,
    AsyncReconciler,
    Reconciled,
    Reconciler,
    async_reconcile,
)
from replayfloor.server.reconcile_perform import ANSWER_S, Threaded, is_async
from replayfloor.server.sealing import Cipher
from replayfloor.server.stores import AsyncReceipts, open_async_receipts
from replayfloor.server.stores.records import Records, open_records

EVERY_S_MIN = 1.0
"""Each pass asks the database for its orphans; more than once a second helps nobody."""

CLOSE_S = 5.0
"""How long closing the store may hold up the end of the command."""

log = logging.getLogger("replayfloor.server")


def reconcile(
    url: Url,
    *,
    reconciler_name: Annotated[
        str,
        typer.Option(
            "--with", help="The reconciler, as module:attribute: a function or an object."
        ),
    ],
    once: Annotated[bool, typer.Option("--once", help="Make one pass and end.")] = False,
    every: Annotated[
        float | None, typer.Option(min=EVERY_S_MIN, help="Make a pass every so many seconds.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Orphans per pass.")] = ORPHANS_PER_PASS,
    older_than_s: Annotated[
        float, typer.Option(min=0, help="Leave younger orphans to their owners.")
    ] = OLDER_THAN_S,
    answer_s: Annotated[
        float, typer.Option(help="Seconds the reconciler has for one orphan.")
    ] = ANSWER_S,
    cipher: CipherName = None,
) -> None:
    """Ask a reconciler what became of every orphan, and settle those it knows about.

    The reconciler is a function, blocking or asynchronous, that is given an Orphan and returns
    Applied(response), NotApplied() or StillUnknown(); see replayfloor.server.reconcile. SIGTERM
    ends the command after it has given back the orphan it is at.
    """
    with failures_as_exit_codes():
        if once == (every is not None):
            raise UsageError("say --once or --every SECONDS")
        start_log()
        job = Job(
            records=open_records(url),
            receipts=open_async_receipts(url),
            reconciler=_reconciler(reconciler_name),
            every_s=every,
            limit=limit,
            older_than_s=older_than_s,
            answer_s=answer_s,
            cipher=None if cipher is None else cast("Cipher", load_object(cipher)),
        )
        complete = anyio.run(job.run)
    if once and not complete:
        complain("Interrupted before the pass was complete.")
        raise typer.Exit(NOT_DONE)


def _reconciler(name: str) -> AsyncReconciler:
    """Return the reconciler as an asynchronous one. Raises UsageError for what is none."""
    found = load_object(name)
    if not callable(found) or isinstance(found, type):
        raise UsageError(f"{name} is not a reconciler: expected a function, or an object like one")
    reconciler = cast("AsyncReconciler | Reconciler", found)
    if is_async(reconciler):
        return cast("AsyncReconciler", reconciler)
    return Threaded(cast("Reconciler", reconciler))


@dataclass(frozen=True, slots=True)
class Job:
    """One run of the command: a pass, or passes until a signal comes."""

    records: Records
    receipts: AsyncReceipts
    reconciler: AsyncReconciler
    every_s: float | None
    limit: int
    older_than_s: float
    answer_s: float
    cipher: Cipher | None

    async def run(self) -> bool:
        """Make the passes; say whether they ended by themselves and not by a signal."""
        complete, failure = False, None
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_on_signal, group.cancel_scope)
            try:
                await self._passes()
                complete = True
            except Exception as error:  # noqa: BLE001 - raised below, outside the task group
                failure = error
            group.cancel_scope.cancel()
        with anyio.move_on_after(CLOSE_S):
            await self.receipts.close()
        if failure is not None:
            raise failure
        return complete

    async def _passes(self) -> None:
        while True:
            try:
                _tell(await self._one_pass())
            except StoreUnavailable as error:
                if self.every_s is None:
                    raise
                log.warning("the pass ended early, the next one goes on: %s", error)
            if self.every_s is None:
                return
            await anyio.sleep(self.every_s)

    async def _one_pass(self) -> Reconciled:
        return await async_reconcile(
            self.records,
            self.receipts,
            self.reconciler,
            limit=self.limit,
            older_than_s=self.older_than_s,
            answer_s=self.answer_s,
            cipher=self.cipher,
        )


async def _cancel_on_signal(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            log.info("%s: ending", number.name)
            scope.cancel()
            return


def _tell(done: Reconciled) -> None:
    say(
        f"applied {done.applied}, not applied {done.not_applied}, "
        f"unknown {done.unknown}, skipped {done.skipped}"
    )
