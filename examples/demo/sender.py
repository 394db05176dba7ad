"""The sender's process: sends each payment until it is answered, and can be killed at any moment.

What survives it are two files: the journal of the transport, with the key of every payment that
was begun, and the list of the answers that it has taken note of. A sender that starts again leaves
the answered ones alone and sends the others under the same operation ids.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx

from messages import REASON_LENGTH_MAX, Kind, Message, from_line, tell, to_line
from payments import Payment, load_payments
from processes import die_with_parent
from replayfloor.client import (
    AsyncIdempotentTransport,
    Profile,
    RetryPolicy,
    SQLiteJournal,
)
from replayfloor.client.budget import RetryBudget
from replayfloor.client.events import AttemptEnded, AttemptStarted, Event
from settings import (
    ATTEMPTS_MAX,
    PARALLEL,
    REQUEST_TIMEOUT_S,
    RETENTION_S,
    TIME_MAX_S,
    WAIT_MAX_S,
    WAIT_MIN_S,
)

PROFILE = Profile(name="payments-demo", retention_s=RETENTION_S)
RETRY = RetryPolicy(
    attempts_max=ATTEMPTS_MAX,
    wait_base_s=WAIT_MIN_S,
    wait_cap_s=WAIT_MAX_S,
    budget_s=TIME_MAX_S,
)
# Most requests of the demo meet a fault on purpose. In earnest the default is right: it keeps a
# provider that is down from being kept down by retries.
BUDGET = RetryBudget(capacity=1_000_000)


class Answers:
    """The answers taken note of, one a line, appended before anybody is told."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a+", encoding="utf-8")
        self._file.seek(0)
        whole = [line for line in self._file if line.endswith("\n")]
        self.known = {message.payment_id: message for message in map(from_line, whole)}

    def note(self, message: Message) -> None:
        """Keep an answer beyond this process."""
        self._file.write(to_line(message))
        self._file.flush()


def on_event(event: Event) -> None:
    """Pass on what the transport tells of its attempts."""
    match event:
        case AttemptStarted():
            tell(Message(kind=Kind.STARTED, payment_id=event.operation_id))
        case AttemptEnded():
            tell(
                Message(
                    kind=Kind.ENDED,
                    payment_id=event.operation_id,
                    status=event.status,
                    elapsed_s=event.elapsed_s,
                )
            )


async def send(client: httpx.AsyncClient, payment: Payment) -> Message:
    """Send one payment; the transport repeats it until it is answered."""
    try:
        response = await client.post(
            "/payments",
            json=payment.as_json(),
            extensions={"idempotency": {"operation_id": payment.id}},
        )
    except httpx.HTTPError as error:
        reason = f"{type(error).__name__}: {error}"[:REASON_LENGTH_MAX]
        return Message(kind=Kind.FAILED, payment_id=payment.id, reason=reason)
    told = response.extensions["idempotency"]
    return Message(
        kind=Kind.ANSWERED if response.status_code == httpx.codes.CREATED else Kind.FAILED,
        payment_id=payment.id,
        status=response.status_code,
        attempts=told.attempts,
        elapsed_s=told.elapsed_s,
        replayed=told.replayed,
        resumed=told.resumed,
        reason="" if response.is_success else response.text[:REASON_LENGTH_MAX],
    )


async def send_all(payments: list[Payment], url: str, journal: SQLiteJournal, kept: Path) -> None:
    """Send every payment that has no answer yet, the ones that were begun before first."""
    answers = Answers(kept)
    for known in answers.known.values():
        tell(known)
    begun = {entry.operation_id for entry in journal.pending()}
    todo = [payment for payment in payments if payment.id not in answers.known]
    todo.sort(key=lambda payment: payment.id not in begun)

    async def work(waiting: Iterator[Payment]) -> None:
        for payment in waiting:
            message = await send(client, payment)
            if message.kind is Kind.ANSWERED:
                answers.note(message)
            tell(message)

    transport = AsyncIdempotentTransport(
        profile=PROFILE, journal=journal, retry=RETRY, on_event=on_event, budget=BUDGET
    )
    async with httpx.AsyncClient(
        transport=transport, base_url=url, timeout=REQUEST_TIMEOUT_S
    ) as client:
        # One iterator for all: each worker takes the next payment from it.
        waiting = iter(todo)
        async with asyncio.TaskGroup() as workers:
            for _ in range(PARALLEL):
                workers.create_task(work(waiting))


def main() -> None:
    """Read the payments and send them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--payments", type=Path, required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--keep", type=Path, required=True, help="directory that outlives a kill")
    options = parser.parse_args()
    die_with_parent()
    keep: Path = options.keep
    journal = SQLiteJournal(keep / "journal.db")
    payments = load_payments(options.payments)
    asyncio.run(send_all(payments, options.url, journal, keep / "answers.jsonl"))
    journal.close()


if __name__ == "__main__":
    main()
