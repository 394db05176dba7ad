"""The options `fingerprint=` and `exclude=`: what they say, and what is refused at once."""

from __future__ import annotations

import pytest

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.body_rules import (
    DEFAULT_BODY_RULE,
    BodyRule,
    FingerprintRequest,
    body_rule,
)


def whole(request: FingerprintRequest) -> bytes:
    return request.body


async def too_late(request: FingerprintRequest) -> bytes:
    return request.body


def test_without_options_the_body_counts_by_meaning() -> None:
    assert body_rule() is DEFAULT_BODY_RULE
    assert body_rule(fingerprint="body", exclude=[]) is DEFAULT_BODY_RULE
    assert BodyRule() == DEFAULT_BODY_RULE


def test_the_body_can_be_left_out_or_left_to_a_function() -> None:
    assert body_rule(fingerprint="off") == BodyRule(counts=False)
    assert body_rule(fingerprint=whole) == BodyRule(function=whole)


@pytest.mark.parametrize(
    ("pointer", "segments"),
    [
        ("/sent_at", ("sent_at",)),
        ("/items/0/ts", ("items", "0", "ts")),
        ("/", ("",)),
        ("/a~1b/c~0d", ("a/b", "c~d")),
        ("/~01", ("~1",)),
        ("/*/-", ("*", "-")),
        ("/ä\n", ("ä\n",)),
    ],
)
def test_a_pointer_is_read_as_rfc_6901_has_it(pointer: str, segments: tuple[str, ...]) -> None:
    assert body_rule(exclude=[pointer]).exclude == (segments,)


@pytest.mark.parametrize("pointer", ["", "sent_at", "#/a", "$.a", "/a~", "/a~2b", " /a", b"/a", 1])
def test_what_is_no_pointer_is_refused(pointer: str) -> None:
    with pytest.raises(ConfigurationError, match="exclude"):
        body_rule(exclude=[pointer])


def test_who_excludes_the_whole_body_is_told_the_option_for_it() -> None:
    with pytest.raises(ConfigurationError, match="fingerprint='off'"):
        body_rule(exclude=["/a", ""])


@pytest.mark.parametrize("exclude", ["/sent_at", b"/sent_at"])
def test_one_pointer_instead_of_several_is_refused(exclude: str) -> None:
    with pytest.raises(ConfigurationError, match="sequence"):
        body_rule(exclude=exclude)


@pytest.mark.parametrize("fingerprint", ["off", whole])
def test_an_exclusion_that_would_have_no_effect_is_refused(fingerprint: object) -> None:
    with pytest.raises(ConfigurationError, match="no effect"):
        body_rule(fingerprint=fingerprint, exclude=["/a"])  # type: ignore[arg-type]


@pytest.mark.parametrize("fingerprint", ["raw", "", b"off", 1, False, too_late])
def test_a_fingerprint_that_is_neither_a_word_nor_a_function_is_refused(
    fingerprint: object,
) -> None:
    with pytest.raises(ConfigurationError, match="fingerprint"):
        body_rule(fingerprint=fingerprint)  # type: ignore[arg-type]


def test_rules_are_values() -> None:
    one, again = (body_rule(exclude=("/a", "/b/0")) for _ in range(2))

    assert len({one, again, body_rule(exclude=["/a"]), DEFAULT_BODY_RULE}) == 3
