"""The Idempotency-Key field: a key or InvalidKey, and never another reading than http-sf's."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

import http_sf

from replayfloor.core.errors import InvalidKey
from replayfloor.core.key import KEY_LENGTH_LIMIT, KeyRules, parse_key, write_key

RULES: Final = (
    KeyRules(),
    KeyRules(accept_unquoted=True),
    KeyRules(length_min=8, length_max=16),
    KeyRules(length_min=2, length_max=KEY_LENGTH_LIMIT, accept_unquoted=True),
    KeyRules(pattern=re.compile("[a-z0-9-]+"), accept_unquoted=True),
)

_BARE: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:~+/=@-")
_BARE_FIRST: Final = frozenset(bytes(sorted(_BARE))) - frozenset(b"_.:~+/=@-")
_BARE_LENGTH_MAX: Final = 255


def check(data: bytes) -> None:
    """Read one field by every rule, and compare with what it must be."""
    for rules in RULES:
        key = _read([data], rules)
        assert key == _expected(data, rules), (data, rules)
        if key is not None:
            assert _read([write_key(key)], rules) == key, "a key that was read can be written"
            assert write_key(key).isascii()
        for lines in ([], [data, data], [data, b'"k"']):
            assert _read(lines, rules) is None, "one line, or none of them counts"
    _check_writing(data.decode("latin-1"))
    _check_writing(data.decode("utf-16-le", "surrogatepass" if len(data) % 2 == 0 else "ignore"))


def _check_writing(text: str) -> None:
    try:
        written = write_key(text)
    except InvalidKey:
        return
    assert parse_key([written], KeyRules(length_max=KEY_LENGTH_LIMIT)) == text


def _read(lines: list[bytes], rules: KeyRules) -> str | None:
    try:
        return parse_key(lines, rules)
    except InvalidKey as refused:
        _never_tells(lines, str(refused))
        return None


def _never_tells(lines: list[bytes], message: str) -> None:
    """The refusal is sent back and logged, and a key may be a secret."""
    for line in lines:
        told = line.decode("latin-1").strip(' "')
        # The header's name stands in every refusal, and an input may consist of it.
        own = told.replace("Idempotency-Key", "")
        assert len(own) < 12 or told not in message, "the refusal repeats the value"


def _expected(raw: bytes, rules: KeyRules) -> str | None:
    text = raw.strip(b" \t")
    if len(text) > 4096:
        return None
    item = _item(text)
    key = item if type(item) is str else None
    if key is None and rules.accept_unquoted and _is_bare(text):
        assert not isinstance(item, bytes | bool | datetime), "another type is no key"
        key = text.decode("ascii")
    if key is None or not key.strip(" ") or not rules.length_min <= len(key) <= rules.length_max:
        return None
    return key if rules.pattern is None or rules.pattern.fullmatch(key) else None


def _item(text: bytes) -> object:
    try:
        parsed: object = http_sf.parse(text, tltype="item")
    except (http_sf.StructuredFieldError, ValueError):
        return None
    assert isinstance(parsed, tuple)
    return parsed[0]


def _is_bare(text: bytes) -> bool:
    return 0 < len(text) <= _BARE_LENGTH_MAX and text[0] in _BARE_FIRST and _BARE.issuperset(text)
