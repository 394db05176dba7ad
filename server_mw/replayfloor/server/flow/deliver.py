"""What is delivered until it is acknowledged: the events of a webhook, and messages. Pure.

The signature comes first: whoever can send to the endpoint could otherwise use up the id of an
event that is still to come. Then each event is a key of its own.
"""

from __future__ import annotations

import hashlib
from typing import assert_never

from replayfloor.core.effects import Flow
from replayfloor.core.fingerprint import Fingerprint, ReceiptId, fingerprint, receipt_id
from replayfloor.core.problem import (
    BODY_TOO_LARGE,
    ProblemKind,
    invalid_signature,
    unidentified_event,
)
from replayfloor.core.values import frozen
from replayfloor.server.effects import BodyTooLarge, ClientGone, DeliveryRead, ReadDelivery, Verify
from replayfloor.server.flow.age import age_of_event
from replayfloor.server.flow.take import take
from replayfloor.server.flow.values import (
    Admission,
    Admitted,
    Call,
    Delivered,
    Gone,
    Refused,
    refusal,
)
from replayfloor.server.policy import Options
from replayfloor.server.webhooks.delivery import (
    Delivery,
    Event,
    InvalidSignature,
    UnidentifiedEvent,
)
from replayfloor.server.webhooks.key import WebhookKey


@frozen
class Received:
    """A delivery that is its sender's, and the events it tells of, in its order; maybe none."""

    delivery: Delivery
    events: tuple[Delivered, ...]


def receive(hook: WebhookKey) -> Flow[Received | Refused | Gone]:
    """Read a delivery, verify it, and find its events. Nothing is looked up or stored."""
    read = yield from ReadDelivery()
    match read:
        case ClientGone():
            return Gone()
        case BodyTooLarge():
            yield from refusal("", ProblemKind.BODY_TOO_LARGE, hook.source.name)
            return Refused(BODY_TOO_LARGE)
        case DeliveryRead(delivery):
            pass
        case _:
            assert_never(read)
    if hook.verify is not None:
        try:
            yield from Verify(hook.verify, delivery)
        except InvalidSignature as error:
            yield from refusal("", ProblemKind.INVALID_SIGNATURE, hook.source.name)
            return Refused(invalid_signature(str(error)))
    try:
        events, retried = hook.source.read(delivery)
    except UnidentifiedEvent as error:
        yield from refusal("", ProblemKind.UNIDENTIFIED_EVENT, hook.source.name)
        return Refused(unidentified_event(str(error)))
    name = hook.source.name
    return Received(delivery, tuple(Delivered(name, event, retried) for event in events))


def admit_delivered(call: Call, delivered: Delivered, options: Options) -> Flow[Admission]:
    """Decide whether the handler of one event is run."""
    event = delivered.event
    age = age_of_event(event.occurred_ms, call.now_ms, options)
    ticket = Admitted(
        receipt_of(call.namespace, call.principal, delivered),
        identity(event),
        call.fence,
        taken_over=False,
        age_ms=age.age_ms,
        past_horizon=age.past,
        delivered=delivered,
    )
    return (yield from take(ticket, options))


def receipt_of(namespace: str, principal: str | None, delivered: Delivered) -> ReceiptId:
    """Return the id of the receipt of an event, or a message, of its source."""
    return receipt_id(namespace, principal, f"{delivered.source}:{delivered.event.id}")


def identity(event: Event) -> Fingerprint:
    """Return what makes two deliveries deliveries of one event.

    Neither body nor headers count as such: a sender may change them from attempt to attempt (an
    attempt's number, its time, the state of the thing that the event is about).
    """
    compared = hashlib.sha256(event.compared).digest()
    return fingerprint(method="", path=b"", query=b"", content_type=b"", body=compared)
