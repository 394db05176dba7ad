"""Bodies by what they mean: form may differ, meaning may not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayfloor.core.canonical import canonical_body

JSON = b"application/json"
FORM = b"application/x-www-form-urlencoded"

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def same(content_type: bytes, one: bytes, other: bytes) -> bool:
    return canonical_body(content_type, one) == canonical_body(content_type, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a":1,"b":[true,null]}', b' { "b" : [ true, null ],\n"a": 1 }'),
        (b'{"n":"\\u00e9\\/"}', '{"n":"é/"}'.encode()),
        (b'{"a":{"x":1,"y":2}}', b'{"a":{"y":2,"x":1}}'),
        (b"{}", b"{ }"),
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


def test_a_body_too_deep_to_be_read_is_taken_byte_for_byte() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000

    assert same(JSON, deep, deep)
    assert not same(JSON, deep, deep + b" ")


def test_a_raw_body_is_not_taken_for_the_canonical_form_of_another() -> None:
    canonical = canonical_body(JSON, b'{"b":1,"a":2}')

    assert canonical_body(b"text/plain", canonical) != canonical
    assert canonical_body(JSON, canonical) != canonical
