"""The values that pass between the parts of the server flow, and the two steps they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from replayfloor.core.claims import Abandon, Fence
from replayfloor.core.effects import Effect, Flow
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.fingerprint import Fingerprint, ReceiptId
from replayfloor.core.problem import Problem, ProblemKind
from replayfloor.core.receipt import Receipt
from replayfloor.core.values import frozen
from replayfloor.server.effects import Captured, Emit
from replayfloor.server.events import EventKind, ServerEvent
from replayfloor.server.policy import Options
from replayfloor.server.webhooks.delivery import Event

STORE_RETRY_AFTER_S = 2
"""Retry-After of the 503: a Postgres restart takes a fraction of a second, a failover more; a
client backs off by itself after that."""


@frozen
class Delivered:
    """An event of `source`, which is delivered again until it is acknowledged.

    `retried`: the sender says that this is not its first attempt; None if it does not say.
    """

    source: str
    event: Event
    retried: bool | None = None


@frozen
class Call:
    """A request as far as it is known before its body.

    `key_lines` are the raw header values; `now_ms` is the time of its arrival and `first_sent_ms`
    what its sender says of the first attempt, both in ms since 1970. `delivered` is an event of a
    webhook, or a message: the key is its id then, and the request was read before.
    """

    key_lines: Sequence[bytes]
    namespace: str
    principal: str | None
    fence: Fence
    now_ms: int
    first_sent_ms: int | None = None
    delivered: Delivered | None = None


@frozen
class Admitted:
    """The handler is to be run, once, under this claim.

    `age_ms`: what the key or its sender tells, None if nothing. `past_horizon`: the key was used
    before, or may have been, and its receipt is gone. `delivered`: what the key was made of, if no
    client made it.
    """

    id: ReceiptId
    fingerprint: Fingerprint
    fence: Fence
    taken_over: bool
    age_ms: int | None = None
    past_horizon: bool = False
    delivered: Delivered | None = None


@frozen
class Unprotected:
    """No key was sent and none is required."""


@frozen
class Exposed:
    """Execute without a receipt, because the route prefers that to a refusal, and say so."""


@frozen
class Gone:
    """Nobody is left to answer; nothing was executed."""


@frozen
class Refused:
    """Answer with the problem; the handler was not run, or its effect was rolled back."""

    problem: Problem


@frozen
class Replayed:
    """Answer with the receipt. It is live for `left_ms` more; None if that is not known here."""

    receipt: Receipt
    left_ms: int | None = None


@frozen
class Answered:
    """Pass the handler's own answer on."""

    captured: Captured


@frozen
class Recorded:
    """Answer with a receipt as with a first answer: the handler has finished it itself, or an event
    past its horizon was acknowledged in its place."""

    receipt: Receipt


Admission: TypeAlias = Admitted | Unprotected | Exposed | Gone | Recorded | Refused | Replayed
Answer: TypeAlias = Answered | Recorded | Unprotected | Exposed | Gone | Refused | Replayed


def event(ticket: Admitted, kind: EventKind, detail: str = "") -> Effect[None]:
    """Return the effect that tells of something that happened to this key."""
    return Emit(told(ticket, kind, detail))


def told(ticket: Admitted, kind: EventKind, detail: str = "") -> ServerEvent:
    """Return what is told of something that happened to this key."""
    delivered = ticket.delivered
    if delivered is None:
        return ServerEvent(kind, ticket.id.hex(), detail)
    return ServerEvent(kind, ticket.id.hex(), detail, delivered.source, delivered.retried)


def refusal(receipt_id: str, kind: ProblemKind, source: str = "") -> Effect[None]:
    """Return the effect that tells of a refusal; the id is empty if no key could be read."""
    return Emit(ServerEvent(EventKind.REFUSED, receipt_id, kind.value, source))


def as_understood(refused: Refused, options: Options) -> Refused:
    """Say "later" by the status that the other side takes for it, where that is another."""
    later = options.busy_status is not None and refused.problem.kind in _LATER
    return Refused(replace(refused.problem, answered_as=options.busy_status)) if later else refused


_LATER = (ProblemKind.IN_FLIGHT, ProblemKind.OUTCOME_UNKNOWN)


def abandon(ticket: Admitted) -> Flow[None]:
    """Free the key. If the store is gone, the lease ends it; nothing else is lost."""
    try:
        yield from Abandon(ticket.id, ticket.fence)
    except StoreUnavailable as error:
        yield from event(ticket, EventKind.STORE_UNAVAILABLE, str(error))
