"""The Idempotency-Key field: what is read, what is refused, and what is written."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayfloor.core.errors import ConfigurationError, InvalidKey
from replayfloor.core.key import (
    FIELD_BYTES_MAX,
    KEY_LENGTH_LIMIT,
    KEY_LENGTH_MAX,
    UNQUOTED,
    KeyRules,
    check_key,
    parse_key,
    write_key,
)

UUID4 = "8e03978e-40d5-43e8-bc93-6894a57f9324"
UUID4_LETTER = "e8e03978-40d5-43e8-bc93-6894a57f9324"
LENIENT = KeyRules(accept_unquoted=True)
PRINTABLE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=255)

# A wire value, the key in strict mode, the key with accept_unquoted; None: refused.
VECTORS: list[tuple[bytes, str | None, str | None]] = [
    (f'"{UUID4}"'.encode(), UUID4, UUID4),
    (UUID4.encode(), None, UUID4),
    (UUID4_LETTER.encode(), None, UUID4_LETTER),
    (b"clkyoesmbgybucifusbbtdsbohtyuuwz", None, "clkyoesmbgybucifusbbtdsbohtyuuwz"),
    (b'"random-0123456789"', "random-0123456789", "random-0123456789"),
    (b"KG5LxwFBepaKHyUD", None, "KG5LxwFBepaKHyUD"),
    (b"1234", None, "1234"),
    (f"urn:uuid:{UUID4}".encode(), None, f"urn:uuid:{UUID4}"),
    (b"order_1/retry", None, "order_1/retry"),
    (b":YWJj:", None, None),
    (b"?1", None, None),
    (b"@1700000000", None, None),
    (b'%"abc"', None, None),
    (b'""', None, None),
    (b'" "', None, None),
    (rb'"a\"b\\c"', r'a"b\c', r'a"b\c'),
    (rb'"a\n"', None, None),
    (b'"a', None, None),
    (b"'abc'", None, None),
    (b'"abc";v=1', "abc", "abc"),
    (b'"abc"; V=1', None, None),
    (b'"a", "b"', None, None),
    (b'"a, b"', "a, b", "a, b"),
    (b'"caf\xc3\xa9"', None, None),
    (b'"tab\there"', None, None),
    (b'  "abc"  ', "abc", "abc"),
    (b"", None, None),
    (b'"%41"', "%41", "%41"),
    (b'"k" x', None, None),
    (b'"1234567890123456789"', "1234567890123456789", "1234567890123456789"),
    (b"(a b)", None, None),
    (b"1.5", None, "1.5"),
    (b'"nul\x00"', None, None),
    (b'"cr\rlf\n"', None, None),
]


def _read(raw: bytes, rules: KeyRules) -> str | None:
    try:
        return parse_key([raw], rules)
    except InvalidKey:
        return None


@pytest.mark.parametrize(("raw", "strict", "lenient"), VECTORS)
def test_a_field_is_a_key_or_is_refused(
    raw: bytes, strict: str | None, lenient: str | None
) -> None:
    assert (_read(raw, KeyRules()), _read(raw, LENIENT)) == (strict, lenient)


def test_of_all_bytes_a_string_takes_the_printable_ones_that_need_no_escape() -> None:
    accepted = {byte for byte in range(256) if _read(b'"x' + bytes([byte]) + b'"', KeyRules())}

    assert accepted == {*range(0x20, 0x22), *range(0x23, 0x5C), *range(0x5D, 0x7F)} - {0x22}


@pytest.mark.parametrize("lines", [[], [b'"a"', b'"a"'], [b'"a"', b'"b"'], [b"", b'"b"']])
def test_anything_but_one_header_line_is_refused(lines: list[bytes]) -> None:
    with pytest.raises(InvalidKey, match="exactly one"):
        parse_key(lines)


def test_a_key_of_the_maximal_length_is_taken_and_one_more_is_not() -> None:
    assert parse_key([b'"' + b"x" * KEY_LENGTH_MAX + b'"']) == "x" * KEY_LENGTH_MAX
    with pytest.raises(InvalidKey, match="1 to 255 characters, it has 256"):
        parse_key([b'"' + b"x" * (KEY_LENGTH_MAX + 1) + b'"'])


def test_a_string_of_1024_characters_is_parsed_where_the_rules_allow_it() -> None:
    assert len(parse_key([b'"' + b"x" * 1024 + b'"'], KeyRules(length_max=1024))) == 1024


def test_a_field_longer_than_any_legal_key_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(InvalidKey, match="longer than"):
        parse_key([b'"' + b"x" * FIELD_BYTES_MAX + b'"'])


def test_the_longest_key_that_rules_allow_fits_the_field_with_every_character_escaped() -> None:
    key = '"' * KEY_LENGTH_LIMIT

    assert parse_key([write_key(key)], KeyRules(length_max=len(key))) == key


def test_a_bare_key_has_the_same_length_limit() -> None:
    assert parse_key([b"x" * KEY_LENGTH_MAX], LENIENT) == "x" * KEY_LENGTH_MAX
    with pytest.raises(InvalidKey):
        parse_key([b"x" * (KEY_LENGTH_MAX + 1)], LENIENT)


def test_letter_case_matters() -> None:
    assert parse_key([b'"ABC"']) != parse_key([b'"abc"'])


def test_a_pattern_has_to_match_the_whole_key() -> None:
    rules = KeyRules(pattern=re.compile("[a-z]{4}"))

    assert parse_key([b'"abcd"'], rules) == "abcd"
    for raw in (b'"abcde"', b'"1abcd"', b'"abc"'):
        with pytest.raises(InvalidKey, match="pattern"):
            parse_key([raw], rules)


def test_a_key_below_the_minimal_length_is_refused() -> None:
    with pytest.raises(InvalidKey, match="16 to 255"):
        parse_key([b'"short"'], KeyRules(length_min=16))


@pytest.mark.parametrize(
    ("length_min", "length_max"), [(0, 255), (2, 1), (1, FIELD_BYTES_MAX), (-1, 5)]
)
def test_limits_that_no_key_can_meet_are_refused(length_min: int, length_max: int) -> None:
    with pytest.raises(ConfigurationError, match="key length"):
        KeyRules(length_min=length_min, length_max=length_max)


def test_a_bare_key_is_answered_with_the_advice_to_quote_it() -> None:
    with pytest.raises(InvalidKey, match="double quotes") as refused:
        parse_key([b"secret-key-1"])

    assert "secret" not in str(refused.value)


@given(st.binary(max_size=60))
def test_whatever_the_bytes_a_refusal_is_an_invalid_key(raw: bytes) -> None:
    for rules in (KeyRules(), LENIENT):
        key = _read(raw, rules)
        assert key is None or check_key(key) == key


@given(PRINTABLE.filter(lambda key: key.strip(" ") != ""))
def test_what_is_written_is_read_back(key: str) -> None:
    assert parse_key([write_key(key)]) == key


@given(st.from_regex(UNQUOTED, fullmatch=True))
def test_quoted_and_bare_are_one_key_where_bare_is_accepted(bare: bytes) -> None:
    assert parse_key([bare], LENIENT) == parse_key([b'"' + bare + b'"'], LENIENT)


@given(st.text(min_size=1).filter(lambda key: not all(" " <= char <= "~" for char in key)))
def test_a_key_with_any_other_character_is_not_written(key: str) -> None:
    with pytest.raises(InvalidKey):
        write_key(key)


@pytest.mark.parametrize("key", ["", " ", "   ", "x" * (KEY_LENGTH_LIMIT + 1)])
def test_an_empty_blank_or_endless_key_is_not_written(key: str) -> None:
    with pytest.raises(InvalidKey):
        write_key(key)
