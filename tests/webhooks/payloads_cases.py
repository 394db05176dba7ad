"""Deliveries in the shape that senders give them, of invented data: read from payloads/*.json.

Each file has one delivery, what its sender changes when it delivers that again ("redelivery"), and
what another event of otherwise equal content has ("other"). Members of the body are named by JSON
pointers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, cast

from replayfloor.server.webhooks.delivery import Delivery

FOLDER: Final = Path(__file__).parent / "payloads"
RECEIVED_MS: Final = 1_796_032_805_000


@dataclass(frozen=True)
class Case:
    """One file. `events` are (id, ms since 1970 or None)."""

    name: str
    content: Mapping[str, Any]

    @property
    def events(self) -> list[tuple[str, int | None]]:
        return [(each["id"], _ms(each["time"])) for each in self.content["events"]]

    @property
    def first(self) -> Delivery:
        return self._changed({})

    @property
    def redelivery(self) -> Delivery:
        return self._changed(self.content["redelivery"])

    @property
    def other(self) -> Delivery:
        return self._changed(self.content["other"])

    def _changed(self, change: Mapping[str, Mapping[str, Any]]) -> Delivery:
        body = json.loads(json.dumps(self.content["body"]))
        for pointer, value in change.get("body", {}).items():
            put(body, pointer, value)
        headers = {**self.content["headers"], **change.get("headers", {})}
        return delivery(json.dumps(body, ensure_ascii=False).encode(), headers)


def cases() -> list[Case]:
    """Return all of them, by name."""
    return [case(name) for name in sorted(path.stem for path in FOLDER.glob("*.json"))]


def case(name: str) -> Case:
    """Return the one of a preset."""
    return Case(name, json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))


def delivery(body: bytes = b"{}", headers: Mapping[str, str] | None = None) -> Delivery:
    """Return a delivery as a server hands it on: names of headers in lower case."""
    lines = tuple(
        (name.lower().encode(), value.encode("latin-1")) for name, value in (headers or {}).items()
    )
    return Delivery("POST", b"/hooks", b"", lines, body, RECEIVED_MS)


def told(document: object, headers: Mapping[str, str] | None = None) -> Delivery:
    """Return a delivery whose body is a JSON document."""
    return delivery(json.dumps(document).encode(), headers)


def put(document: object, pointer: str, value: object) -> None:
    """Set a member of a JSON document in place."""
    *parents, last = pointer.removeprefix("/").split("/")
    for segment in parents:
        document = _step(document, segment)
    if isinstance(document, list):
        cast("list[object]", document)[int(last)] = value
    else:
        cast("dict[str, object]", document)[last] = value


def _step(document: object, segment: str) -> object:
    if isinstance(document, list):
        return cast("list[object]", document)[int(segment)]
    return cast("dict[str, object]", document)[segment]


def _ms(text: str | None) -> int | None:
    return None if text is None else round(datetime.fromisoformat(text).timestamp() * 1000)
