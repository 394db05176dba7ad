"""Who delivers, and where in a delivery its events are told. Pure.

    WebhookSource("shop", event_id="header X-Shop-Event", event_time="body /created_at")

A place is written as in the catalogue: "header NAME", "body /json/pointer" (RFC 6901), "body" for
all of it, or "form NAME" for a field of a form; an id may be made of several, joined by " + ".
Within a batch the pointers are relative to one event. Ids are written as `source_values` has it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, cast

from replayfloor.core.errors import ConfigurationError
from replayfloor.core.values import frozen
from replayfloor.retention.parties import Sender
from replayfloor.server.webhooks.batches import Absent, NotTold, cut
from replayfloor.server.webhooks.delivery import Delivery, Event, UnidentifiedEvent
from replayfloor.server.webhooks.source_places import SourcePlaces, checked_places
from replayfloor.server.webhooks.source_values import (
    Told,
    compared_text,
    id_part,
    id_text,
)

LATE_MS: Final = 3_600_000
"""An attempt that is made so long after its event is a retry, if its sender does not count them:
senders deliver within seconds, and an hour covers a queue of theirs that lags."""

HANDSHAKE_MARK: Final = "?"
"""Before the id of a handshake; no other id starts with it."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_COUNT: Final = re.compile(r"[0-9]{1,9}", re.ASCII)


@frozen
class Attempt:
    """Which delivery of its event it is, as far as its sender says.

    Attributes:
        number: what the sender counts; see `WebhookSource.attempt`.
        sent_ms: when it was sent, in ms since 1970.
    """

    number: int | None
    sent_ms: int | None


@dataclass(frozen=True, slots=True)
class WebhookSource:
    """A sender of webhooks, as a receiver has to know it.

    Args:
        name: part of the key of each event: whoever changes it applies redeliveries again.
            Letters, digits and "._-", at most 64.
        event_id: the place, or the places, of what each delivery of an event repeats and no other
            event has. Not an id of the delivery that changes with each attempt. If the sender signs
            the body alone, an id in a header is not covered: who has seen one delivery can repeat
            it under another.
        event_time: where the time of the event is: Unix seconds or milliseconds, RFC 3339 (ISO
            8601) or RFC 1123. What cannot be read is taken as not said. Never the time of an
            attempt: a retry would look young for ever.
        attempt: where the sender counts deliveries. What is more than `first_attempt` is a retry; a
            delivery that has nothing there is a first one.
        attempt_time: where the time of the attempt is, in a form that `event_time` may have.
        first_attempt: what `attempt` holds in a first delivery: 0 if it counts retries, 1 if it
            counts attempts.
        subject: where it is told what the event is about, if the order within it matters. An event
            that does not tell has none.
        batch: where the list of events is, if one delivery has several: "body /events", or "body".
        compared: places at which all deliveries of one event have the same. A delivery that has
            something else there is refused (422): name only what the sender never changes.
        handshake: where a delivery that tells of no event, and only asks whether the endpoint is
            there, has something of its own (Slack's challenge). It is handed to the application as
            an event whose id starts with HANDSHAKE_MARK.
        sender: for how long the sender may deliver again, for the policy of retention; None if
            that is not known.
        ack_deadline_s: within how many seconds the sender wants its answer; None if it is not said.
        busy_status: what a delivery is answered while another one of its event is at work, with
            Retry-After; all senders take both for a failure, and deliver again.

    Only answers of 2xx are stored. Raises ConfigurationError.
    """

    name: str
    event_id: str
    event_time: str | None = None
    attempt: str | None = field(default=None, kw_only=True)
    attempt_time: str | None = field(default=None, kw_only=True)
    first_attempt: int = field(default=0, kw_only=True)
    subject: str | None = field(default=None, kw_only=True)
    batch: str | None = field(default=None, kw_only=True)
    compared: str | None = field(default=None, kw_only=True)
    handshake: str | None = field(default=None, kw_only=True)
    sender: Sender | None = field(default=None, kw_only=True)
    ack_deadline_s: float | None = field(default=None, kw_only=True)
    busy_status: Literal[409, 503] = field(default=409, kw_only=True)
    _places: SourcePlaces = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse what contradicts itself, or could not tell one event from another."""
        object.__setattr__(self, "_places", _checked(self))

    def events(self, delivery: Delivery) -> tuple[Event, ...]:
        """Return the events that a delivery tells of, in its order.

        A batch without any entry tells of none. Of two entries with one id the first counts.

        Raises UnidentifiedEvent if the id of an event is not there, is no text and no number, is
        empty, ambiguous or too long; if the body cannot be read, or holds no list of events; if two
        entries of a batch have one id and differ in `compared`. Nothing is told of the others then:
        a success would say that all of them were taken.
        """
        return self._events(delivery, Told(delivery))

    def is_retry(self, delivery: Delivery) -> bool | None:
        """Return whether the sender says that it has sent this before; None if it does not say.

        A sender that does not count: True if its attempt is LATE_MS or more after its event.
        """
        return self._is_retry(Told(delivery))

    def attempt_of(self, delivery: Delivery) -> Attempt:
        """Return which delivery of its event this is, as far as the sender says; never fails."""
        return self._attempt(Told(delivery))

    def read(self, delivery: Delivery) -> tuple[tuple[Event, ...], bool | None]:
        """Return what `events` and `is_retry` do, and read the body once for both."""
        told = Told(delivery)
        return self._events(delivery, told), self._is_retry(told)

    # -- a delivery -------------------------------------------------------------------------------

    def _events(self, delivery: Delivery, told: Told) -> tuple[Event, ...]:
        place = self._places.batch
        if place is None:
            return (self._event(told, ""),)
        try:
            entries = cut(delivery.body, place.pointer)
        except NotTold as error:
            raise self._unidentified(f"the list of events, {place.text!r}, {error}") from None
        found: dict[str, Event] = {}
        for at, entry in enumerate(entries):
            where = f" in entry {at} of {place.text!r}"
            event = self._event(Told(delivery, entry.value), where, entry.body)
            first = found.setdefault(event.id, event)
            if first.compared != event.compared:
                raise self._unidentified(f"the event id{where} is that of an entry that differs")
        return tuple(found.values())

    def _is_retry(self, told: Told) -> bool | None:
        attempt = self._attempt(told)
        if attempt.number is not None:
            return attempt.number > self.first_attempt
        places = self._places
        if places.attempt is not None:
            return None if told.has(places.attempt) else False
        if places.batch is not None or attempt.sent_ms is None:
            return None
        occurred_ms = told.time_ms_at(places.event_time)
        late = occurred_ms is not None and attempt.sent_ms - occurred_ms >= LATE_MS
        return True if late else None

    def _attempt(self, told: Told) -> Attempt:
        sent_ms = told.time_ms_at(self._places.attempt_time)
        number: int | None = None
        if self._places.attempt is not None:
            text = told.at_or_none(self._places.attempt)
            if isinstance(text, str) and _COUNT.fullmatch(text):
                number = int(text)
        return Attempt(number, sent_ms)

    # -- one event --------------------------------------------------------------------------------

    def _event(self, told: Told, where: str, body: bytes | None = None) -> Event:
        places = self._places
        return Event(
            self._id(told, where),
            told.time_ms_at(places.event_time),
            "+".join(self._compared(told, where)).encode(),
            told.text_at(places.subject),
            body,
        )

    def _id(self, told: Told, where: str) -> str:
        place = self._places.event_id[0]
        try:
            parts: list[str] = []
            for place in self._places.event_id:
                parts.append(id_part(told.at(place)))
            return id_text(parts)
        except NotTold as error:
            handshake = self._handshake(told) if isinstance(error, Absent) else None
            if handshake is not None:
                return handshake
            raise self._unidentified(f"the event id, {place.text!r}{where}, {error}") from None

    def _handshake(self, told: Told) -> str | None:
        try:
            parts = [id_part(told.at(place)) for place in self._places.handshake]
            return HANDSHAKE_MARK + id_text(parts) if parts else None
        except NotTold:
            return None

    def _compared(self, told: Told, where: str) -> Iterator[str]:
        for place in self._places.compared:
            try:
                yield compared_text(told.at(place))
            except Absent:
                yield ""
            except NotTold as error:
                raise self._unidentified(f"{place.text!r}{where} {error}") from None

    def _unidentified(self, text: str) -> UnidentifiedEvent:
        return UnidentifiedEvent(f"{self.name}: {text}")


# -- what is refused at construction --------------------------------------------------------------


def _checked(source: WebhookSource) -> SourcePlaces:
    name = cast("object", source.name)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"name={name!r}: use letters, digits and . _ -, at most 64, such as the sender's name"
        )
    label = f"source {name}: "
    _check_figures(label, source)
    return checked_places(
        label,
        event_id=source.event_id,
        handshake=source.handshake,
        compared=source.compared,
        event_time=source.event_time,
        attempt=source.attempt,
        attempt_time=source.attempt_time,
        subject=source.subject,
        batch=source.batch,
    )


def _check_figures(label: str, source: WebhookSource) -> None:
    sender, deadline = cast("object", source.sender), cast("object", source.ack_deadline_s)
    if sender is not None and not isinstance(sender, Sender):
        raise ConfigurationError(
            f"{label}sender={sender!r}: expected a replayfloor.retention.Sender, or None"
        )
    if deadline is not None and not (
        isinstance(deadline, int | float) and deadline > 0 and math.isfinite(deadline)
    ):
        raise ConfigurationError(
            f"{label}ack_deadline_s={deadline!r}: expected seconds, more than 0, or None"
        )
    if source.busy_status not in (409, 503):
        raise ConfigurationError(
            f"{label}busy_status={source.busy_status!r}: expected 409 or 503; others have "
            "a meaning of their own to a sender (410 disables the endpoint)"
        )
    if source.first_attempt not in (0, 1):
        raise ConfigurationError(
            f"{label}first_attempt={source.first_attempt!r}: expected 0 if `attempt` counts "
            "retries, or 1 if it counts attempts"
        )


def is_handshake(event: Event) -> bool:
    """Return whether a delivery told of no event, and only asked whether the endpoint is there."""
    return event.id.startswith(HANDSHAKE_MARK)
