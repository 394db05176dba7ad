"""Bars for a terminal: the share of a horizon that is covered. Text only, no colour, no terminal.

The two parts are told apart by their characters, so that the picture is the same in a log.
"""

from __future__ import annotations

import textwrap
import unicodedata
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

BAR_WIDTH: Final = 30


@dataclass(frozen=True, slots=True)
class Ink:
    """The characters of a picture."""

    covered: str
    left_open: str
    arrow: str


BLOCKS: Final = Ink(covered="█", left_open="░", arrow="◀")
ASCII: Final = Ink(covered="#", left_open=".", arrow="<")

COLUMNS: Final = 80
"""What every terminal has. Only an address that is longer goes beyond."""


def ink_for(encoding: str) -> Ink:
    """Return the characters that a terminal of an encoding can show."""
    # Only UTF-8 has them for certain; many code pages have one of the blocks and not the other.
    is_utf8 = encoding.lower().replace("-", "").replace("_", "").startswith("utf8")
    return BLOCKS if is_utf8 else ASCII


def bar(share: Fraction, ink: Ink, width: int = BAR_WIDTH) -> str:
    """Return a bar of `width` characters for a share of 0 to 1.

    Rounded, but only nothing is shown as empty, and only everything as full.
    """
    filled = round(share * width)
    if 0 < share < 1:
        filled = min(max(filled, 1), width - 1)
    return ink.covered * filled + ink.left_open * (width - filled)


def printable(text: str, encoding: str) -> str:
    """Return a text as a terminal of an encoding can show it; control characters are escaped.

    A source or a note may come from anybody's file, and an escape sequence in it would be obeyed
    by the terminal.
    """
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return safe.encode(encoding, "backslashreplace").decode(encoding)


def cells(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(_cells(char) for char in text)


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def pad(text: str, width: int) -> str:
    """Return a text with blanks behind it, up to so many columns."""
    return text + " " * max(0, width - cells(text))


def wrapped(text: str, indent: int) -> list[str]:
    """Return a text in lines of at most COLUMNS, indented; words, and addresses, stay whole."""
    return textwrap.wrap(
        text,
        COLUMNS,
        initial_indent=" " * indent,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
