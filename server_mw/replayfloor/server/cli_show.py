"""How records look to a person and to a program. Nothing is read from a database here."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from hashlib import sha256

from replayfloor.core.message import Headers
from replayfloor.core.receipt import Receipt
from replayfloor.server.cli_common import as_lines, moment, plain
from replayfloor.server.stores.records import AuditRecord, ClaimRecord, ReceiptRecord, Record

JsonObject = dict[str, object]

SECRET_WORDS = ("auth", "cookie", "credential", "key", "password", "secret", "signature", "token")
"""A header whose name holds one of these may hold a secret: its value is not shown."""

HIDDEN = "(not shown)"


def list_lines(records: list[Record]) -> list[str]:
    """Return a list of records in columns; they are of one kind."""
    claims = [_claim_row(each) for each in records if isinstance(each, ClaimRecord)]
    if claims:
        return as_lines(("ID", "CLAIMED", "STATE", "LEASE UNTIL"), claims)
    receipts = [_receipt_row(each) for each in records if isinstance(each, ReceiptRecord)]
    return as_lines(("ID", "FINISHED", "STATUS", "TOOK MS", "BYTES"), receipts)


def _claim_row(record: ClaimRecord) -> tuple[str, ...]:
    state = "orphaned" if record.orphaned else "in flight"
    return record.id.hex(), moment(record.claimed_at), state, moment(record.lease_until)


def _receipt_row(record: ReceiptRecord) -> tuple[str, ...]:
    numbers = (str(record.status), str(record.took_ms), str(record.stored_bytes))
    return record.id.hex(), moment(record.finished_at), *numbers


def audit_lines(trail: list[AuditRecord]) -> list[str]:
    """Return the audit trail in columns."""
    rows = [
        (moment(each.at), each.id.hex(), plain(each.action), plain(each.by), plain(each.detail))
        for each in trail
    ]
    return as_lines(("AT", "ID", "ACTION", "BY", "DETAIL"), rows)


def describe(record: Record, *, with_body: bool) -> list[str]:
    """Return all there is to say about a record, line by line."""
    match record:
        case ClaimRecord(orphaned=True):
            return [
                *_first_lines(record, "orphaned: the outcome is unknown"),
                f"claimed      {moment(record.claimed_at)}",
                f"lease ended  {moment(record.lease_until)}",
                "Retries are answered 409 outcome-unknown and execute nothing until it is settled:",
                "by a reconciler, or with: replayfloor receipts resolve",
            ]
        case ClaimRecord():
            return [
                *_first_lines(record, "in flight"),
                f"claimed      {moment(record.claimed_at)}",
                f"lease until  {moment(record.lease_until)}, unless it is renewed",
                "Retries are answered 409 in-flight. There is nothing to do.",
            ]
        case ReceiptRecord():
            return [
                *_first_lines(record, "finished: retries are answered with the receipt"),
                f"finished     {moment(record.finished_at)}, after {record.took_ms} ms",
                f"status       {record.status}",
                *_answer_lines(record.receipt, with_body=with_body),
            ]


def _first_lines(record: Record, state: str) -> list[str]:
    return [
        f"id           {record.id.hex()}",
        f"state        {state}",
        f"fingerprint  {record.fingerprint.hex()}",
    ]


def _answer_lines(receipt: Receipt | None, *, with_body: bool) -> list[str]:
    if receipt is None:
        return []
    if receipt.sealed:
        return [f"answer       enciphered, {len(receipt.response.body)} bytes"]
    body = receipt.response.body
    size = "not kept" if receipt.tombstone else f"{len(body)} bytes, SHA-256 {_digest(body)}"
    headers = [f"header       {name}: {value}" for name, value in _shown(receipt.response.headers)]
    lines = [*headers, f"body         {size}"]
    if with_body and not receipt.tombstone:
        lines += [plain(line) for line in body.decode("utf-8", "backslashreplace").splitlines()]
    return lines


def record_json(record: Record, *, with_body: bool = False) -> str:
    """Return a record as one line of JSON: in it every control character is escaped."""
    shown: JsonObject = {"id": record.id.hex(), "fingerprint": record.fingerprint.hex()}
    match record:
        case ClaimRecord():
            shown |= {
                "state": "orphaned" if record.orphaned else "in-flight",
                "claimed_at": _time(record.claimed_at),
                "lease_until": _time(record.lease_until),
            }
        case ReceiptRecord():
            shown |= {
                "state": "finished",
                "finished_at": _time(record.finished_at),
                "took_ms": record.took_ms,
                "status": record.status,
                "stored_bytes": record.stored_bytes,
                **_answer_json(record.receipt, with_body=with_body),
            }
    return json.dumps(shown)


def _answer_json(receipt: Receipt | None, *, with_body: bool) -> JsonObject:
    if receipt is None:
        return {}
    if receipt.sealed:
        return {"sealed": True}
    body = receipt.response.body
    shown: JsonObject = {
        "headers": _shown(receipt.response.headers),
        "tombstone": receipt.tombstone,
        "body_bytes": len(body),
        "body_sha256": _digest(body),
    }
    return shown | {"body_base64": base64.b64encode(body).decode()} if with_body else shown


def _shown(headers: Headers) -> list[tuple[str, str]]:
    shown: list[tuple[str, str]] = []
    for name, value in headers:
        text = name.decode("latin-1").lower()
        secret = any(word in text for word in SECRET_WORDS)
        shown.append((plain(text), HIDDEN if secret else plain(value.decode("latin-1"))))
    return shown


def _digest(body: bytes) -> str:
    return sha256(body).hexdigest()


def _time(time: datetime) -> str:
    return time.astimezone(UTC).isoformat()
