"""Batches: each event of a delivery on its own, with a body that tells of that event alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replayfloor.server.webhooks import batches
from replayfloor.server.webhooks.delivery import Event, UnidentifiedEvent
from replayfloor.server.webhooks.presets import preset
from replayfloor.server.webhooks.source import WebhookSource
from webhooks.payloads_cases import case, delivery, told

LIST = WebhookSource("shop", "body /id", batch="body", event_time="body /at")
WITHIN = WebhookSource("shop", "body /id", batch="body /data/events")

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
entries = st.lists(st.dictionaries(st.text(), values, max_size=3), max_size=5)
layout = st.sampled_from([None, 1, "\t"])


def bodies(found: tuple[Event, ...], whole: bytes) -> list[bytes]:
    return [whole if event.body is None else event.body for event in found]


def written(document: object, indent: int | str | None, *, ascii_only: bool) -> bytes:
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    return text.encode("utf-8", "surrogatepass")


@settings(deadline=None)
@given(entries, values, values, layout, st.booleans())
def test_the_narrowed_bodies_are_the_batch_and_each_is_the_envelope_with_one_event(
    events: list[dict[str, Any]],
    before: object,
    after: object,
    indent: int | str | None,
    ascii_only: bool,
) -> None:
    events = [{**event, "id": f"e-{at}"} for at, event in enumerate(events)]
    envelope = {"before": before, "data": {"x": [before], "events": events}, "after": after}
    whole = written(envelope, indent, ascii_only=ascii_only)
    found = WITHIN.events(delivery(whole))
    assert [event.id for event in found] == [event["id"] for event in events]
    read = [json.loads(body) for body in bodies(found, whole)]
    assert [event for each in read for event in each["data"]["events"]] == events
    for each, event in zip(read, events, strict=True):
        alone = {**envelope, "data": {"x": [before], "events": [event]}}
        assert list(each) == list(alone)
        assert json.dumps(each) == json.dumps(alone)


@settings(deadline=None)
@given(entries, layout)
def test_a_list_at_the_root_is_narrowed_to_a_list_of_one(
    events: list[dict[str, Any]], indent: int | str | None
) -> None:
    events = [{**event, "id": at} for at, event in enumerate(events)]
    whole = written(events, indent, ascii_only=True)
    read = [json.loads(body) for body in bodies(LIST.events(delivery(whole)), whole)]
    assert json.dumps(read) == json.dumps([[event] for event in events])


def test_what_the_sender_wrote_is_not_written_anew() -> None:
    precise = b'"n":123456789012345678901234567890,"f":1.10,"e":1E+2'
    one = b'{"id":"a",%b,"s":"\\u00e9 \\/ \xc3\xa9"}' % precise
    whole = b'{ "v" : 1.0, "data":{"events" : [ %b ,\n {"id": "b"} ] }, "z": -0.0 }' % one
    first, second = WITHIN.events(delivery(whole))
    assert first.body == b'{ "v" : 1.0, "data":{"events" : [%b] }, "z": -0.0 }' % one
    assert second.body == b'{ "v" : 1.0, "data":{"events" : [{"id": "b"}] }, "z": -0.0 }'


def test_a_batch_of_one_keeps_its_body_as_it_was_received() -> None:
    assert LIST.events(told([{"id": "a"}])) == (Event("a"),)


def test_a_batch_of_none_tells_of_no_event() -> None:
    assert LIST.events(delivery(b" [ ] ")) == ()
    assert WITHIN.events(told({"data": {"events": []}})) == ()


def test_each_event_of_a_batch_has_its_own_time() -> None:
    found = LIST.events(told([{"id": "a", "at": 1796032800}, {"id": "b", "at": "?"}]))
    assert [event.occurred_ms for event in found] == [1_796_032_800_000, None]


def test_a_header_counts_for_every_event_of_a_batch() -> None:
    source = WebhookSource("shop", "header X-Topic + body /id", batch="body")
    found = source.events(told([{"id": 1}, {"id": 2}], {"X-Topic": "orders"}))
    assert [event.id for event in found] == ["orders+#1", "orders+#2"]


def test_of_two_entries_with_one_id_the_first_counts() -> None:
    found = LIST.events(told([{"id": "a", "n": 1}, {"id": "b"}, {"id": "a", "n": 2}]))
    assert [event.id for event in found] == ["a", "b"]
    assert json.loads(found[0].body or b"") == [{"id": "a", "n": 1}]


def test_two_entries_with_one_id_alone_are_narrowed_to_the_first() -> None:
    (found,) = LIST.events(told([{"id": "a", "n": 1}, {"id": "a", "n": 2}]))
    assert json.loads(found.body or b"") == [{"id": "a", "n": 1}]


def test_two_entries_with_one_id_that_differ_in_what_is_compared_are_refused() -> None:
    source = WebhookSource("shop", "body /id", batch="body", compared="body /type")
    same = [{"id": "a", "type": "x", "n": 1}, {"id": "a", "type": "x", "n": 2}]
    assert len(source.events(told(same))) == 1
    with pytest.raises(
        UnidentifiedEvent, match="in entry 1 of 'body' is that of an entry that dif"
    ):
        source.events(told([same[0], {"id": "a", "type": "y"}]))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"data":{"events":{}}}', "is no list"),
        (b'{"data":{"events":null}}', "is no list"),
        (b'{"data":[]}', "is absent"),
        (b'{"events":[{"id":"a"}]}', "is absent"),
        (b"[]", "is absent"),
        (b'{"data":{"events":[],"events":[{"id":"a"}]}}', "more than once"),
        (b'{"data":{},"data":{"events":[{"id":"a"}]}}', "more than once"),
        (b'{"data":{"events":[{"id":"a"}]},"data":{}}', "more than once"),
        (b'{"data":{"events":[{"id":"a"},{"n":1}]}}', "in entry 1 of"),
        (b'{"data":{"events":[{"id":"a"},"b"]}}', "in entry 1 of"),
        (b'{"data":{"events":[{"id":"a","id":"b"}]}}', "in entry 0 of"),
    ],
)
def test_a_batch_that_is_not_where_it_should_be_or_holds_what_is_no_event_is_refused(
    body: bytes, says: str
) -> None:
    with pytest.raises(UnidentifiedEvent, match=says):
        WITHIN.events(delivery(body))


GOOD = b'{"a":1,"data":{"b":[],"events":[{"id":"a"},{"id":"b"}],"c":{}},"d":""}'


@pytest.mark.parametrize("at", range(len(GOOD)))
def test_a_batch_whose_document_has_a_defect_anywhere_is_refused(at: int) -> None:
    assert len(WITHIN.events(delivery(GOOD))) == 2
    for body in (GOOD[:at], GOOD[:at] + b"\x00" + GOOD[at:], GOOD + GOOD[at:]):
        with pytest.raises(UnidentifiedEvent):
            WITHIN.events(delivery(body))


@pytest.mark.parametrize(
    "body",
    [
        b'{1:2,"data":{"events":[{"id":"a"}]}}',
        b'{"x":1;"data":{"events":[{"id":"a"}]}}',
        b'{"x";1,"data":{"events":[{"id":"a"}]}}',
        b'{"data":{"events":[{"id":"a"};{"id":"b"}]}}',
        b'{"data":{"events":[{"id":"a"},]}}',
        b'{"data":{"events":[{"id":"a"}],}}',
        b'{"data":{"events":[{"id":"a"}\xc2\xa0]}}',
        b'{"data":{"events":[{"id":"a"}\x0c]}}',
    ],
)
def test_what_only_looks_like_a_json_document_is_refused(body: bytes) -> None:
    with pytest.raises(UnidentifiedEvent):
        WITHIN.events(delivery(body))


@settings(deadline=None)
@given(st.binary(max_size=40) | st.text('[]{},:"\\ 1aeu\u00e9\n', max_size=25).map(str.encode))
def test_the_scanner_accepts_no_list_that_a_json_reader_does_not(body: bytes) -> None:
    source = WebhookSource("shop", "body", batch="body")
    try:
        found = source.events(delivery(body))
    except UnidentifiedEvent:
        return
    assert isinstance(json.loads(body), list)
    for event in found:
        assert event.body is None or len(json.loads(event.body)) == 1


def test_a_batch_beyond_its_limits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "EVENTS_MAX", 3)
    assert len(LIST.events(told([{"id": at} for at in range(3)]))) == 3
    with pytest.raises(UnidentifiedEvent, match="more than 3 entries"):
        LIST.events(told([{"id": at} for at in range(4)]))


def test_what_surrounds_a_batch_is_not_repeated_without_end() -> None:
    padding = "x" * 400_000
    many = {"padding": padding, "data": {"events": [{"id": at} for at in range(1000)]}}
    with pytest.raises(UnidentifiedEvent, match="bytes to hand on entry by entry"):
        WITHIN.events(told(many))
    many["data"] = {"events": [{"id": at} for at in range(100)]}
    assert len(WITHIN.events(told(many))) == 100


@pytest.mark.parametrize(
    ("name", "other"), [("adyen", "live"), ("gocardless", "meta"), ("xero", "lastEventSequence")]
)
def test_the_narrowed_body_of_a_preset_keeps_the_rest_of_the_delivery(
    name: str, other: str
) -> None:
    whole = case(name).content["body"]
    source = preset(name)
    assert source.batch is not None
    place = source.batch.removeprefix("body /")
    for at, event in enumerate(source.events(case(name).first)):
        read = json.loads(event.body or b"")
        assert read == {**whole, place: [whole[place][at]]}
        assert read[other] == whole[other]


def test_a_redelivery_of_what_is_left_of_a_batch_has_the_same_events() -> None:
    whole = case("gocardless").content["body"]
    first = preset("gocardless").events(case("gocardless").first)
    left = {**whole, "events": whole["events"][1:]}
    assert [e.id for e in preset("gocardless").events(told(left))] == [first[1].id]
