"""Reading what is reported on: journals in pages, JSON lines line by line. No judgement here.

Nothing is changed and nothing is made: a journal that is not there is an error, not a new file.
Memory does not grow with a source.
"""

from __future__ import annotations

import glob
import sys
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import unquote, urlsplit

from replayfloor.client.journal import Journal, open_journal
from replayfloor.client.tail.lines import LineCorrupt, of_line
from replayfloor.client.tail.report import Found
from replayfloor.client.tail.sightings import Sighting, of_entry
from replayfloor.core.errors import UsageError
from replayfloor.core.journal import ReadHistory

STDIN: Final = "-"

LINE_BYTES_MAX: Final = 256 * 1024
"""An event takes a few hundred bytes. What is longer is no line of ours, and is not kept."""

_SQLITE: Final = "sqlite:///"
_JOURNALS: Final = (_SQLITE, "postgresql://", "postgres://")


@dataclass(slots=True)
class Source:
    """One source and what was found in it; the counts grow while it is read.

    `name` is what to show: the path, or the URL without its password. The counts are those of
    Found.
    """

    name: str
    address: str
    is_journal: bool
    count: int = 0
    skipped: int = 0
    torn: bool = False

    def found(self) -> Found:
        """Return what was found so far."""
        return Found(self.name, self.is_journal, self.count, self.skipped, self.torn)


def expand(given: str) -> list[Source]:
    """Return the sources that a URL, a path, a pattern or `-` names, without opening them.

    Raises UsageError if there is none.
    """
    if given.startswith(_JOURNALS):
        return [Source(_without_password(given), given, is_journal=True)]
    if given == STDIN:
        return [Source("stdin", STDIN, is_journal=False)]
    if "://" in given or given.startswith(("sqlite:", "memory:")):
        raise UsageError(
            f"{_without_password(given)} cannot be reported on: give a journal (sqlite:///path, "
            "postgresql://…), a file of JSON lines, or - for stdin"
        )
    # A file whose name has a bracket in it is a file first.
    paths = [given] if Path(given).exists() else sorted(glob.glob(given))
    if not paths:
        raise UsageError(f"there is no file {given}")
    return [Source(path, path, is_journal=False) for path in paths]


def read(source: Source, at_ns: int) -> Iterator[Sighting]:
    """Yield what a source tells, as of the moment `at_ns`.

    Raises StoreUnavailable if a journal cannot be read, UsageError for a source that is not one or
    that a later version wrote, OSError for a file that cannot be read.
    """
    return _read_journal(source, at_ns) if source.is_journal else _read_lines(source)


def _read_journal(source: Source, at_ns: int) -> Iterator[Sighting]:
    if source.address.startswith(_SQLITE):
        path = Path(unquote(source.address.removeprefix(_SQLITE)))
        if not path.is_file() or path.stat().st_size == 0:
            # A look makes none: that nothing is open in it would be a lie.
            raise UsageError(f"there is no journal at {path}")
    journal: Journal = open_journal(source.address, creates=False)
    with closing(journal):
        after: tuple[str, str] | None = None
        while page := journal.history(ReadHistory(after=after)):
            for entry in page:
                source.count += 1
                yield of_entry(entry, at_ns)
            after = (page[-1].namespace, page[-1].operation_id)


def _read_lines(source: Source) -> Iterator[Sighting]:
    with _opened(source.address) as file:
        while line := file.readline(LINE_BYTES_MAX):
            if not line.strip():
                # The writer begins with a line end after it has torn a line.
                continue
            source.count += 1
            whole = line.endswith(b"\n")
            if not whole and len(line) == LINE_BYTES_MAX:
                whole = _skip_rest(file)
                line = b""
            try:
                sighting = of_line(line)
            except LineCorrupt:
                source.skipped += 1
                source.torn = not whole
                continue
            except UsageError as error:
                raise UsageError(f"{source.name}, line {source.count}: {error}") from error
            if sighting is not None:
                yield sighting


def _skip_rest(file: BinaryIO) -> bool:
    """Read to the end of the line; return whether it has one."""
    while part := file.readline(LINE_BYTES_MAX):
        if part.endswith(b"\n"):
            return True
    return False


@contextmanager
def _opened(address: str) -> Generator[BinaryIO]:
    with nullcontext(sys.stdin.buffer) if address == STDIN else open(address, "rb") as file:
        yield file


def _without_password(url: str) -> str:
    """Return a URL as it may be shown."""
    if url.startswith(_SQLITE):
        return url
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    # The query may name a password too.
    return parts._replace(netloc=user.partition(":")[0] + at + host, query="").geturl()
