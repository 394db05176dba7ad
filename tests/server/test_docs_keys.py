"""What is said of the key, compared with what the middleware takes."""

from __future__ import annotations

import re
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayfloor.core.errors import InvalidKey
from replayfloor.core.key import KeyRules, parse_key, write_key
from replayfloor.core.uuid7 import minted_ms, uuid7
from replayfloor.server.docs import facts
from replayfloor.server.docs.keys import (
    key_example,
    key_rules,
    key_schema,
    pattern_text,
    uniqueness,
)
from replayfloor.server.policy import Options
from replayfloor.server.settings import Settings
from server.docs_settings import every_settings, settings_of, some_examples

FEW = some_examples(40)


RULES = st.builds(
    lambda low, more, unquoted: (
        settings_of(
            key_length_min=low, key_length_max=low + more, accept_unquoted=unquoted
        ).routes.defaults
    ),
    st.sampled_from((1, 2, 7, 250, 256, 1000)),
    st.sampled_from((0, 1, 10, 300)),
    st.booleans(),
)
FIELDS = st.text('ab "\\\\[]é\t!#~^:.-', max_size=12)


def _fits(value: str, schema: dict[str, object]) -> bool:
    low, high = cast("int", schema["minLength"]), cast("int", schema["maxLength"])
    return low <= len(value) <= high and bool(re.search(cast("str", schema["pattern"]), value))


def _is_taken(value: str, rules: KeyRules) -> bool:
    try:
        parse_key([value.encode("latin-1")], rules)
    except InvalidKey:
        return False
    return True


@some_examples(100)
@given(FIELDS | FIELDS.map(lambda text: f'"{text}"'), RULES)
def test_the_schema_takes_the_fields_that_the_middleware_takes(
    value: str, options: Options
) -> None:
    # White space around the value belongs to the line, and not to the field (RFC 9110, 5.5).
    value = value.strip(" \t")

    assert _fits(value, key_schema(options)) is _is_taken(value, options.key_rules)


@some_examples(100)
@given(RULES, st.data())
def test_the_schema_takes_every_key_of_the_right_length_and_no_other(
    options: Options, data: st.DataObject
) -> None:
    rules = options.key_rules
    length = data.draw(
        st.sampled_from((rules.length_min - 1, rules.length_min, rules.length_max))
        | st.just(rules.length_max + 1)
    )
    character = data.draw(st.sampled_from('a"\\~'))
    value = '"' + character.replace("\\", "\\\\").replace('"', '\\"') * length + '"'

    assert _fits(value, key_schema(options)) is _is_taken(value, rules)
    assert _is_taken(value, rules) is (rules.length_min <= length <= rules.length_max)


# A longer key takes hypothesis a second.
@FEW
@given(RULES.filter(lambda options: options.key_rules.length_max <= 17), st.data())
def test_the_schema_makes_fields_that_are_taken(options: Options, data: st.DataObject) -> None:
    pattern = cast("str", key_schema(options)["pattern"])
    value = data.draw(st.from_regex(pattern.replace("$", r"\Z"), fullmatch=True))

    assert _is_taken(value, options.key_rules)


@pytest.mark.parametrize(
    ("value", "taken"),
    [
        ('" "', False),
        ('"     "', False),
        ('" a "', True),
        ('""', False),
        ("a" * 255, True),
        ("a" * 256, False),
        (f'"{"a" * 1000}"', True),
        (f'"{"a" * 1001}"', False),
        (f'"{chr(92) * 2000}"', True),
    ],
)
def test_the_schema_knows_the_edges(value: str, *, taken: bool) -> None:
    options = settings_of(key_length_max=1000, accept_unquoted=True).routes.defaults

    assert _fits(value, key_schema(options)) is taken
    assert _is_taken(value, options.key_rules) is taken


@pytest.mark.parametrize("unquoted", [False, True])
def test_the_schema_of_a_key_that_tells_its_age_takes_such_keys_only(*, unquoted: bool) -> None:
    made = settings_of(require_uuid7=True, retention=60, accept_unquoted=unquoted)
    schema = key_schema(made.routes.defaults)
    key = str(uuid7(1_700_000_000_000, bytes(10)))

    assert _fits(f'"{key}"', schema)
    assert _fits(f'"{key.upper()}"', schema)
    assert _fits(key, schema) is unquoted
    assert not _fits('"8e03978e-40d5-43e8-bc93-6894a57f9324"', schema)
    assert not _fits('"abc"', schema)


@FEW
@given(every_settings())
def test_an_example_is_a_key_that_is_taken(drawn: Settings) -> None:
    options = drawn.routes.defaults
    value = key_example(options)
    if value is not None:
        key = parse_key([value.encode()], options.key_rules)
        assert _fits(value, key_schema(options))
        assert not options.require_uuid7 or minted_ms(key) is not None


def test_the_example_of_a_key_that_tells_its_age_tells_one() -> None:
    options = settings_of(require_uuid7=True, retention=60).routes.defaults

    assert key_example(options) == '"017f22e2-79b0-7cc3-98c4-dc0c0c07398f"'


@pytest.mark.parametrize("pattern", [None, "[0-9]+", "[0-9a-f]{32}", "[A-Z0-9-]{36}", ".{8,}"])
def test_the_usual_formats_have_an_example(pattern: str | None) -> None:
    assert key_example(settings_of(key_pattern=pattern).routes.defaults) is not None


def test_a_format_without_an_example_has_none() -> None:
    assert key_example(settings_of(key_pattern="ord_[0-9]+").routes.defaults) is None


@FEW
@given(every_settings())
def test_the_rules_of_the_key_are_said(drawn: Settings) -> None:
    options = drawn.routes.defaults
    rules, text = options.key_rules, " ".join(key_rules(options))

    assert str(rules.length_min) in text
    assert str(rules.length_max) in text
    assert ("quotes may be left out" in text) is rules.accept_unquoted
    assert ("UUID version 7" in text) is options.require_uuid7
    assert rules.pattern is None or rules.pattern.pattern in text


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (re.compile("a"), "a"),
        (re.compile("a", re.IGNORECASE), "(?i)a"),
        (re.compile("(?i)a"), "(?i)a"),
        (re.compile("a b", re.VERBOSE | re.IGNORECASE), "(?ix)a b"),
    ],
)
def test_the_flags_of_a_pattern_are_shown(pattern: re.Pattern[str], text: str) -> None:
    assert pattern_text(pattern) == text
    assert f"`{text}`" in " ".join(key_rules(settings_of(key_pattern=pattern).routes.defaults))


def test_a_backtick_in_a_pattern_does_not_end_the_code() -> None:
    assert facts.code("a") == "`a`"
    assert facts.code("a``b`") == "``` a``b` ```"


def test_whose_keys_are_kept_apart_is_said_if_it_is_known() -> None:
    assert "another" not in uniqueness(None)
    assert "same key of another account" in uniqueness("account")


def test_the_longest_key_that_can_be_sent_fits_its_schema() -> None:
    options = settings_of(key_length_max=2047).routes.defaults

    assert _fits(write_key('"' * 2047).decode(), key_schema(options))
