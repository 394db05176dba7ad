"""Sources: which event a delivery tells of, when it was, and what cannot be told is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replayfloor.core.fingerprint import receipt_id
from replayfloor.server.webhooks.batches import NotTold
from replayfloor.server.webhooks.delivery import Delivery, UnidentifiedEvent
from replayfloor.server.webhooks.source import WebhookSource
from replayfloor.server.webhooks.source_values import ID_CHARS_MAX, compared_text
from webhooks.payloads_cases import delivery, told

SHOP = WebhookSource("shop", "body /id")
BOTH = WebhookSource("shop", "body /a + body /b")
TEN_MS = 1_796_032_800_000

scalars = (
    st.text(min_size=1, max_size=30).filter(str.strip)
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
)


def id_of(source: WebhookSource, given_: Delivery) -> str:
    (event,) = source.events(given_)
    return event.id


# -- ids ------------------------------------------------------------------------------------------


def test_two_deliveries_of_an_event_under_two_delivery_ids_are_one_event() -> None:
    first = told({"id": "evt_1", "n": 1}, {"X-Delivery": "d-1", "Date": "then"})
    again = told({"id": "evt_1", "n": 2}, {"X-Delivery": "d-2", "Date": "now"})
    assert SHOP.events(first) == SHOP.events(again)


def test_two_events_with_equal_bodies_are_two_events() -> None:
    source = WebhookSource("shop", "header X-Event")
    one, two = (told({"amount": 1}, {"X-Event": id_}) for id_ in ("e-1", "e-2"))
    assert id_of(source, one) != id_of(source, two)


@pytest.mark.parametrize("value", [None, True, False, "", "  ", [], ["a"], {}, {"id": "a"}])
def test_what_is_no_text_and_no_number_is_no_id(value: object) -> None:
    with pytest.raises(UnidentifiedEvent, match="shop: the event id, 'body /id', is"):
        SHOP.events(told({"id": value}))


@pytest.mark.parametrize("body", [{}, [], "id", {"ID": "a"}, {"data": {"id": "a"}}, [{"id": "a"}]])
def test_an_id_that_is_elsewhere_or_nowhere_is_not_found(body: object) -> None:
    with pytest.raises(UnidentifiedEvent, match="'body /id', is absent"):
        SHOP.events(told(body))


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b'{"id":"a"', b'{"id":"a"}x', b"id=a", b'{"id":NaN}', b'{"id":"\xff"}',
     '{"id":"a"}'.encode("utf-16"), b'{"id":"a","x":' + b"[" * 100_000, b'{"id":"a",}'],
)  # fmt: skip
def test_a_body_that_cannot_be_read_is_refused(body: bytes) -> None:
    with pytest.raises(UnidentifiedEvent, match="no JSON document in UTF-8"):
        SHOP.events(delivery(body))


def test_a_mark_before_the_document_is_ignored() -> None:
    assert id_of(SHOP, delivery(b'\xef\xbb\xbf{"id":"a"}')) == "a"


@pytest.mark.parametrize("body", [b'{"id":"a","id":"b"}', b'{"id":"a","id":"a"}'])
def test_an_id_that_is_there_twice_is_refused(body: bytes) -> None:
    with pytest.raises(UnidentifiedEvent, match="more than once"):
        SHOP.events(delivery(body))


def test_a_repeated_member_on_the_way_to_the_id_is_refused_and_one_beside_it_is_not() -> None:
    deep = WebhookSource("shop", "body /data/id")
    with pytest.raises(UnidentifiedEvent, match="more than once"):
        deep.events(delivery(b'{"data":{"id":"a"},"data":{"id":"b"}}'))
    assert id_of(deep, delivery(b'{"data":{"id":"a"},"x":1,"x":2}')) == "a"


def test_a_header_that_is_there_twice_is_refused() -> None:
    source = WebhookSource("shop", "header X-Event")
    one = delivery(headers={"X-Event": "a"})
    with pytest.raises(UnidentifiedEvent, match="'header X-Event', is there more than once"):
        source.events(replace(one, headers=(*one.headers, (b"x-event", b"a"))))


def test_the_space_around_a_header_is_not_part_of_the_id() -> None:
    source = WebhookSource("shop", "header X-Event")
    assert id_of(source, delivery(headers={"X-Event": " a\t"})) == "a"


def test_an_id_that_is_too_long_is_refused() -> None:
    assert id_of(SHOP, told({"id": "x" * ID_CHARS_MAX}))
    with pytest.raises(UnidentifiedEvent, match="longer than"):
        SHOP.events(told({"id": "x" * (ID_CHARS_MAX + 1)}))


def test_a_refusal_tells_nothing_of_the_payload() -> None:
    source = WebhookSource("shop", "body /id", compared="body /card")
    for body in (
        b'{"id":["4242"]}',
        b'{"id":{"4242":1}}',
        b'{"id":"4242',
        b'{"id":"%s"}' % (b"4242" * 999),
    ):
        with pytest.raises(UnidentifiedEvent) as refused:
            source.events(delivery(body))
        assert "4242" not in str(refused.value)


def test_usual_ids_are_written_as_they_are() -> None:
    for id_ in ("evt_1QZx8c", "72d3162e-cc78-11e3", "orders/create", "rbtnWrG1DVDGGGFHFyun0A=="):
        assert id_of(SHOP, told({"id": id_})) == id_


def test_the_number_1_and_the_text_1_are_two_ids() -> None:
    written = [b"1", b'"1"', b"1.0", b"-1", b'"-1"', b'"#1"', b'"1+1"', b"1e0", b"1" + b"0" * 30]
    found = {id_of(SHOP, delivery(b'{"id":%b}' % each)) for each in written}
    assert len(found) == len(written)


def test_a_large_number_keeps_every_digit() -> None:
    one, two = (id_of(SHOP, delivery(b'{"id":9007199254740993%d}' % last)) for last in (1, 2))
    assert one != two


def test_the_parts_of_an_id_are_kept_apart() -> None:
    assert id_of(BOTH, told({"a": "a+b", "b": "c"})) != id_of(BOTH, told({"a": "a", "b": "b+c"}))


def test_each_part_of_an_id_has_to_be_there() -> None:
    with pytest.raises(UnidentifiedEvent, match="'body /b', is absent"):
        BOTH.events(told({"a": "x"}))


@settings(deadline=None)
@given(st.lists(scalars, min_size=2, max_size=2), st.lists(scalars, min_size=2, max_size=2))
def test_ids_are_equal_only_if_every_part_is(one: list[Any], two: list[Any]) -> None:
    first, second = (id_of(BOTH, told({"a": each[0], "b": each[1]})) for each in (one, two))
    assert (first == second) == (json.dumps(one) == json.dumps(two))


@settings(deadline=None)
@given(st.text(min_size=1, max_size=80).filter(str.strip))
def test_an_id_of_any_characters_makes_a_key(text: str) -> None:
    found = id_of(SHOP, told({"id": text}))
    assert found.isascii()
    assert found.isprintable()
    receipt_id("default", "webhook//hooks", f"shop:{found}")


def test_halves_of_surrogates_are_told_apart() -> None:
    written = [b"\\ud83d", b"\\ude00", b"\\ud83d\\ude00", b"\\ude00\\ud83d", b"\\ufffd", b"?"]
    found = {id_of(SHOP, delivery(b'{"id":"%b"}' % each)) for each in written}
    assert len(found) == len(written)
    receipt_id("default", "webhook//hooks", "".join(found))


def test_an_id_can_be_in_a_form() -> None:
    source = WebhookSource("calls", "form CallSid + form Status", event_time="form At")
    event = delivery(b"CallSid=CA1&Status=a%2Bb&At=1796032800&Empty=")
    assert source.events(event)[0].id == "CA1+a%2Bb"
    assert source.events(event)[0].occurred_ms == TEN_MS
    for body, says in (
        (b"CallSid=CA1", "'form Status', is absent"),
        (b"CallSid=CA1&Status=", "'form Status', is empty"),
        (b"CallSid=CA1&Status=a&Status=b", "'form Status', is there more than once"),
        (b"CallSid=%ff&Status=a", "no form in UTF-8"),
        (b"\xff", "no form in UTF-8"),
    ):
        with pytest.raises(UnidentifiedEvent, match=says):
            source.events(delivery(body))


def test_an_id_can_be_at_an_index_and_below_names_that_need_escapes() -> None:
    source = WebhookSource("shop", "body /a~1b/1/~0")
    assert id_of(source, told({"a/b": [0, {"~": "x"}]})) == "x"
    assert id_of(WebhookSource("shop", "body /~01"), told({"~1": "x", "/": "y"})) == "x"
    for index in ("01", "-", "2", "-1"):
        with pytest.raises(UnidentifiedEvent, match="absent"):
            WebhookSource("shop", f"body /a/{index}").events(told({"a": ["x", "y"]}))


# -- what all deliveries share, and subjects ------------------------------------------------------


def compared(source: WebhookSource, body: object) -> bytes:
    return source.events(told(body))[0].compared


def test_nothing_is_compared_by_default() -> None:
    assert compared(SHOP, {"id": "a", "x": 1}) == compared(SHOP, {"id": "a", "x": 2}) == b""


def test_what_is_compared_is_told_apart_by_what_it_means() -> None:
    source = replace(SHOP, compared="body /x + body /y")
    values = [
        1,
        "1",
        True,
        "True",
        None,
        "None",
        "",
        [],
        {},
        [1],
        ["1"],
        {"a": 1},
        {"a": [1]},
        "a+b",
    ]
    found = [compared(source, {"id": "a", "x": x, "y": y}) for x in values for y in values]
    found += [compared(source, {"id": "a"}), compared(source, {"id": "a", "x": None})]
    assert len(set(found)) == len(found)


def test_the_order_of_members_does_not_count_in_what_is_compared() -> None:
    source = replace(SHOP, compared="body /x")
    one, two = {"a": 1, "b": {"c": "d", "e": []}}, {"b": {"e": [], "c": "d"}, "a": 1}
    assert compared(source, {"id": "a", "x": one}) == compared(source, {"id": "a", "x": two})


def test_what_is_compared_must_not_be_there_twice() -> None:
    for body in (b'{"id":"a","x":1,"x":1}', b'{"id":"a","x":{"y":1,"y":1}}'):
        with pytest.raises(UnidentifiedEvent, match="body /x"):
            replace(SHOP, compared="body /x").events(delivery(body))


def test_the_subject_is_told_or_there_is_none() -> None:
    source = replace(SHOP, subject="body /order")
    for order, subject in (("o-1", "o-1"), (7, "#7"), (None, None), ("", None), ({}, None)):
        assert source.events(told({"id": "a", "order": order}))[0].subject == subject
    assert SHOP.events(told({"id": "a", "order": "o-1"}))[0].subject is None


def test_what_is_compared_is_refused_if_it_is_nested_too_deeply() -> None:
    value: object = "x"
    for _ in range(20_000):
        value = [value]
    with pytest.raises(NotTold, match="nested too deeply"):
        compared_text(value)


# -- handshakes -----------------------------------------------------------------------------------


def test_a_handshake_is_no_id_that_an_event_could_have() -> None:
    source = replace(SHOP, handshake="body /challenge")
    assert id_of(source, told({"challenge": "a"})) == "?a"
    assert id_of(source, told({"id": "?a"})) != "?a"
    with pytest.raises(UnidentifiedEvent):
        source.events(told({"id": None, "challenge": "a"}))
    with pytest.raises(UnidentifiedEvent):
        SHOP.events(told({"challenge": "a"}))
