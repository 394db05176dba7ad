"""Sources: when an event was, and which delivery of it this is."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replayfloor.server.webhooks.source import LATE_MS, Attempt, WebhookSource
from webhooks.payloads_cases import delivery, told

SHOP = WebhookSource("shop", "body /id")
TEN_MS = 1_796_032_800_000


# -- times ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        1796032800,
        1796032800.0,
        1796032800000,
        "1796032800",
        "1796032800.000",
        "1796032800000",
        "2026-11-30T10:00:00Z",
        "2026-11-30t10:00:00z",
        "2026-11-30T10:00:00.000000000Z",
        "2026-11-30T11:00:00+01:00",
        "2026-11-30T05:00:00-0500",
        "2026-11-30T10:00:00",
        "2026-11-30 10:00:00+00:00",
        "20261130T100000Z",
        "Mon, 30 Nov 2026 10:00:00 GMT",
        "Mon, 30 Nov 2026 11:00:00 +0100",
    ],
)
def test_the_time_of_an_event_is_read(value: object) -> None:
    source = replace(SHOP, event_time="body /at")
    assert source.events(told({"id": "a", "at": value}))[0].occurred_ms == TEN_MS


@pytest.mark.parametrize(
    "value",
    [
        None, True, "", "soon", [], {}, 0, -1796032800, 1, "0001-01-01T00:00:00Z", "2026-11-30",
        "20261130", "2026-13-30T10:00:00Z", "2026-11-30T25:00:00Z", "1970-01-01T00:00:00Z",
        1796032800000000, 1e300, 10**400, "1e999999999", "Mon, 32 Nov 2026 10:00:00 GMT",
        "Mon, 30 Nov 2026", "9999-12-31T23:59:59-23:59", "١٧٩٦٠٣٢٨٠٠",
    ],
)  # fmt: skip
def test_a_time_that_cannot_be_read_is_not_said_and_no_error(value: object) -> None:
    source = replace(SHOP, event_time="body /at")
    assert source.events(told({"id": "a", "at": value}))[0].occurred_ms is None


def test_a_time_without_an_offset_is_utc_wherever_the_server_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = replace(SHOP, event_time="body /at")
    try:
        monkeypatch.setenv("TZ", "ABC+5")
        time.tzset()
        event = told({"id": "a", "at": "2026-11-30T10:00:00"})
        assert source.events(event)[0].occurred_ms == TEN_MS
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_time_that_is_absent_or_there_twice_is_not_said() -> None:
    source = WebhookSource("shop", "header X-Event", event_time="body /at")
    for body in (b"{}", b"", b"\xff", b'{"at":1796032800,"at":1796032801}'):
        event = delivery(body, {"X-Event": "a"})
        assert source.events(event)[0].occurred_ms is None


@settings(deadline=None)
@given(st.text() | st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_whatever_stands_where_the_time_should_is_no_error(value: object) -> None:
    source = replace(SHOP, event_time="body /at")
    ms = source.events(told({"id": "a", "at": value}))[0].occurred_ms
    assert ms is None or isinstance(ms, int)


# -- attempts -------------------------------------------------------------------------------------

COUNTED = WebhookSource("shop", "body /id", attempt="header X-Retry", attempt_time="header X-Sent")


@pytest.mark.parametrize(
    ("header", "retry", "number"),
    [(None, False, None), ("0", False, 0), ("1", True, 1), ("12", True, 12), ("soon", None, None)],
)
def test_a_sender_that_counts_retries_tells_of_one(
    header: str | None, retry: bool | None, number: int | None
) -> None:
    sent = told({"id": "a"}, {} if header is None else {"X-Retry": header})
    assert COUNTED.is_retry(sent) is retry
    assert COUNTED.attempt_of(sent) == Attempt(number, None)


def test_a_sender_that_counts_attempts_starts_at_one() -> None:
    source = replace(COUNTED, first_attempt=1)
    assert source.is_retry(told({"id": "a"}, {"X-Retry": "1"})) is False
    assert source.is_retry(told({"id": "a"}, {"X-Retry": "2"})) is True


def test_an_attempt_long_after_its_event_is_a_retry_and_others_may_be_either() -> None:
    source = WebhookSource("shop", "body /id", event_time="body /at", attempt_time="header X-Sent")
    for late_ms, retry in ((0, None), (LATE_MS - 1, None), (LATE_MS, True)):
        sent = told({"id": "a", "at": TEN_MS}, {"X-Sent": str(TEN_MS + late_ms)})
        assert source.is_retry(sent) is retry
    assert source.is_retry(told({"id": "a"}, {"X-Sent": str(TEN_MS)})) is None
    assert SHOP.is_retry(told({"id": "a"})) is None


def test_a_member_beside_the_list_of_a_batch_is_not_the_time_of_its_events() -> None:
    source = WebhookSource(
        "shop", "body /id", "body /at", attempt_time="header X-Sent", batch="body /events"
    )
    sent = told({"at": TEN_MS, "events": []}, {"X-Sent": str(TEN_MS + LATE_MS)})
    assert source.is_retry(sent) is None


def test_asking_for_the_attempt_never_fails() -> None:
    source = WebhookSource("shop", "header X", attempt="body /n", attempt_time="body /at")
    for body in (b"", b"\xff", b"[]", b'{"n":{},"at":[]}', b'{"n":1,"n":2}'):
        assert source.attempt_of(delivery(body)) == Attempt(None, None)
    assert source.attempt_of(told({"n": 3, "at": TEN_MS})) == Attempt(3, TEN_MS)
