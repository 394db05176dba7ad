"""Payments from an SQS queue, each credited once, however often the queue delivers it.

    replayfloor migrate postgresql://localhost/shop
    QUEUE_URL=https://sqs.eu-west-1.amazonaws.com/123456789012/payments \\
    RECEIPTS=postgresql://localhost/shop LOCK=redis://localhost python examples/sqs_consumer.py

SQS delivers a message again whenever it was not deleted in time: the consumer was slow, or it died
after its commit. And a producer that is not sure sends a message twice, which are two messages to
SQS. The row in the ledger and the receipt are one commit, so it does not matter at which moment
this process is killed; it stops when it is.

A message is JSON: {"id": "pay_1", "made": "2026-11-30T12:00:00+00:00", "amount_minor": 4200}.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias

import boto3
import psycopg

from replayfloor.core.errors import StoreUnavailable
from replayfloor.retention import InboundPolicy
from replayfloor.retention.brokers_sqs import measure_sqs
from replayfloor.server.once import AlreadyApplied, AsyncGuard, OutcomeNotKnown, StillInFlight

QUEUE_URL = os.environ["QUEUE_URL"]
RECEIPTS = os.environ["RECEIPTS"]  # in the application's own database
LOCK = os.environ.get("LOCK", "local")  # "local" for one process, redis://… for several
LEASE_S = float(os.environ.get("LEASE_S", "30"))
AT_ONCE = 4  # each of them holds a thread while it waits for a message
POLL_S = 20  # the longest that SQS lets a receiver wait for a message

# No unique constraint, on purpose: nothing but the guard prevents a second row here.
CREATE = "create table if not exists ledger (payment text not null, amount_minor bigint not null)"
CREDIT = "insert into ledger values (%(id)s, %(amount_minor)s)"

SQSClient: TypeAlias = Any  # boto3 has no types

log = logging.getLogger("sqs_consumer")


def policy(sqs: SQSClient) -> InboundPolicy:
    """Return for how long a payment is remembered, and why.

    For as long as the queue may deliver it again, which is read from its settings and those of its
    dead-letter queue, and the longest time for which we plan to be away.
    """
    window = measure_sqs(QUEUE_URL, read_on=datetime.now(UTC).date(), client=sqs)
    return InboundPolicy("payments", broker_redelivery=window.term(), planned_outage="2d")


@dataclass(frozen=True)
class Consumer:
    """Takes payments from the queue, one at a time; several of them may run."""

    guard: AsyncGuard
    sqs: SQSClient

    async def run(self) -> None:
        """Take payments until the process is ended."""
        while True:
            received = await self._call(
                "receive_message",
                WaitTimeSeconds=POLL_S,
                MessageSystemAttributeNames=["ApproximateReceiveCount"],
            )
            for message in received.get("Messages", []):
                try:
                    await self.take(message)
                except Exception:
                    # It comes again, and after some times becomes a dead letter, as SQS is told to.
                    log.exception("a message was not taken")

    async def take(self, message: Mapping[str, Any]) -> None:
        """Credit a payment, unless that was done, and delete its message."""
        payment = json.loads(message["Body"])
        handle = message["ReceiptHandle"]
        try:
            # The payment's own id, not the message's: that changes when the producer sends again,
            # and when a person moves a message back from the dead-letter queue.
            async with self.guard.once(
                payment["id"],
                source="payments",
                occurred=datetime.fromisoformat(payment["made"]),
                retried=int(message["Attributes"]["ApproximateReceiveCount"]) > 1,
            ) as claim:
                await claim.connection.execute(CREDIT, payment)
        except AlreadyApplied as applied:
            log.info("%s", applied)
        except (StillInFlight, OutcomeNotKnown) as busy:
            # Not deleted: whoever has it may fail. It comes again when it is worth to ask.
            log.info("%s", busy)
            await self._call(
                "change_message_visibility",
                ReceiptHandle=handle,
                VisibilityTimeout=busy.retry_after_s,
            )
            return
        except StoreUnavailable as away:
            log.warning("%s", away)  # it comes again when its visibility timeout has ended
            return
        await self._call("delete_message", ReceiptHandle=handle)

    async def _call(self, operation: str, **arguments: object) -> Mapping[str, Any]:
        """Call SQS in a thread: boto3 blocks."""
        work: Callable[..., Mapping[str, Any]] = getattr(self.sqs, operation)
        return await asyncio.to_thread(partial(work, QueueUrl=QUEUE_URL, **arguments))


async def main() -> None:
    """Consume until the process is ended."""
    sqs = boto3.client("sqs")
    async with await psycopg.AsyncConnection.connect(RECEIPTS) as connection:
        await connection.execute(CREATE)
    guard = AsyncGuard(
        receipts=RECEIPTS,
        lock=LOCK,
        lease_s=LEASE_S,
        # Refused here if it were below the policy's floor, and below if an earlier deployment has
        # promised more.
        retention=await asyncio.to_thread(policy, sqs),
        effects="atomic",
    )
    async with guard, asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(Consumer(guard, sqs).run())


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(main())
