"""Invented operations for the report's tests: journal entries, and the lines of their attempts."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

from replayfloor.client.journal import Journal
from replayfloor.client.tail.cli import gather
from replayfloor.client.tail.report import Report, Terms
from replayfloor.client.tail.sources import expand
from replayfloor.core.fingerprint import Fingerprint
from replayfloor.core.journal import BeginOperation, JournalEntry, OperationState
from replayfloor.core.outcome import Outcome

S = 1_000_000_000
H = 3_600 * S
DAY = 24 * H
AT = 1_900_000_000 * S
"""Now, in every test."""
AT_TEXT = "2030-03-17T17:46:40Z"

RETENTION_S = 86_400.0
MARGIN_NS = 1_728 * S


def entry(
    operation_id: str,
    *,
    first_ago_s: float,
    sent_after_s: float = 0.0,
    state: OperationState = OperationState.DONE,
    attempts: int | None = None,
    attempts_ended: int | None = None,
    outcome: Outcome | None = None,
    provider: str = "shop",
    namespace: str | None = None,
    retention_s: float = RETENTION_S,
    elapsed_s: float | None = None,
    lease_until_ns: int = 0,
) -> JournalEntry:
    """Return an entry of an operation begun so long ago, and last sent so long after that."""
    first_ns = AT - int(first_ago_s * S)
    last_ns = first_ns + int(sent_after_s * S)
    made = attempts or (2 if sent_after_s else 1)
    elapsed_ns = int((sent_after_s if elapsed_s is None else elapsed_s) * S)
    ended = state is not OperationState.OPEN
    known = outcome if outcome is not None else (Outcome.DEFINITIVE if ended else Outcome.UNKNOWN)
    window_ns = int(retention_s * S) - MARGIN_NS if retention_s else 10 * 366 * DAY
    return JournalEntry(
        namespace=provider if namespace is None else namespace,
        operation_id=operation_id,
        key=f"key-{operation_id}",
        provider=provider,
        method="POST",
        origin="https://shop.example",
        path="/charges",
        fingerprint=Fingerprint(b"0" * 16),
        first_attempt_at_ns=first_ns,
        elapsed_ns=elapsed_ns,
        retention_s=retention_s,
        send_deadline_ns=first_ns + window_ns,
        attempts=made,
        attempts_ended=made if attempts_ended is None else attempts_ended,
        last_attempt_at_ns=last_ns,
        last_seen_at_ns=first_ns + max(elapsed_ns, last_ns - first_ns),
        worst=Outcome.UNKNOWN if state is OperationState.UNKNOWN_FINAL and not outcome else known,
        state=state,
        lease_owner=b"o" * 16 if lease_until_ns else b"",
        lease_until_ns=lease_until_ns,
    )


def fill(journal: Journal, entries: Iterable[JournalEntry]) -> None:
    """Insert entries as they are."""
    for each in entries:
        journal.begin(BeginOperation(each))


def line(
    event: str,
    operation_id: str,
    *,
    first_ago_s: float,
    elapsed_s: float = 0.0,
    attempt: int = 1,
    outcome: str = "UNKNOWN",
    provider: str = "shop",
    namespace: str | None = None,
    retention_s: float | None = RETENTION_S,
    **more: object,
) -> str:
    """Return a line of the telemetry, without its end."""
    fields = {
        "v": 1,
        "event": event,
        "call": "00" * 8,
        "at_ns": AT - int(first_ago_s * S) + int(elapsed_s * S),
        "provider": provider,
        "namespace": provider if namespace is None else namespace,
        "operation_id": operation_id,
        "method": "POST",
        "origin": "https://shop.example",
        "attempt": attempt,
        "elapsed_s": elapsed_s,
        "retention_s": retention_s,
        "outcome": outcome,
        "resumed": False,
        "status": None,
    }
    return json.dumps(fields | more)


def story(
    operation_id: str,
    sends_s: Iterable[float],
    *,
    first_ago_s: float,
    ending: str | None = "returned",
    provider: str = "shop",
    retention_s: float | None = RETENTION_S,
) -> Iterator[str]:
    """Yield the lines of an operation that was sent at those times after its first attempt."""

    def told(event: str, elapsed_s: float, attempt: int, outcome: str, **more: object) -> str:
        return line(
            event,
            operation_id,
            first_ago_s=first_ago_s,
            elapsed_s=elapsed_s,
            attempt=attempt,
            outcome=outcome,
            provider=provider,
            retention_s=retention_s,
            namespace=None,
            **more,
        )

    sends = list(sends_s)
    for number, sent_s in enumerate(sends, 1):
        before = "NOT_SENT" if number == 1 else "UNKNOWN"
        yield told("AttemptStarted", sent_s, number, before)
        yield told("AttemptLeft", sent_s, number, before)
        final = number == len(sends) and ending == "returned"
        outcome = "DEFINITIVE" if final else "UNKNOWN"
        yield told(
            "AttemptEnded",
            sent_s + 0.5,
            number,
            outcome,
            evidence="said",
            took_s=0.5,
            maybe_sent=True,
            in_flight=False,
            replayed=False,
        )
    if ending is not None:
        outcome = "DEFINITIVE" if ending == "returned" else "UNKNOWN"
        yield told("OperationEnded", sends[-1] + 0.5, len(sends), outcome, ending=ending)


def write(path: Path, lines: Iterable[str]) -> Path:
    """Write whole lines to a file."""
    path.write_text("".join(f"{each}\n" for each in lines), "utf-8")
    return path


def tails(seed: int, count: int, longest_s: float) -> Iterator[float]:
    """Yield times of last sends as they are in life: most at once, few after very long."""
    chance = random.Random(seed)
    for _ in range(count):
        yield 0.0 if chance.random() < 0.85 else min(chance.paretovariate(0.45), longest_s)


def gathered(*given: object, at_ns: int = AT) -> Report:
    """Return the report on some sources."""
    found = [each for text in given for each in expand(str(text))]
    return gather(found, Terms(at_ns=at_ns))
