"""Which figures a row has, by direction, in the order in which they are shown. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from replayfloor.retention.providers import Direction


class Form(Enum):
    """What the value of a figure is."""

    TEXT = "a text"
    TEXTS = "a list of texts"
    DURATION = "a duration"


@dataclass(frozen=True, slots=True)
class FigureRule:
    """One figure: its form, whether each row has to state it, and what it means."""

    name: str
    means: str
    form: Form = Form.TEXT
    required: bool = False


def _length(name: str, means: str, *, required: bool = False) -> FigureRule:
    return FigureRule(name, means, Form.DURATION, required)


FIGURES: Final[Mapping[Direction, tuple[FigureRule, ...]]] = {
    Direction.OUTBOUND: (
        FigureRule("key", "what carries the key"),
        FigureRule("key_length", "how long a key may be"),
        FigureRule("key_format", "what a key is made of"),
        FigureRule("methods", "which methods take a key", Form.TEXTS),
        FigureRule("hosts", "which servers", Form.TEXTS),
        FigureRule("paths", "which paths; all if it is unknown", Form.TEXTS),
        _length("retention", "how long a key is remembered", required=True),
        FigureRule("scope", "within what a key is unique"),
        FigureRule("in_flight", "the answer while the first request still runs"),
        FigureRule("mismatch", "the answer to another request with the key"),
        FigureRule("keeps_4xx", "whether a 4xx is kept and replayed"),
        FigureRule("keeps_5xx", "whether a 5xx is kept and replayed"),
        FigureRule("replay", "what marks a replay"),
        FigureRule("retry", "what the provider says of retries"),
    ),
    Direction.INBOUND: (
        FigureRule("event_id", "where the id of the event is"),
        FigureRule("dedupe", "what else tells duplicates, or does not"),
        FigureRule("event_time", "where the time of the event is"),
        FigureRule("attempt_time", "where the time of the attempt is"),
        FigureRule("attempt", "where retries are counted"),
        _length("auto_retry", "until when it is repeated by itself", required=True),
        _length("manual_resend", "until when a person can repeat it", required=True),
        FigureRule("ack", "what counts as delivered"),
        _length("ack_timeout", "how long an answer is waited for"),
        FigureRule("signature", "what carries the signature"),
        FigureRule("gone", "what a 410 does"),
        FigureRule("batching", "where the events are, if one delivery has several"),
        FigureRule("ordering", "whether events keep their order"),
        FigureRule("duplicates", "whether, and how, events come twice"),
    ),
    Direction.BROKER: (
        _length("redelivery", "after how long without an answer it comes again", required=True),
        _length("redelivery_max", "the longest that this may be set or extended to"),
        _length("horizon", "until when a message may be handed out again", required=True),
        _length("horizon_min", "the shortest that this may be set to"),
        _length("horizon_max", "the longest that this may be set to"),
        _length("retention", "how long a message is kept"),
        _length("retention_min", "the shortest that this may be set to"),
        _length("retention_max", "the longest that this may be set to"),
        _length("dedup_window", "within what the broker drops duplicates"),
        _length("dedup_min", "the shortest that this may be set to"),
        _length("dedup_max", "the longest that this may be set to"),
        FigureRule("dedup", "what the broker does against duplicates"),
        _length("session_timeout", "after how long a consumer counts as gone"),
        FigureRule("delivery_limit", "how often a message is handed out"),
        FigureRule("http_retry", "how HTTP endpoints are retried"),
        FigureRule("other", "how other endpoints are retried"),
        FigureRule("read_from", "where the setting of a queue of yours is read"),
    ),
}  # fmt: skip
"""Every row has each figure of its direction; what its file leaves out is unknown."""

PLACES: Final = frozenset(
    {"event_id", "event_time", "attempt_time", "attempt", "signature", "batching"}
)
"""Figures that say where something is: "header NAME", "body /pointer", "body", several with " + "
between, or "none". The pointer is one of RFC 6901, within an event where deliveries are batches."""
