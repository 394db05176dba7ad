"""The example for SQS credits each payment once, against moto's server, over HTTP."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import boto3
import psycopg
import pytest
from moto import server

from once.sqs_link import SqsLink
from replayfloor.server.stores.migrate import migrate
from support.sources import ROOT

EXAMPLE = ROOT / "examples" / "sqs_consumer.py"
SQSClient: TypeAlias = Any  # boto3 has no types.
START_S = 30.0
HIDDEN_S = 1
"""How long a message that was received is not delivered again."""


class Queue:
    """The queue, as its producer sees it, and the database of the consumers."""

    def __init__(self, sqs: SQSClient, database: str, folder: Path) -> None:
        self.sqs, self.database, self.folder = sqs, database, folder
        attributes = {"VisibilityTimeout": str(HIDDEN_S)}
        made = sqs.create_queue(QueueName="payments", Attributes=attributes)
        self.url = str(made["QueueUrl"])
        with psycopg.connect(database) as connection:
            connection.execute("create table ledger (payment text, amount_minor bigint)")

    def send(self, *payments: str) -> None:
        """Send payments."""
        for payment in payments:
            told = {"id": payment, "made": datetime.now(UTC).isoformat(), "amount_minor": 4200}
            self.sqs.send_message(QueueUrl=self.url, MessageBody=json.dumps(told))

    def left(self) -> int:
        """Return how many messages are in the queue, hidden or not."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        answer = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)
        return sum(int(answer["Attributes"][name]) for name in names)

    def until_empty(self) -> None:
        """Wait until every message was deleted."""
        until = time.monotonic() + START_S
        while self.left():
            assert time.monotonic() < until, f"{self.left()} messages are left\n{self.logs()}"
            time.sleep(0.05)

    def credits(self) -> Counter[str]:
        """Return how often each payment was credited."""
        with psycopg.connect(self.database) as reader:
            rows = reader.execute("select payment from ledger").fetchall()
        return Counter(str(payment) for (payment,) in rows)

    def logs(self) -> str:
        """Return what the consumers have logged."""
        return "\n".join(each.read_text() for each in self.folder.glob("*.log"))


@pytest.fixture
def queue(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Queue, SqsLink]]:
    migrate(postgres_url)
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_MAX_ATTEMPTS": "1",
    }.items():
        monkeypatch.setenv(name, value)
    sqs = boto3.client("sqs", endpoint_url=f"http://{host}:{port}")
    with SqsLink((host, port)).serving() as link:
        yield Queue(sqs, postgres_url, tmp_path), link
    sqs.close()
    running.stop()


@contextmanager
def consumer(queue: Queue, link: SqsLink, lock: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the example as its head says until the end of the block."""
    environment = {
        "QUEUE_URL": queue.url,
        "AWS_ENDPOINT_URL": link.url,
        "RECEIPTS": queue.database,
        "LOCK": lock,
        "LEASE_S": "2",
    }
    log = queue.folder / f"{time.monotonic_ns()}.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [sys.executable, str(EXAMPLE)],
            env={**os.environ, **environment},
            cwd=queue.folder,
            stderr=output,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def test_each_payment_is_credited_once_whatever_the_queue_and_the_consumers_do(
    queue: tuple[Queue, SqsLink], redis_url: str
) -> None:
    """A producer sends twice; a visibility timeout ends while a payment is in flight; and the
    consumer is killed when it has committed and not deleted the message."""
    payments, link = queue
    payments.send("pay_1", "pay_1", "pay_2")
    with consumer(payments, link, redis_url) as running:
        payments.until_empty()

        with psycopg.connect(payments.database) as holding:
            holding.execute("lock table ledger in share mode")
            payments.send("pay_3")
            link.wait_for("ChangeMessageVisibility", 1)
        payments.until_empty()

        def kill() -> bool:
            running.send_signal(signal.SIGKILL)
            return False

        link.before["DeleteMessage"] = kill
        payments.send("pay_4")
        assert running.wait(START_S) == -signal.SIGKILL

    credited = payments.credits()
    undeleted = payments.left()
    del link.before["DeleteMessage"]
    with consumer(payments, link, redis_url):
        payments.until_empty()

    assert credited == {"pay_1": 1, "pay_2": 1, "pay_3": 1, "pay_4": 1}
    assert undeleted == 1
    assert payments.credits() == credited
    assert "another consumer has it in flight" in payments.logs()
    assert payments.logs().count("it was applied before") >= 2
