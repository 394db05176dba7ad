"""Bodies by what they mean: form may differ, meaning may not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replayfloor.core.canonical import (
    CANONICAL_BYTES_MAX,
    DEPTH_MAX,
    FIELDS_MAX,
    Pointer,
    canonical_body,
)

JSON = b"application/json"
FORM = b"application/x-www-form-urlencoded"

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def same(content_type: bytes, one: bytes, other: bytes, *exclude: Pointer) -> bool:
    return canonical_body(content_type, one, exclude) == canonical_body(
        content_type, other, exclude
    )


def is_raw(content_type: bytes, body: bytes, *exclude: Pointer) -> bool:
    return canonical_body(content_type, body, exclude) == b"r" + body


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a":1,"b":[true,null]}', b' { "b" : [ true, null ],\n"a": 1 }'),
        (b'{"n":"\\u00e9\\/"}', '{"n":"é/"}'.encode()),
        (b'{"a":{"x":1,"y":2}}', b'{"a":{"y":2,"x":1}}'),
        (b"{}", b"{ }"),
        (b'["\\u0000", 1]', b'["\\u0000",1]'),
        (b'{"\\u0000b":1,"\\u0000a":2}', b'{"\\u0000a":2,"\\u0000b":1}'),
        (b'["\\"\\u0000"]', b'["\\u0022\\u0000"]'),
        (b'["\\\\u0000"]', b'["\\u005cu0000"]'),
    ],
)
def test_json_that_differs_in_form_only_is_the_same(one: bytes, other: bytes) -> None:
    assert same(JSON, one, other)
    assert same(b"application/merge-patch+json; charset=utf-8", one, other)
    assert not same(b"text/plain", one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a":1}', b'{"a":2}'),
        (b'{"a":1}', b'{"a":"1"}'),
        (b'{"a":1}', b'{"a":1.0}'),
        (b'{"a":1e2}', b'{"a":100}'),
        (b'{"a":-0}', b'{"a":0}'),
        (b"[1]", b'["1"]'),
        (b"[1]", b'["\\u00001"]'),
        (b'["\\u00001"]', b'["\\u0000\\u00001"]'),
        (b'{"a":10000000000000000000001}', b'{"a":10000000000000000000002}'),
        (b"[1,2]", b"[2,1]"),
        (b"[1,2]", b"[12]"),
        (b'["a,b"]', b'["a","b"]'),
        (b'{"a":null}', b"{}"),
        (b"true", b"1"),
        (b'{"a":1,"a":2}', b'{"a":2}'),
        (b'{"a":1,"a":2}', b'{"a":2,"a":1}'),
        (b"[NaN]", b'["NaN"]'),
        (b"{", b"{ "),
    ],
)
def test_json_that_may_mean_something_else_is_not_the_same(one: bytes, other: bytes) -> None:
    assert not same(JSON, one, other)


@given(values, values)
@settings(deadline=None, max_examples=60)
def test_json_is_the_same_exactly_if_its_values_are(one: object, other: object) -> None:
    written = json.dumps(one, indent=2).encode()
    rewritten = json.dumps(one, sort_keys=True, ensure_ascii=False).encode()
    # Python takes True for 1; JSON does not, and neither do the texts.
    equal = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)

    assert same(JSON, written, rewritten)
    assert same(JSON, written, json.dumps(other).encode()) == equal


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (b"a=1&b=2", b"b=2&a=1", True),
        (b"a=1&a=2&b=3", b"b=3&a=1&a=2", True),
        (b"a=1&a=2", b"a=2&a=1", False),
        (b"a=x%20y", b"a=x+y", True),
        (b"a=%41", b"a=A", True),
        (b"a=%FF", b"a=%FE", False),
        (b"a=1&&b=2", b"a=1&b=2", True),
        (b"a", b"a=", False),
        (b"a=1&b=", b"a=1b=", False),
        (b"ab=c", b"a=bc", False),
        (b"a=%26b=1", b"a=&b=1", False),
    ],
)
def test_a_form_is_its_fields(one: bytes, other: bytes, *, expected: bool) -> None:
    assert same(FORM, one, other) is expected


@given(st.binary(), st.sampled_from([JSON, FORM, b"text/plain", b"", b"application/x+json"]))
def test_any_bytes_have_a_canonical_form(body: bytes, content_type: bytes) -> None:
    assert same(content_type, body, body)


@given(st.binary(), st.binary())
def test_other_types_are_taken_byte_for_byte(one: bytes, other: bytes) -> None:
    assert same(b"application/octet-stream", one, other) is (one == other)


@pytest.mark.parametrize("coding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_json_in_a_coding_that_is_not_its_own_is_taken_byte_for_byte(coding: str) -> None:
    assert is_raw(JSON, '{"b": 1, "a": 2}'.encode(coding))


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"01", b"+1", b"1.", b".5"])
def test_a_number_that_is_not_json_makes_the_body_raw(number: bytes) -> None:
    assert is_raw(JSON, b'{"b": ' + number + b', "a": 1}')


def _nested(depth: int, space: bytes = b"") -> bytes:
    return (
        b'[{"a":' * (depth // 2)
        + b"[]" * (depth % 2)
        + space
        + b"0" * (1 - depth % 2)
        + (b"}]" * (depth // 2))
    )


def test_a_body_too_deep_to_be_read_is_taken_byte_for_byte() -> None:
    for depth in (DEPTH_MAX - 1, DEPTH_MAX):
        assert json.loads(_nested(depth))
        assert same(JSON, _nested(depth), _nested(depth, b" "))
    for depth in (DEPTH_MAX + 1, DEPTH_MAX + 2, 100_000):
        assert is_raw(JSON, _nested(depth))


def test_many_containers_side_by_side_are_not_deep() -> None:
    wide = b"[" + b"[1],{}," * DEPTH_MAX + b"[]]"

    assert same(JSON, wide, wide.replace(b",", b" , "))


def test_the_depth_that_is_read_does_not_depend_on_who_asks() -> None:
    body = _nested(DEPTH_MAX)

    def from_below(frames: int) -> bytes:
        return from_below(frames - 1) if frames else canonical_body(JSON, body)

    assert from_below(700) == canonical_body(JSON, body) != b"r" + body


def test_a_body_too_long_to_be_read_is_taken_byte_for_byte() -> None:
    longest = b'["' + b"x" * (CANONICAL_BYTES_MAX - 4) + b'"]'

    assert not is_raw(JSON, longest)
    assert is_raw(JSON, longest + b" ")
    assert is_raw(FORM, b"a=" + b"x" * CANONICAL_BYTES_MAX)


def test_a_form_of_too_many_fields_is_taken_byte_for_byte() -> None:
    fields = [b"f%d=" % number for number in range(FIELDS_MAX)]

    assert same(FORM, b"&".join(fields), b"&".join(reversed(fields)))
    assert is_raw(FORM, b"&".join([*fields, b"more"]))


DOCUMENT = b'{"sent_at":1,"amount":2,"items":[{"ts":3,"id":4},{"ts":5,"id":6}],"a/b":7,"*":8}'


@pytest.mark.parametrize(
    ("exclude", "other", "expected"),
    [
        ("sent_at", DOCUMENT.replace(b'"sent_at":1', b'"sent_at":99'), True),
        ("sent_at", DOCUMENT.replace(b'"sent_at":1,', b""), True),
        ("sent_at", DOCUMENT.replace(b'"sent_at":1', b'"sent_at":{"deep":[1]}'), True),
        ("sent_at", DOCUMENT.replace(b'"amount":2', b'"amount":3'), False),
        ("amount", DOCUMENT.replace(b'"sent_at":1', b'"sent_at":99'), False),
        ("items 0 ts", DOCUMENT.replace(b'"ts":3', b'"ts":"x"'), True),
        ("items 0 ts", DOCUMENT.replace(b'"ts":5', b'"ts":"x"'), False),
        ("items 00 ts", DOCUMENT.replace(b'"ts":3', b'"ts":"x"'), False),
        ("items * ts", DOCUMENT.replace(b'"ts":3', b'"ts":"x"'), False),
        ("*", DOCUMENT.replace(b'"*":8', b'"*":9'), True),
        ("a/b", DOCUMENT.replace(b'"a/b":7', b'"a/b":9'), True),
        ("items 1", DOCUMENT.replace(b'{"ts":5,"id":6}', b"null"), True),
        ("items 1", DOCUMENT.replace(b',{"ts":5,"id":6}', b""), True),
        ("items 1", DOCUMENT.replace(b'{"ts":3,"id":4}', b"null"), False),
        ("items 2", DOCUMENT.replace(b'"id":6}', b'"id":6},7'), True),
        ("items -", DOCUMENT.replace(b'"id":6}', b'"id":6},7'), False),
        ("amount x", DOCUMENT, True),
    ],
)
def test_what_a_pointer_names_does_not_count_and_nothing_else(
    exclude: str, other: bytes, expected: bool
) -> None:
    assert same(JSON, DOCUMENT, other, tuple(exclude.split())) is expected


def test_every_index_counts_in_the_array_as_it_was_received() -> None:
    pointers: list[Pointer] = [("0",), ("2",), ("0",), ("0", "x")]

    assert same(JSON, b'[{"x":1},"kept",3,"also"]', b'[null,"kept",null,"also"]', *pointers)
    assert not same(JSON, b'[1,"kept",3,"also"]', b'[1,"kept","also",3]', *pointers)


def test_a_pointer_finds_a_name_that_starts_with_nul() -> None:
    assert same(JSON, b'{"\\u0000x":1}', b"{}", ("\x00x",))


def test_a_body_that_cannot_be_read_has_nothing_excluded() -> None:
    assert is_raw(JSON, b'{"sent_at":1,"a":2,"a":3}', ("sent_at",))
    assert is_raw(b"text/plain", b'{"sent_at":1}', ("sent_at",))


@given(st.dictionaries(st.text(max_size=2), values, min_size=1), st.data())
@settings(deadline=None, max_examples=30)
def test_without_a_member_it_is_the_document_that_never_had_it(
    document: dict[str, object], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(document)))
    rest = {other: value for other, value in document.items() if other != name}

    whole, without = json.dumps(document).encode(), json.dumps(rest).encode()
    assert same(JSON, whole, without, (name,))
    assert canonical_body(JSON, without, ((name,),)) == canonical_body(JSON, without)


@pytest.mark.parametrize(
    ("exclude", "one", "other", "expected"),
    [
        (("t",), b"t=1&a=2", b"a=2&t=3&t=4", True),
        (("t",), b"t=1&a=2", b"a=3&t=1", False),
        (("ä b",), b"%C3%A4+b=1", b"%c3%a4%20b=2", True),
        (("t", "0"), b"t=1", b"t=2", False),
    ],
)
def test_in_a_form_a_pointer_of_one_segment_names_a_field(
    exclude: Pointer, one: bytes, other: bytes, expected: bool
) -> None:
    assert same(FORM, one, other, exclude) is expected


def test_a_raw_body_is_not_taken_for_the_canonical_form_of_another() -> None:
    canonical = canonical_body(JSON, b'{"b":1,"a":2}')

    assert canonical_body(b"text/plain", canonical) != canonical
    assert canonical_body(JSON, canonical) != canonical
