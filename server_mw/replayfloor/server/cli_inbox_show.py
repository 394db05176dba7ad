"""How the inbox looks to a person and to a program. Nothing is read from a database here."""

from __future__ import annotations

import base64
import json
from datetime import timedelta

from replayfloor.core.errors import IdempotencyError
from replayfloor.core.message import Headers
from replayfloor.server.cli_common import as_lines, moment, plain
from replayfloor.server.cli_show import HIDDEN, SECRET_WORDS
from replayfloor.server.sealing import Sealer
from replayfloor.server.stores.inbox_put import open_request
from replayfloor.server.stores.inbox_records import InboxRecord, InboxStats, StoredEvent
from replayfloor.server.webhooks.inbox.request import StoredRequest

JsonObject = dict[str, object]


def stats_lines(stats: InboxStats) -> list[str]:
    """Return the numbers in one line."""
    oldest = "" if stats.oldest_s is None else f"; the oldest for {_span(stats.oldest_s)}"
    return [f"waiting {stats.waiting}, running {stats.running}, dead {stats.dead}{oldest}"]


def stats_json(stats: InboxStats) -> str:
    """Return the numbers as one line of JSON."""
    return json.dumps(
        {
            "waiting": stats.waiting,
            "running": stats.running,
            "dead": stats.dead,
            "oldest_s": stats.oldest_s,
        }
    )


def list_lines(records: list[InboxRecord]) -> list[str]:
    """Return events in columns."""
    rows = [
        (
            each.id.hex(),
            each.state,
            plain(each.source),
            _span(each.age.total_seconds()),
            str(each.attempts),
            plain(each.event_id),
            plain(each.last_error),
        )
        for each in records
    ]
    return as_lines(("ID", "STATE", "SOURCE", "AGE", "ATTEMPTS", "EVENT", "LAST ERROR"), rows)


def describe(event: StoredEvent, sealer: Sealer, *, with_body: bool) -> list[str]:
    """Return all there is to say about an event, line by line."""
    record = event.record
    subject = "" if record.subject is None else plain(record.subject)
    ordered = ", in order of arrival" if record.ordered else ""
    return [
        f"id           {record.id.hex()}",
        f"state        {record.state}",
        f"source       {plain(record.source)}",
        f"endpoint     {plain(record.endpoint)}, namespace {plain(record.namespace)}",
        f"event        {plain(record.event_id)}",
        *([f"subject      {subject}{ordered}"] if subject else []),
        f"accepted     {moment(record.received_at)}, {_span(record.age.total_seconds())} ago",
        *_attempts(record),
        *_request(event, sealer, with_body=with_body),
    ]


def _attempts(record: InboxRecord) -> list[str]:
    lines = [f"attempts     {record.attempts}"]
    if record.last_at is not None:
        lines.append(f"last         {moment(record.last_at)}: {plain(record.last_error)}")
    if record.state == "waiting":
        lines.append(f"due          {moment(record.due_at)}")
    if record.state == "dead":
        lines.append("It is not tried again before you say so: replayfloor inbox retry, or drop.")
    return lines


def _request(event: StoredEvent, sealer: Sealer, *, with_body: bool) -> list[str]:
    request = _opened(event, sealer)
    if request is None:
        return [f"request      enciphered or unreadable, {len(event.stored)} bytes; see --cipher"]
    query = f"?{plain(request.query.decode('latin-1'))}" if request.query else ""
    path = plain(request.path.decode("utf-8", "backslashreplace"))
    headers = [f"header       {name}: {value}" for name, value in _shown(request.headers)]
    lines = [f"request      {plain(request.method)} {path}{query}", *headers]
    lines.append(f"body         {len(request.body)} bytes")
    if with_body:
        text = request.body.decode("utf-8", "backslashreplace")
        lines += [plain(line) for line in text.splitlines()]
    return lines


def record_json(record: InboxRecord) -> str:
    """Return an event as one line of JSON, without its request."""
    return json.dumps(_record(record))


def event_json(event: StoredEvent, sealer: Sealer, *, with_body: bool) -> str:
    """Return an event as one line of JSON."""
    shown = _record(event.record)
    request = _opened(event, sealer)
    if request is None:
        return json.dumps(shown | {"sealed": event.sealed})
    shown |= {
        "method": request.method,
        "path": request.path.decode("utf-8", "backslashreplace"),
        "query": request.query.decode("latin-1"),
        "headers": _shown(request.headers),
    }
    if with_body:
        shown |= {"body_base64": base64.b64encode(request.body).decode()}
    return json.dumps(shown)


def _record(record: InboxRecord) -> JsonObject:
    return {
        "id": record.id.hex(),
        "state": record.state,
        "namespace": record.namespace,
        "source": record.source,
        "endpoint": record.endpoint,
        "event_id": record.event_id,
        "subject": record.subject,
        "ordered": record.ordered,
        "attempts": record.attempts,
        "received_at": record.received_at.isoformat(),
        "age_s": record.age.total_seconds(),
        "due_at": record.due_at.isoformat(),
        "last_at": None if record.last_at is None else record.last_at.isoformat(),
        "last_error": record.last_error,
        "stored_bytes": record.stored_bytes,
    }


def _shown(headers: Headers) -> list[tuple[str, str]]:
    """Return header lines without the values that may be secrets."""
    shown: list[tuple[str, str]] = []
    for name, value in headers:
        text = name.decode("latin-1").lower()
        secret = any(word in text for word in SECRET_WORDS)
        shown.append((plain(text), HIDDEN if secret else plain(value.decode("latin-1"))))
    return shown


def _opened(event: StoredEvent, sealer: Sealer) -> StoredRequest | None:
    try:
        return open_request(event.stored, sealer, sealed=event.sealed)
    except IdempotencyError:
        return None


def _span(seconds: float) -> str:
    """Return a length of time to the second, without fractions."""
    return str(timedelta(seconds=round(seconds)))
