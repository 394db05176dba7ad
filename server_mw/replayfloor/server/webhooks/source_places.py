"""The places of a source together: parsed, and refused if they contradict each other. Pure."""

from __future__ import annotations

from replayfloor.core.errors import ConfigurationError
from replayfloor.core.values import frozen
from replayfloor.server.webhooks.places import Place, PlaceKind, parse_place, parse_places


@frozen
class SourcePlaces:
    """The places of a source, parsed. The names are those of WebhookSource."""

    event_id: tuple[Place, ...]
    handshake: tuple[Place, ...]
    compared: tuple[Place, ...]
    event_time: Place | None
    attempt: Place | None
    attempt_time: Place | None
    subject: Place | None
    batch: Place | None


def checked_places(
    label: str,
    *,
    event_id: str,
    handshake: str | None,
    compared: str | None,
    event_time: str | None,
    attempt: str | None,
    attempt_time: str | None,
    subject: str | None,
    batch: str | None,
) -> SourcePlaces:
    """Return the places of a source; raises ConfigurationError, whose text starts with `label`."""
    places = SourcePlaces(
        event_id=parse_places(label + "event_id", event_id),
        handshake=_several(label + "handshake", handshake),
        compared=_several(label + "compared", compared),
        event_time=_one(label + "event_time", event_time),
        attempt=_one(label + "attempt", attempt),
        attempt_time=_one(label + "attempt_time", attempt_time),
        subject=_one(label + "subject", subject),
        batch=_one(label + "batch", batch),
    )
    _check_attempts(label, places)
    if places.batch is not None:
        _check_batch(label, places, places.batch)
    return places


def _several(what: str, text: str | None) -> tuple[Place, ...]:
    return () if text is None else parse_places(what, text)


def _one(what: str, text: str | None) -> Place | None:
    return None if text is None else parse_place(what, text)


def _check_attempts(label: str, places: SourcePlaces) -> None:
    if places.event_time is not None and places.event_time == places.attempt_time:
        raise ConfigurationError(
            f"{label}event_time and attempt_time name one place: leave event_time out if the time "
            "there changes from attempt to attempt"
        )
    for option, place in (("attempt", places.attempt), ("attempt_time", places.attempt_time)):
        if place is not None and place in places.event_id:
            raise ConfigurationError(
                f"{label}event_id names {place.text!r}, which is {option}: an id stays the same "
                "over all attempts"
            )


def _check_batch(label: str, places: SourcePlaces, batch: Place) -> None:
    if batch.kind is not PlaceKind.BODY:
        raise ConfigurationError(
            f"{label}batch={batch.text!r}: the list of events is in a JSON document: write "
            '"body /json/pointer", or "body" if the document is the list'
        )
    every = (*places.event_id, *places.compared, places.event_time, places.subject)
    if any(place is not None and place.kind is PlaceKind.FORM for place in every):
        raise ConfigurationError(f"{label}a form holds no batch: name places in the body")
    if all(place.kind is PlaceKind.HEADER for place in places.event_id):
        raise ConfigurationError(
            f"{label}event_id is in headers only, which all events of a batch share: name a place "
            "within the event, relative to it"
        )
    for option, place in (("attempt", places.attempt), ("attempt_time", places.attempt_time)):
        if place is not None and place.kind is not PlaceKind.HEADER:
            raise ConfigurationError(
                f"{label}{option}={place.text!r} is within an event, and a delivery has several: "
                "name a header, or leave it out"
            )
    if places.handshake:
        raise ConfigurationError(f"{label}handshake does not go with batch: leave one of them out")
