"""Why an outcome may be unknown, and why an answer that was given may not have been kept.

Both are allowed, and only if something happened to that very key: its worker was killed or stood
still while it executed, or Postgres was away. Otherwise they are violations.
"""

from __future__ import annotations

from collections.abc import Iterator

from chaos.book import POSTGRES, Book, Operation, Struck
from chaos.evidence import Evidence
from chaos.plan import LEASE_S, Blow
from chaos.trail import BEGUN, STALLED, Note
from replayfloor.server.events import EventKind

AFTERMATH_S = 12.0
"""For so long after a blow at Postgres a receipt may still be found lost: the patience of a worker
with two attempts, and the recovery of the database."""

LINGER_S = 2.5
"""A delayed request, or a second copy of one, arrives this much after its client gave up."""

STALL_MIN_S = LEASE_S / 3
"""A worker that does not run for one period of renewals may lose its lease."""

WORKER_BLOWS = frozenset({Blow.WORKER_KILLED, Blow.WORKER_STOPPED})
SETTLED = frozenset({EventKind.FINISHED.value, EventKind.FREED.value})


def why_not_kept(operation: Operation, book: Book, evidence: Evidence) -> str | None:
    """Return why the receipt of an acknowledged answer may be missing; None if it may not.

    A handler that cannot be rolled back has acted, and its answer is the truth, so it goes out
    although Postgres is away for longer than the worker tries. The worker reports that.
    """
    for note in evidence.noted(operation.receipt):
        if note.what == EventKind.RECEIPT_LOST.value and any(
            struck.began <= note.at <= struck.ended + AFTERMATH_S
            for struck in book.struck
            if struck.strike.blow in POSTGRES
        ):
            return "Postgres was away when it was to be kept, and the worker has said so"
    return None


def why_unknown(operation: Operation, book: Book, evidence: Evidence) -> str | None:
    """Return what made the outcome of a payment unknown; None if nothing did."""
    told_at = min(answer.at for answer in (*operation.answers, *operation.final) if answer.unknown)
    notes = [note for note in evidence.noted(operation.receipt) if note.at <= told_at]
    return next(_reasons(operation, notes, told_at, book, evidence), None)


def _reasons(
    operation: Operation, notes: list[Note], told_at: float, book: Book, evidence: Evidence
) -> Iterator[str]:
    said = {note.what for note in notes}
    if EventKind.LEFT_ORPHANED.value in said:
        yield "cancelled"
    executions = [note for note in notes if note.what == BEGUN]
    for struck in book.struck:
        if struck.began > told_at:
            continue
        if any(_hit(struck, execution, notes) for execution in executions):
            yield str(struck.strike.blow)
        if not executions and _hit_before_execution(struck, operation):
            yield f"{struck.strike.blow}, between claim and handler"
    if said & {EventKind.RECEIPT_LOST.value, EventKind.STORE_UNAVAILABLE.value}:
        yield "Postgres away"
    if any(
        struck.strike.blow in POSTGRES and struck.ended + LEASE_S >= execution.at
        for struck in book.struck
        for execution in executions
        if struck.began <= told_at
    ):
        yield "Postgres away for a lease"
    if any(_stalled(note, executions, told_at) for note in evidence.noted("")):
        yield "the machine kept the worker from running"


def _hit(struck: Struck, execution: Note, notes: list[Note]) -> bool:
    """Say whether a worker was struck between the beginning and the end of an execution."""
    if struck.strike.blow not in WORKER_BLOWS or execution.pid not in struck.pids:
        return False
    settled_at = [note.at for note in notes if note.pid == execution.pid and note.what in SETTLED]
    return execution.at <= struck.ended and all(at >= struck.began for at in settled_at)


def _hit_before_execution(struck: Struck, operation: Operation) -> bool:
    return struck.strike.blow in WORKER_BLOWS and any(
        attempt.worker == struck.strike.worker
        and attempt.at <= struck.ended
        and struck.began <= attempt.ended_at + LINGER_S
        for attempt in operation.attempts
    )


def _stalled(note: Note, executions: list[Note], told_at: float) -> bool:
    if note.what != STALLED or float(note.detail) < STALL_MIN_S:
        return False
    return any(
        note.pid == execution.pid and execution.at <= note.at <= told_at + float(note.detail)
        for execution in executions
    )
