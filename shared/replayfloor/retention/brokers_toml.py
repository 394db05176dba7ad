"""A measured window for a policy file: lines to paste, with where they are from; or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator

from replayfloor.retention.brokers import Window
from replayfloor.retention.durations import in_words
from replayfloor.retention.report import Json
from replayfloor.retention.terms import UNKNOWN, Confidence, Length, Provenance, Term


def window_toml(window: Window, chosen: Length | None = None) -> Iterator[str]:
    """Yield the lines; an unbounded window without a chosen number is "unknown".

    Such a figure is refused by every policy until it is replaced. Raises PolicyError as
    `Window.term` does.
    """
    yield f"# {window.broker} {_line(window.queue)}, on {window.read_on.isoformat()}"
    for setting in window.settings:
        yield f"#   {_line(str(setting))}"
    for reason in window.reasons:
        yield f"# {_line(reason)}"
    for reason in window.unbounded:
        yield f"# NO END: {_line(reason)}"
    if window.while_consumed_s is not None:
        yield f"# while consumers are running: {in_words(window.while_consumed_s)}"
    yield "# goes into [inbound.NAME], or into [senders.NAME]:"
    if chosen is None and not window.is_bounded:
        note = "; ".join(window.unbounded)
        asked = Provenance(window.source, window.read_on, Confidence.NOT_FOUND, note)
        yield _assignment(UNKNOWN, asked)
        return
    term = window.term(chosen)
    yield _assignment(str(term), term.provenance, term)


def window_report(window: Window, chosen: Length | None = None) -> dict[str, Json]:
    """Return the same for a program; `seconds` is null where no setting ends it."""
    is_chosen = chosen is not None or window.is_bounded
    term = window.term(chosen) if is_chosen else None
    return {
        "broker": window.broker,
        "queue": window.queue,
        "seconds": window.seconds,
        "while_consumed_s": window.while_consumed_s,
        "driver": window.driver,
        "settings": {each.name: [each.value, each.does] for each in window.settings},
        "reasons": list(window.reasons),
        "unbounded": list(window.unbounded),
        "source": window.source,
        "read_on": window.read_on.isoformat(),
        "broker_redelivery_s": None if term is None else term.seconds,
        "confidence": None if term is None else term.provenance.confidence.value,
    }


def _assignment(value: str, provenance: Provenance, term: Term | None = None) -> str:
    name = "broker_redelivery" if term is None else term.name.value
    members = (
        f"value = {_quoted(value)}",
        f"source = {_quoted(provenance.source)}",
        f"read_on = {provenance.read_on.isoformat()}" if provenance.read_on else "",
        f"confidence = {_quoted(provenance.confidence.value)}",
        f"note = {_quoted(provenance.note)}" if provenance.note else "",
    )
    return f"{name} = {{ {', '.join(filter(None, members))} }}"


def _quoted(text: str) -> str:
    """Return a text as a basic string of TOML: those of JSON are, but for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _line(text: str) -> str:
    """Return a text that stays within its comment."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
