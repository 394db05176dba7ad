"""What a message is to the flow: an event of its queue, of which the broker tells no more."""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import Final, Required, TypedDict, cast

from replayfloor.core.claims import FENCE_BYTES, Fence
from replayfloor.core.errors import UsageError
from replayfloor.server import clock
from replayfloor.server.flow import Call, Delivered, deliver
from replayfloor.server.webhooks.delivery import Event

SOURCE_CHARACTERS_MAX: Final = 255
"""Of the name of a source: what RabbitMQ allows for a queue, and more than the other brokers do."""


class MessageOptions(TypedDict, total=False):
    """What `once` and `run` are told of a message, besides its id.

    source: whose ids they are, such as the name of the queue. Part of the key: two sources may use
        one id for two messages, and who changes the name applies what is in the queue again.
    occurred: when the message was made, with its time zone; None (default) if nothing tells. Never
        the time of an attempt, nor one that begins anew when a message is moved between queues.
    body: the message's bytes, if another message under the same id is to be refused instead of
        taken for a repetition. Give it always or never; and not where something on the way changes
        it. Default: None.
    retried: whether the broker says that this is not the first attempt; None (default) if it does
        not. Only counted, see `deliveries`.
    """

    source: Required[str]
    occurred: datetime | None
    body: bytes | None
    retried: bool | None


def delivered_of(
    message_id: str,
    *,
    source: str,
    occurred: datetime | None = None,
    body: bytes | None = None,
    retried: bool | None = None,
) -> Delivered:
    """Return a message as an event of its source. Raises UsageError."""
    _check_id(message_id)
    _check_source(source)
    if not isinstance(cast("object", body), bytes | None):
        raise UsageError(f"body: expected bytes, not {type(body).__name__}")
    compared = b"" if body is None else body
    return Delivered(source, Event(message_id, _milliseconds(occurred), compared), retried)


def call_of(namespace: str, delivered: Delivered) -> Call:
    """Return one attempt to apply a message, by a fence of its own."""
    return Call(
        key_lines=(),
        namespace=namespace,
        principal=_scope(delivered.source),
        fence=Fence(secrets.token_bytes(FENCE_BYTES)),
        now_ms=clock.wall_ms(),
        delivered=delivered,
    )


def receipt_of(namespace: str, delivered: Delivered) -> str:
    """Return the id of a message's receipt, as it is in logs and events."""
    return deliver.receipt_of(namespace, _scope(delivered.source), delivered).hex()


def _scope(source: str) -> str:
    """Return whose the ids are. The source is in it as a whole: a colon in it divides nothing."""
    return f"message/{source}"


def _check_id(message_id: object) -> None:
    # RabbitMQ and NATS deliver messages whose sender gave them no id. All of those would be one.
    if not isinstance(message_id, str) or not message_id:
        raise UsageError(
            f"message_id: expected a text, not {message_id!r}; for Kafka, say, "
            'f"{topic}/{partition}/{offset}", or better an id that the producer has chosen'
        )
    if not message_id.isascii():
        try:
            message_id.encode()
        except UnicodeEncodeError:
            raise UsageError("message_id: a text that is no Unicode") from None


def _check_source(source: object) -> None:
    named = isinstance(source, str) and 0 < len(source) <= SOURCE_CHARACTERS_MAX
    if not named or not str(source).isprintable():
        raise UsageError(
            f"source={source!r}: expected the name of a queue, topic or stream, printable and of "
            f"at most {SOURCE_CHARACTERS_MAX} characters"
        )


def _milliseconds(occurred: object) -> int | None:
    if occurred is None:
        return None
    if not isinstance(occurred, datetime) or occurred.tzinfo is None:
        raise UsageError(f"occurred: expected a datetime with a time zone, not {occurred!r}")
    return round(occurred.timestamp() * 1000)
