"""Sources: what contradicts itself is refused when it is written, and says what to write."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from replayfloor.retention import Sender
from replayfloor.server.webhooks.source import WebhookSource

SHOP = WebhookSource("shop", "body /id")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"name": ""}, "letters"),
        ({"name": "a:b"}, "letters"),
        ({"name": "x" * 65}, "letters"),
        ({"event_id": ""}, 'write "header NAME"'),
        ({"event_id": "id"}, 'write "header NAME"'),
        ({"event_id": "body id"}, 'write "header NAME"'),
        ({"event_id": "body /a~2"}, 'write "header NAME"'),
        ({"event_id": "header X Event"}, 'write "header NAME"'),
        ({"event_id": "none"}, 'write "header NAME"'),
        ({"event_id": "body /id + "}, 'write "header NAME"'),
        ({"event_id": None}, 'write "header NAME"'),
        ({"event_id": "body /id + body /id"}, "name it once"),
        ({"event_id": "header X-A + header x-a"}, "name it once"),
        ({"event_id": "body /id + form id"}, "a JSON document or a form"),
        ({"event_time": "body /a + body /b"}, "name one"),
        ({"event_time": "header X-At", "attempt_time": "header x-at"}, "leave event_time out"),
        ({"event_id": "header X-At", "attempt_time": "header x-at"}, "stays the same"),
        ({"event_id": "header X-N + body /id", "attempt": "header X-N"}, "stays the same"),
        ({"batch": "header X-Events"}, "the list of events"),
        ({"batch": "form events"}, "the list of events"),
        ({"batch": "body", "event_id": "header X-Event"}, "share"),
        ({"batch": "body", "event_id": "form id"}, "holds no batch"),
        ({"batch": "body", "attempt_time": "body /at"}, "name a header"),
        ({"batch": "body", "handshake": "body /challenge"}, "leave one of them out"),
        ({"sender": "stripe"}, "Sender"),
        ({"ack_deadline_s": 0}, "more than 0"),
        ({"ack_deadline_s": float("inf")}, "more than 0"),
        ({"busy_status": 410}, "409 or 503"),
        ({"first_attempt": 2}, "counts attempts"),
    ],
)
def test_a_source_that_contradicts_itself_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        WebhookSource(**{"name": "shop", "event_id": "body /id", **options})


def test_a_source_is_a_value() -> None:
    sender = Sender("shop", automatic_retry="72h")
    one = WebhookSource("shop", "body /id", sender=sender, ack_deadline_s=10)
    assert one == WebhookSource("shop", "body /id", sender=sender, ack_deadline_s=10)
    assert len({one, replace(one, subject="body /order")}) == 2
    with pytest.raises(FrozenInstanceError):
        one.name = "other"  # type: ignore[misc]
