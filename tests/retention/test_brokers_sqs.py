"""SQS is read, not assumed: against moto's server, over HTTP."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import date
from typing import Any, TypeAlias

import boto3
import pytest
from moto import server

from replayfloor.core.errors import ConfigurationError
from replayfloor.retention import PolicyError
from replayfloor.retention.brokers import BrokerUnavailable
from replayfloor.retention.brokers_sqs import SQSClient, measure_sqs
from replayfloor.retention.terms import Confidence

TODAY = date(2026, 11, 30)
Client: TypeAlias = Any  # boto3 has no types.
MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture
def sqs(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Client:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_ENDPOINT_URL": endpoint,
    }.items():
        monkeypatch.setenv(name, value)
    return boto3.client("sqs")


_number = iter(range(10_000))


def make(sqs: Client, *, suffix: str = "", **attributes: str) -> str:
    name = f"orders-{next(_number)}{suffix}"
    return str(sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])


def make_with_dead_letters(
    sqs: Client,
    *,
    kept_s: float,
    dead_s: float,
    suffix: str = "",
    receives: int = 5,
) -> str:
    fifo = {"FifoQueue": "true"} if suffix else {}
    dead = make(sqs, suffix=suffix, MessageRetentionPeriod=f"{dead_s:.0f}", **fifo)
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"][
        "QueueArn"
    ]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": receives})
    return make(
        sqs,
        suffix=suffix,
        MessageRetentionPeriod=f"{kept_s:.0f}",
        VisibilityTimeout="120",
        RedrivePolicy=policy,
        **fifo,
    )


def test_a_message_comes_again_for_as_long_as_the_queue_keeps_it(sqs: Client) -> None:
    url = make(sqs, MessageRetentionPeriod=f"{7 * DAY_S:.0f}", VisibilityTimeout="45")
    window = measure_sqs(url, read_on=TODAY)

    assert window.seconds == 7 * DAY_S
    assert window.driver == "MessageRetentionPeriod"
    assert {each.name: each.value for each in window.settings} == {
        "MessageRetentionPeriod": "604800 s",
        "VisibilityTimeout": "45 s",
    }
    assert window.while_consumed_s is None
    term = window.term()
    assert term.provenance.confidence is Confidence.MEASURED
    assert term.provenance.read_on == TODAY
    assert url in term.provenance.source


def test_the_default_of_a_queue_is_four_days(sqs: Client) -> None:
    assert measure_sqs(make(sqs), read_on=TODAY).seconds == 4 * DAY_S


@pytest.mark.parametrize(("moves_back", "days"), [(0, 4), (1, 4 + 14), (2, 4 + 28)])
def test_a_dead_letter_that_is_moved_back_begins_anew(
    sqs: Client,
    moves_back: int,
    days: int,
) -> None:
    url = make_with_dead_letters(sqs, kept_s=4 * DAY_S, dead_s=14 * DAY_S)
    window = measure_sqs(url, read_on=TODAY, moves_back=moves_back)

    assert window.seconds == days * DAY_S
    assert ("and that of orders-" in window.driver) is (moves_back > 0)
    # Five receives of two minutes, if consumers run.
    assert window.while_consumed_s == 10 * MINUTE_S
    assert {each.name.split()[0] for each in window.settings} >= {"maxReceiveCount"}


def test_a_fifo_queues_dead_letters_are_kept_from_their_move_on(sqs: Client) -> None:
    url = make_with_dead_letters(sqs, kept_s=4 * DAY_S, dead_s=7 * DAY_S, suffix=".fifo")

    assert measure_sqs(url, read_on=TODAY).seconds == (4 + 7 + 4) * DAY_S


def test_receives_do_not_take_longer_than_the_message_lives(sqs: Client) -> None:
    url = make_with_dead_letters(sqs, kept_s=60, dead_s=DAY_S, receives=1000)

    assert measure_sqs(url, read_on=TODAY).while_consumed_s == 60


def test_a_dead_letter_queue_that_cannot_be_read_counts_as_the_longest(sqs: Client) -> None:
    url = make_with_dead_letters(sqs, kept_s=4 * DAY_S, dead_s=DAY_S)
    policy = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"])
    arn = json.loads(policy["Attributes"]["RedrivePolicy"])["deadLetterTargetArn"]
    sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName=arn.split(":")[-1])["QueueUrl"])
    window = measure_sqs(url, read_on=TODAY)

    assert window.seconds == (4 + 14) * DAY_S
    assert any("not readable" in each.value for each in window.settings)


def test_a_queue_that_is_not_there_is_told(sqs: Client, endpoint: str) -> None:
    del sqs
    with pytest.raises(ConfigurationError, match="there is no queue"):
        measure_sqs(f"{endpoint}/123456789012/nobody", read_on=TODAY)


def test_a_broker_that_does_not_answer_is_told(
    sqs: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del sqs
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    client: Client = boto3.client("sqs", endpoint_url="http://127.0.0.1:1")
    with pytest.raises(BrokerUnavailable, match="Could not connect"):
        measure_sqs("http://127.0.0.1:1/1/orders", read_on=TODAY, client=client)


def test_the_region_is_that_of_the_address(sqs: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    del sqs
    asked: list[object] = []

    def client(service: str, *, region_name: str | None) -> object:
        asked.append((service, region_name))
        raise StopIteration

    monkeypatch.setattr(boto3, "client", client)
    for url in (
        "https://sqs.us-east-2.amazonaws.com/1/q",
        "https://ap-south-1.queue.amazonaws.com/1/q",
        "http://127.0.0.1:4566/1/q",
    ):
        with pytest.raises(StopIteration):
            measure_sqs(url, read_on=TODAY)

    assert asked == [("sqs", "us-east-2"), ("sqs", "ap-south-1"), ("sqs", None)]


class Answering:
    """A client that answers with what no server of ours would."""

    def __init__(self, **attributes: str) -> None:
        self.attributes = {"MessageRetentionPeriod": "60", "VisibilityTimeout": "30"} | attributes

    def get_queue_attributes(self, **query: object) -> dict[str, object]:
        del query
        return {"Attributes": self.attributes}

    def get_queue_url(self, **query: object) -> dict[str, object]:
        del query
        return {"QueueUrl": "https://sqs.example/1/dead"}


@pytest.mark.parametrize(
    "attributes",
    [
        {"MessageRetentionPeriod": "long"},
        {"VisibilityTimeout": "-1"},
        {"RedrivePolicy": "{"},
        {"RedrivePolicy": "{}"},
        {"RedrivePolicy": '{"deadLetterTargetArn": "x", "maxReceiveCount": 1}'},
        {"RedrivePolicy": '{"deadLetterTargetArn": "arn:aws:sqs:r:1:q", "maxReceiveCount": 0}'},
    ],
)
def test_an_answer_that_is_not_understood_is_no_figure(attributes: dict[str, str]) -> None:
    client: SQSClient = Answering(**attributes)
    with pytest.raises(BrokerUnavailable):
        measure_sqs("https://sqs.example/1/q", read_on=TODAY, client=client)


def test_a_negative_number_of_moves_is_refused() -> None:
    with pytest.raises(PolicyError, match="moves_back"):
        measure_sqs("https://sqs.example/1/q", read_on=TODAY, client=Answering(), moves_back=-1)


def test_without_boto3_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)

    with pytest.raises(ConfigurationError, match="pip install boto3"):
        measure_sqs("https://sqs.example/1/q", read_on=TODAY)
