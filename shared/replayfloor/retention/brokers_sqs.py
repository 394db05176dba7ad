"""Amazon SQS: reads a queue's settings, and those of its dead-letter queue, through boto3.

A message may be handed out for as long as the queue keeps it: how often it may be received ends
nothing, because consumers may be away between two receives. A message that was moved to the
dead-letter queue can be moved back, and is then kept anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from importlib import import_module
from types import ModuleType
from typing import Final, Protocol, cast

from replayfloor.core.errors import ConfigurationError
from replayfloor.retention.brokers import (
    BrokerUnavailable,
    Setting,
    Window,
    check_moves_back,
    whole_number,
)
from replayfloor.retention.durations import in_words

RETENTION_MAX_S: Final = 14 * 86_400.0
"""The longest that SQS keeps a message. It counts for a dead-letter queue that may not be read."""

_KEPT, _VISIBILITY, _REDRIVE = "MessageRetentionPeriod", "VisibilityTimeout", "RedrivePolicy"
_FIFO: Final = "FifoQueue"
_ARN: Final = re.compile(r"arn:[^:]+:sqs:(?P<region>[^:]*):(?P<account>[^:]*):(?P<name>[^:]+)")
_REGION: Final = re.compile(r"https://(?:sqs\.([a-z0-9-]+)|([a-z0-9-]+)\.queue)\.amazonaws\.")
_GONE: Final = frozenset({"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"})


class SQSClient(Protocol):
    """What is asked of boto3's client."""

    def get_queue_attributes(self, **query: object) -> Mapping[str, object]:
        """Return {"Attributes": {name: text}}."""
        ...

    def get_queue_url(self, **query: object) -> Mapping[str, object]:
        """Return {"QueueUrl": text}."""
        ...


def measure_sqs(
    queue_url: str, *, read_on: date, client: SQSClient | None = None, moves_back: int = 1
) -> Window:
    """Return how long a queue may hand out a message again.

    Args:
        queue_url: the address of the queue.
        read_on: today, which stands beside the figure.
        client: a client of boto3 for SQS; default: one made from the environment, as usual.
        moves_back: how often a person moves one message from the dead-letter queue back.

    Raises ConfigurationError if boto3 is not installed, or there is no such queue, and
    BrokerUnavailable if SQS did not answer.
    """
    check_moves_back(moves_back)
    asked = _Asked(client or _client(queue_url))
    main = asked.attributes(queue_url)
    kept_s, hidden_s = (float(whole_number(name, main.get(name))) for name in (_KEPT, _VISIBILITY))
    redrive = _redrive(main.get(_REDRIVE))
    moved = _Moved()
    if redrive is not None:
        is_fifo = main.get(_FIFO) == "true"
        moved = _moved(redrive, asked.dead_letters(redrive), kept_s, moves_back, is_fifo=is_fifo)
    return Window(
        broker="SQS",
        queue=queue_name(queue_url),
        seconds=kept_s + moved.seconds,
        driver=f"{_KEPT}{moved.driver}",
        settings=(
            Setting(_KEPT, f"{kept_s:.0f} s", "for that long a message is handed out"),
            Setting(_VISIBILITY, f"{hidden_s:.0f} s", "after that it comes again, by default"),
            *moved.settings,
        ),
        reasons=(
            "a message that is not deleted comes again until the queue drops it, "
            f"{in_words(kept_s)} after it was sent",
            *moved.reasons,
        ),
        unbounded=(),
        while_consumed_s=None if redrive is None else min(redrive.receives_max * hidden_s, kept_s),
        source=f"GetQueueAttributes of {queue_url}",
        read_on=read_on,
    )


def queue_name(queue_url: str) -> str:
    """Return the last part of a queue's address."""
    return queue_url.rstrip("/").rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class _Redrive:
    region: str
    account: str
    name: str
    receives_max: int


@dataclass(frozen=True, slots=True)
class _Moved:
    """What it adds that dead letters are moved back."""

    seconds: float = 0.0
    driver: str = ""
    settings: tuple[Setting, ...] = ()
    reasons: tuple[str, ...] = ()


def _moved(
    redrive: _Redrive, dead: tuple[float, str], kept_s: float, moves_back: int, *, is_fifo: bool
) -> _Moved:
    """Return it; a message that is moved back is a new one, with the queue's whole retention.

    A standard queue's dead letters are dropped by the time they were first sent, a FIFO queue's by
    the time they were moved (Amazon SQS Developer Guide, on the retention of dead letters).
    """
    dead_s, told = dead
    round_s = kept_s + dead_s if is_fifo else dead_s
    since = "it was moved there" if is_fifo else "it was first sent"
    settings = (
        Setting("maxReceiveCount", str(redrive.receives_max), "then it becomes a dead letter"),
        Setting(f"{_KEPT} of {redrive.name}", told, f"a dead letter is kept, since {since}"),
    )
    if not moves_back:
        reason = "dead letters are never moved back, by your word (moves_back = 0)"
        return _Moved(settings=settings, reasons=(reason,))
    times = "once" if moves_back == 1 else f"{moves_back} times"
    return _Moved(
        moves_back * round_s,
        f" and that of {redrive.name}",
        settings,
        (
            f"a dead letter that is moved back {times} begins anew, up to "
            f"{in_words(moves_back * round_s)} later",
            "it then has another message id: take the key from the message itself",
            f"whoever moves it back once more adds {in_words(round_s)}",
        ),
    )


def _redrive(text: object) -> _Redrive | None:
    if text is None:
        return None
    try:
        policy = cast("Mapping[str, object]", json.loads(str(text)))
        match = _ARN.fullmatch(str(policy["deadLetterTargetArn"]))
        receives_max = whole_number("maxReceiveCount", policy["maxReceiveCount"], least=1)
    except (ValueError, KeyError, TypeError) as error:
        raise BrokerUnavailable(f"{_REDRIVE} is {text!r}, which is not understood") from error
    if match is None:
        raise BrokerUnavailable(f"{_REDRIVE} is {text!r}: its target is no queue")
    return _Redrive(match["region"], match["account"], match["name"], receives_max)


@dataclass(frozen=True, slots=True)
class _Asked:
    client: SQSClient

    def attributes(self, url: str) -> Mapping[str, object]:
        """Return the attributes of a queue."""
        refused, failed = _errors()
        try:
            answer = self.client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
        except refused as error:
            if _code(error) in _GONE:
                raise ConfigurationError(f"there is no queue {url}") from error
            raise BrokerUnavailable(f"{url}: {error}") from error
        except failed as error:
            raise BrokerUnavailable(f"{url}: {error}") from error
        return cast("Mapping[str, object]", answer.get("Attributes", {}))

    def dead_letters(self, redrive: _Redrive) -> tuple[float, str]:
        """Return how long dead letters are kept, in seconds and as text."""
        try:
            found = self.client.get_queue_url(
                QueueName=redrive.name, QueueOwnerAWSAccountId=redrive.account
            )
            kept = self.attributes(str(found["QueueUrl"])).get(_KEPT)
        except (*_errors(), BrokerUnavailable, ConfigurationError):
            return RETENTION_MAX_S, f"not readable: {in_words(RETENTION_MAX_S)}, the most there is"
        kept_s = float(whole_number(_KEPT, kept))
        return kept_s, f"{kept_s:.0f} s"


def _client(queue_url: str) -> SQSClient:
    boto3, (_, core_error) = _module("boto3"), _errors()
    match = _REGION.match(queue_url)
    region = (match[1] or match[2]) if match else None
    try:
        # The address names the region; without one the environment does.
        return cast("SQSClient", boto3.client("sqs", region_name=region))
    except core_error as error:
        raise ConfigurationError(f"{queue_url}: {error}") from error


def _errors() -> tuple[type[Exception], type[Exception]]:
    """Return what an answer that refuses is raised as, and everything else that went wrong."""
    exceptions = _module("botocore.exceptions")
    return exceptions.ClientError, exceptions.BotoCoreError


def _module(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        raise ConfigurationError("measuring SQS needs boto3: pip install boto3") from error


def _code(error: Exception) -> str:
    response = cast("Mapping[str, Mapping[str, object]]", getattr(error, "response", {}))
    return str(response.get("Error", {}).get("Code", ""))
