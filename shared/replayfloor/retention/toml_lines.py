"""On which line of a TOML text each key stands: the standard library's reader does not tell.

Only for text that `tomllib` has accepted: nothing is validated here, so that there is one opinion
on what is TOML. What a value means is not looked at either.
"""

from __future__ import annotations

import bisect
import re
from typing import Final, TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]
"""Keys from the top, and places in arrays, counted from 0."""

_BLANK: Final = re.compile(r"[ \t]*")
_NOTHING: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_STRING: Final = re.compile(
    # The end of a long string may be preceded by one or two quotes of its content.
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'",
    re.DOTALL,
)
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE: Final = re.compile(r"[^,\]}\n#]+")
_ESCAPE: Final = re.compile(
    r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]{2})|(.))", re.DOTALL
)
_ESCAPED: Final = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b"}


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line, counted from 1, on which each key, table and array member begins."""
    scanner = _Scanner(text)
    scanner.document()
    return scanner.lines


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._ends = [at for at, char in enumerate(text) if char == "\n"]
        self._last_of: dict[KeyPath, int] = {}
        self.lines: dict[KeyPath, int] = {}

    def document(self) -> None:
        table: KeyPath = ()
        self._skip(_NOTHING)
        while self._at < len(self._text):
            if self._text.startswith("[", self._at):
                table = self._header()
            else:
                self._pair(table)
            self._skip(_NOTHING)

    def _header(self) -> KeyPath:
        line = self._line()
        brackets = 2 if self._text.startswith("[[", self._at) else 1
        self._at += brackets
        keys = self._keys()
        self._at += brackets
        *above, own = keys
        table: KeyPath = ()
        for key in above:
            table = self._current((*table, key))
            self._note(table, line)
        table = (*table, own)
        self._note(table, line)
        if brackets == 1:
            return table
        self._last_of[table] = self._last_of.get(table, -1) + 1
        table = self._current(table)
        self._note(table, line)
        return table

    def _current(self, table: KeyPath) -> KeyPath:
        """Return the newest member, if the table is an array of tables."""
        return (*table, self._last_of[table]) if table in self._last_of else table

    def _pair(self, table: KeyPath) -> None:
        line = self._line()
        for key in self._keys():
            table = (*table, key)
            self._note(table, line)
        self._at += 1  # the equals sign
        self._skip(_BLANK)
        self._value(table)

    def _keys(self) -> list[str]:
        keys: list[str] = []
        while True:
            self._skip(_BLANK)
            if quoted := _STRING.match(self._text, self._at):
                self._at = quoted.end()
                keys.append(_unquoted(quoted[0]))
            else:
                keys.append(self._take(_BARE_KEY))
            self._skip(_BLANK)
            if not self._text.startswith(".", self._at):
                return keys
            self._at += 1

    def _value(self, path: KeyPath) -> None:
        start = self._text[self._at]
        if start in "\"'":
            self._take(_STRING)
        elif start == "[":
            self._members(path, "]")
        elif start == "{":
            self._members(path, "}")
        else:
            self._take(_BARE_VALUE)

    def _members(self, path: KeyPath, end: str) -> None:
        """Walk through an array or an inline table."""
        self._at += 1
        self._skip(_NOTHING)
        count = 0
        while self._text[self._at] != end:
            if end == "}":
                self._pair(path)
            else:
                self._note((*path, count), self._line())
                self._value((*path, count))
            count += 1
            self._skip(_NOTHING)
            if self._text[self._at] == ",":
                self._at += 1
                self._skip(_NOTHING)
        self._at += 1

    def _note(self, path: KeyPath, line: int) -> None:
        self.lines.setdefault(path, line)

    def _line(self) -> int:
        return bisect.bisect_left(self._ends, self._at) + 1

    def _skip(self, pattern: re.Pattern[str]) -> None:
        if match := pattern.match(self._text, self._at):
            self._at = match.end()

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise ValueError(f"no TOML on line {self._line()}")
        self._at = match.end()
        return match[0]


def _unquoted(key: str) -> str:
    if key.startswith("'"):
        return key[1:-1]
    return _ESCAPE.sub(_unescaped, key[1:-1])


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    return chr(int(code, 16)) if code else _ESCAPED.get(match[4], match[4])
