"""Reads tables of a policy file strictly: what is not known is refused, on its line. No policies.

Every error of this module says in which file and on which line, and what to write instead.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final, TypeAlias, cast

from replayfloor.retention.errors import PolicyError
from replayfloor.retention.toml_lines import KeyPath, key_lines

Content: TypeAlias = Mapping[str, object]

_PLACE: Final = re.compile(r"\(at line (\d+), column \d+\)")
INTEGER_END: Final = 1 << 63
"""Integers of TOML have 64 bits (TOML 1.0, Integer)."""

_LONG_NUMBER: Final = re.compile(r"[0-9][0-9_]{639,}")
"""640 digits is the least that the interpreter can be told to convert."""

_SIMILAR: Final = 0.6
"""From here on two names are taken for one, mistyped; the standard library's own default."""


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed text, with its name and the line of each of its keys."""

    file: str
    content: Content
    lines: Mapping[KeyPath, int]

    def line(self, path: KeyPath) -> int | None:
        """Return the line of a key, or of the nearest one above it; None for the whole text."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)

    def place(self, path: KeyPath) -> str:
        """Return the file and the line of a key, as text."""
        line = self.line(path)
        return self.file if line is None else f"{self.file}:{line}"

    def table(self, path: KeyPath = ()) -> Table | None:
        """Return the table at a path; None if there is none. Raises PolicyError if it is none."""
        content: object = self.content
        for at, key in enumerate(path):
            if not isinstance(content, dict):
                raise self.error(path[:at], f"{path[at - 1]!r} is a table, not {content!r}")
            inner = cast("Content", content)
            if key not in inner:
                return None
            content = inner[cast("str", key)]
        if not isinstance(content, Mapping):
            raise self.error(path, f"{path[-1]!r} is a table, not {content!r}")
        return Table(self, path, cast("Content", content))

    def error(self, path: KeyPath, message: str, advice: str = "") -> PolicyError:
        """Return an error that points at a key."""
        return PolicyError(message, advice=advice, file=self.file, line=self.line(path))


def read_document(text: str, file: str) -> Document:
    """Return a text of TOML, parsed; `file` is its name for messages. Raises PolicyError."""
    try:
        # tomllib reads "\r\n" as one end of line, and so does the count of "\n".
        document = Document(file, tomllib.loads(text), key_lines(text))
    except tomllib.TOMLDecodeError as error:
        found = _PLACE.search(str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        message = _PLACE.sub("", str(error)).strip()
        raise PolicyError(f"this is not TOML: {message}", file=file, line=line) from None
    except RecursionError:
        raise PolicyError("this is nested too deeply", file=file, line=_deepest(text)) from None
    except ValueError as error:
        # The interpreter converts no integer of so many digits, and tomllib lets its error pass.
        number = _LONG_NUMBER.search(text)
        line = text.count("\n", 0, number.start() if number else len(text)) + 1
        raise PolicyError(f"a number is too long: {error}", file=file, line=line) from None
    _refuse_long_integers(document)
    return document


def _refuse_long_integers(document: Document) -> None:
    """Refuse what TOML does not have: the interpreter cannot even show some of them."""
    unseen: list[tuple[KeyPath, object]] = [((), document.content)]
    while unseen:
        path, value = unseen.pop()
        if isinstance(value, int) and not -INTEGER_END <= value < INTEGER_END:
            raise document.error(path, "an integer has more than 64 bits")
        if isinstance(value, dict):
            members = cast("dict[str, object]", value)
            unseen.extend(((*path, key), each) for key, each in members.items())
        elif isinstance(value, list):
            elements = cast("list[object]", value)
            unseen.extend(((*path, at), each) for at, each in enumerate(elements))


def _deepest(text: str) -> int:
    """Return the line on which most brackets are open; those in strings are counted too."""
    depth = most = 0
    line = deepest = 1
    for char in text:
        line += char == "\n"
        depth += (char in "[{") - (char in "]}")
        if depth > most:
            most, deepest = depth, line
    return deepest


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a document."""

    document: Document
    path: KeyPath
    content: Content

    @property
    def place(self) -> str:
        """The file and the line of the table itself."""
        return self.place_of()

    def place_of(self, *below: str | int) -> str:
        """Return the file and the line of a key below the table, as text."""
        return self.document.place((*self.path, *below))

    def error(self, below: Iterable[str | int], message: str, advice: str = "") -> PolicyError:
        """Return an error that points at a key below the table; () points at the table."""
        return self.document.error((*self.path, *below), message, advice)

    def refuse_unknown(self, known: Iterable[str], synonyms: Mapping[str, str]) -> None:
        """Refuse a name that is not known, with the one that was probably meant."""
        names = sorted(known)
        for name in self.content:
            if name not in names:
                where = ".".join(map(str, self.path)) or "the file"
                raise self.error(
                    (name,),
                    f"{name!r} is unknown in {where}",
                    did_you_mean(name, names, synonyms),
                )

    def tables(self) -> Iterator[tuple[str, Table]]:
        """Return every table below; raises PolicyError if there is anything else."""
        for name in self.content:
            inner = self.document.table((*self.path, name))
            if inner is not None:
                yield name, inner

    def text(self, name: str) -> str | None:
        """Return a text that is not blank; None if there is none. Raises PolicyError."""
        value = self.content.get(name)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise self.error((name,), f"{name} is a text in quotes, not {value!r}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts; () if there is none. Raises PolicyError."""
        value = self.content.get(name, [])
        if not isinstance(value, list):
            raise self.error((name,), f"{name} is a list, not {value!r}", f'write {name} = ["…"]')
        for at, each in enumerate(cast("list[object]", value)):
            if not isinstance(each, str) or not each:
                raise self.error((name, at), f"{name} is a list of names, not of {each!r}")
        return tuple(cast("list[str]", value))

    def day(self, name: str) -> date | None:
        """Return a date; None if there is none. Raises PolicyError."""
        value = self.content.get(name)
        if value is None:
            return None
        if isinstance(value, date) and not isinstance(value, datetime):
            return value
        try:
            return date.fromisoformat(str(value))
        except ValueError:
            advice = "write it as 2026-11-30"
            raise self.error((name,), f"{name} is a date, not {value!r}", advice) from None


def did_you_mean(name: str, known: Iterable[str], synonyms: Mapping[str, str]) -> str:
    """Return advice for a name that is not known: the nearest one, or all of them."""
    names = list(known)
    plain = name.lower().replace("-", "_")
    if plain in synonyms and synonyms[plain] in names:
        return f"did you mean {synonyms[plain]!r}?"
    if near := difflib.get_close_matches(plain, names, n=1, cutoff=_SIMILAR):
        return f"did you mean {near[0]!r}?"
    return f"known are {', '.join(names)}" if names else "there is nothing of that kind"
