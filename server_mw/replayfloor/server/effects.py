"""The effects of the server flow that are on no store: request, handler, time, events."""

from __future__ import annotations

from typing import TypeAlias

from replayfloor.core.effects import Effect
from replayfloor.core.fingerprint import Fingerprint
from replayfloor.core.message import Response
from replayfloor.core.receipt import Receipt
from replayfloor.core.values import frozen
from replayfloor.server.body_rules import DEFAULT_BODY_RULE, BodyRule
from replayfloor.server.events import ServerEvent
from replayfloor.server.webhooks.delivery import Delivery, Verifier


@frozen
class RequestRead:
    """The whole body is here, within the limit, since `at_ms` (ms since 1970; None: at once)."""

    fingerprint: Fingerprint
    at_ms: int | None = None


@frozen
class BodyTooLarge:
    """The body exceeds the limit; it was not read to its end."""


@frozen
class ClientGone:
    """The client closed the connection before the body was complete."""


RequestAnswer: TypeAlias = RequestRead | BodyTooLarge | ClientGone


@frozen
class ReadRequest(Effect[RequestAnswer]):
    """Read the body and make the fingerprint of the request, in which it counts by `rule`."""

    rule: BodyRule = DEFAULT_BODY_RULE


@frozen
class DeliveryRead:
    """A delivery is here as a whole."""

    delivery: Delivery


DeliveryAnswer: TypeAlias = DeliveryRead | BodyTooLarge | ClientGone


@frozen
class ReadDelivery(Effect[DeliveryAnswer]):
    """Read a request whole and keep it as it was received."""


@frozen
class Verify(Effect[None]):
    """Ask whether a delivery is its sender's. Raises InvalidSignature if not, or what the verifier
    raises."""

    verifier: Verifier
    delivery: Delivery


@frozen
class Captured:
    """The handler's answer. Unless it is `complete`, it is endless or exceeds the limit, and
    `response.body` is its beginning. `recorded` is the receipt that the handler has written in a
    transaction of its own (`claim.finish_in`), whatever became of that."""

    response: Response
    complete: bool = True
    recorded: Receipt | None = None


@frozen
class Execute(Effect[Captured]):
    """Run the handler until its answer is complete, or known to be too large. May raise."""


@frozen
class Pause(Effect[None]):
    """Let time pass without holding a thread or a connection."""

    pause_ms: int


@frozen
class Emit(Effect[None]):
    """Tell whoever listens. Never raises."""

    event: ServerEvent
