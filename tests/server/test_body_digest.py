"""What stands for a body in the fingerprint, by the route's rule and the body's type."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replayfloor.core.canonical import canonical_body
from replayfloor.core.errors import UsageError
from replayfloor.core.fingerprint import Fingerprint, differing_parts
from replayfloor.server.body import BodyReader
from replayfloor.server.body_digest import body_digest
from replayfloor.server.body_rules import (
    DEFAULT_BODY_RULE,
    BodyRule,
    FingerprintRequest,
    body_rule,
)
from replayfloor.server.body_target import RequestHead
from server.multipart import Part, content_type, write

JSON = b"application/json"
FORM = b"application/x-www-form-urlencoded"
TEXT = b"text/plain"
OFF = body_rule(fingerprint="off")
NO_TIME = body_rule(exclude=["/sent_at"])
KINDS = [JSON, FORM, TEXT, b"", content_type(), content_type(b"x")]
BODIES = [b"", b"{}", b"[1]", b"a=1", write([]), write([Part("a")]), write([], b"x")]


def head(kind: bytes = JSON, **change: object) -> RequestHead:
    parts = {"method": "POST", "path": b"/pay", "query": b"a=1", "headers": ((b"x-a", b"1"),)}
    return RequestHead(content_type=kind, **(parts | change))  # type: ignore[arg-type]


def digest(kind: bytes, body: bytes, rule: BodyRule = DEFAULT_BODY_RULE) -> bytes:
    return body_digest(head(kind), rule, body)


def same(kind: bytes, bodies: Sequence[bytes], rule: BodyRule = DEFAULT_BODY_RULE) -> bool:
    return len({digest(kind, body, rule) for body in bodies}) == 1


def print_of(
    body: bytes, kind: bytes, rule: BodyRule = DEFAULT_BODY_RULE, **change: object
) -> Fingerprint:
    reader = BodyReader(head(kind, **change), rule)
    reader.feed(body)
    return reader.finish().fingerprint


def test_bodies_that_differ_in_form_only_are_the_same() -> None:
    assert same(JSON, [b'{"a":1,"b":"\\u00e9"}', '{ "b": "é", "a": 1 }'.encode()])
    assert same(FORM, [b"a=%41&b=2", b"b=2&a=A"])
    assert not same(JSON, [b'{"a":1}', b'{"a":1.0}'])
    assert not same(TEXT, [b"a=1&b=2", b"b=2&a=1"])


def test_what_is_excluded_does_not_count_in_any_kind_of_body() -> None:
    one, other = (
        {
            JSON: json.dumps({"sent_at": time, "amount": 1}).encode(),
            FORM: b"amount=1&sent_at=%d" % time,
            content_type(): write([Part("sent_at", b"%d" % time), Part("amount", b"1")]),
        }
        for time in (1, 2)
    )

    for kind in one:
        assert not same(kind, [one[kind], other[kind]])
        assert same(kind, [one[kind], other[kind]], NO_TIME)
        assert not same(kind, [one[kind], other[kind].replace(b"amount", b"total")], NO_TIME)


def test_in_a_body_that_cannot_be_read_everything_counts() -> None:
    assert not same(JSON, [b'{"sent_at":1,', b'{"sent_at":2,'], NO_TIME)
    assert not same(
        content_type(), [write([Part("sent_at", x)])[:-4] for x in (b"1", b"2")], NO_TIME
    )


def test_an_exclusion_that_meets_nothing_changes_nothing() -> None:
    for kind, body in ((JSON, b'{"a":1}'), (FORM, b"a=1"), (content_type(), write([Part("a")]))):
        assert digest(kind, body, NO_TIME) == digest(kind, body)


def test_a_malformed_multipart_body_is_taken_byte_for_byte() -> None:
    malformed = write([Part("a", b"1"), Part("b", b"2")])[:-4]

    assert digest(content_type(), malformed) == digest(TEXT, malformed)
    assert not same(content_type(), [malformed, malformed + b"-"])


@given(st.sampled_from(KINDS), st.binary(max_size=40) | st.sampled_from(BODIES))
@settings(deadline=None)
def test_a_raw_body_is_not_taken_for_the_meaning_of_another(kind: bytes, body: bytes) -> None:
    canonical = canonical_body(kind, body)

    assert {digest(other, canonical) for other in KINDS}.isdisjoint({digest(kind, body)})


def test_each_way_to_read_a_body_has_digests_of_its_own() -> None:
    rules = (DEFAULT_BODY_RULE, OFF, body_rule(fingerprint=lambda request: request.body))
    ways = [
        digest(kind, body, rule)
        for kind, body in ((TEXT, b""), (JSON, b"{}"), (content_type(), b"--boundary--"))
        for rule in rules
    ]

    # "off" is one of them, the function makes three, and each kind of body has its own.
    assert len(set(ways)) == 1 + 3 + 3


def test_off_leaves_out_the_body_and_nothing_else() -> None:
    first = print_of(b"1", TEXT, OFF)

    assert print_of(b"2", TEXT, OFF) == first != print_of(b"1", TEXT)
    assert differing_parts(first, print_of(b"2", JSON, OFF)) == ("content type",)
    assert differing_parts(first, print_of(b"2", TEXT, OFF, query=b"")) == ("query",)
    assert differing_parts(first, print_of(b"2", TEXT, OFF, path=b"/refund")) == ("path",)


def test_a_function_stands_for_the_body_and_for_nothing_else() -> None:
    seen: list[FingerprintRequest] = []

    def amount(request: FingerprintRequest) -> bytes:
        seen.append(request)
        return request.body.partition(b";")[0]

    rule = body_rule(fingerprint=amount)
    first = print_of(b"5;monday", TEXT, rule)

    assert print_of(b"5;tuesday", TEXT, rule) == first
    assert differing_parts(first, print_of(b"6;monday", TEXT, rule)) == ("body",)
    assert differing_parts(first, print_of(b"5;monday", TEXT, rule, query=b"")) == ("query",)
    assert seen[0] == FingerprintRequest(
        "POST", b"/pay", b"a=1", TEXT, ((b"x-a", b"1"),), b"5;monday"
    )


@pytest.mark.parametrize("answer", ["text", None, bytearray(b"x"), 1])
def test_a_function_that_returns_no_bytes_is_a_mistake_that_is_told(answer: object) -> None:
    rule = body_rule(fingerprint=lambda _request: answer)  # type: ignore[arg-type]

    with pytest.raises(UsageError, match=type(answer).__name__):
        digest(TEXT, b"", rule)


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        (JSON, b'{"a":1}', b'{"a":2}'),
        (FORM, b"a=1", b"a=2"),
        (TEXT, b"1", b"2"),
        (content_type(), write([Part("a", b"1")]), write([Part("a", b"2")])),
    ],
)
def test_a_refusal_can_say_that_it_is_the_body_that_differs(
    kind: bytes, one: bytes, other: bytes
) -> None:
    assert differing_parts(print_of(one, kind), print_of(other, kind)) == ("body",)


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        (TEXT, b"text", "ee5e05d289dbc39408400aa26fa1c6b3"),
        (
            JSON,
            b'{"b":[1,2.50,"x\\u00e9"],"a":{"n":null,"t":true}}',
            "ce372085b281ee5f373aaaa26fa175c7",
        ),
        (JSON, b'["\\u0000"]', "e9efe09188b33339bcac72a26fa1755b"),
        (FORM, b"b=2&a=%41&a=1&c", "5c08aeb6d6180056797435a26fa15631"),
        (
            content_type(),
            write([Part("b", b"2"), Part("a", b"1", "a.txt", "text/plain")]),
            "3ffbf1732b930931e8da4ba26fa1b1be",
        ),
    ],
)
def test_the_digests_do_not_change_between_releases(
    kind: bytes, body: bytes, expected: str
) -> None:
    # Receipts are stored with them: after a change every honest retry would be refused.
    assert print_of(body, kind).hex() == expected
