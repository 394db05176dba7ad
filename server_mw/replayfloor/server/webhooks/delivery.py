"""A webhook as it arrives, what it tells of, and how a verifier refuses it. Values; no I/O.

A *delivery* is one HTTP request of a sender. It tells of one *event*, or of several (a batch). The
event is what may be applied once: a sender delivers it again, with the same event id, until it gets
a 2xx, and people have it delivered again by hand.
"""

from __future__ import annotations

from collections.abc import Callable

from replayfloor.core.errors import ConfigurationError, IdempotencyError
from replayfloor.core.message import Headers, get_first
from replayfloor.core.values import frozen


class InvalidSignature(IdempotencyError):
    """A delivery is not from whom it says, or cannot be shown to be. The text names no secret."""


class UnidentifiedEvent(IdempotencyError):
    """A delivery does not tell which event it is of. The text says what was looked for, where."""


class NoEventId(ConfigurationError):
    """A sender gives its events no id, so that a redelivery cannot be told from a new event."""


@frozen
class Delivery:
    """One request of a sender, body included.

    Attributes:
        method, path, query: as in RequestHead; `path` is without the query.
        headers: lower-case names and raw values, in order, repetitions kept.
        body: as it was received; what a signature covers.
        received_ms: when it was complete, in ms since 1970, by this host's clock.
    """

    method: str
    path: bytes
    query: bytes
    headers: Headers
    body: bytes
    received_ms: int

    def header(self, name: str) -> str | None:
        """Return the first line of a header as text, or None; `name` in any case."""
        value = get_first(self.headers, name.lower().encode("latin-1"))
        return None if value is None else value.decode("latin-1")


@frozen
class Event:
    """One event that a delivery tells of.

    Attributes:
        id: what every delivery of this event repeats, and no other event of its source has.
        occurred_ms: when the event was created, in ms since 1970; None if the sender does not say.
            Never the time of an attempt.
        compared: stands for what all deliveries of one event share. A delivery that has another
            under the same id is refused (422) instead of taken for a repetition.
        subject: what the event is about, where order within one subject matters; None if it does
            not.
        body: the delivery's body narrowed to this event, if the delivery told of several; None if
            it is the body as received.
    """

    id: str
    occurred_ms: int | None = None
    compared: bytes = b""
    subject: str | None = None
    body: bytes | None = None


Verifier = Callable[[Delivery], None]
"""Returns if the delivery is from whom it says; raises InvalidSignature if not.

It is called before anything is looked up, over ASGI in a thread (it may ask the sender, as PayPal
has it). Any other exception is the application's own failure (500), and nothing is claimed either.
"""
