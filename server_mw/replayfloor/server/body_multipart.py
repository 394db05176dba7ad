"""The digest of a multipart/form-data body, made as it arrives; no part is kept.

Splitting it into parts is python-multipart's work. Here is what of them counts, and what is not
certain enough to be split: such a body is taken byte for byte, like one that is malformed.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser

from replayfloor.core.canonical import FIELDS_MAX, Pointer, field_names
from replayfloor.core.fingerprint import media_type_of

HEADERS_MAX: Final = 8
"""Headers of one part. The parser's own default, like the next; fixed here, because what exceeds
them is hashed in another way, and that must not change with a release of the parser."""

HEADER_BYTES_MAX: Final = 4096 + 128
"""Bytes of one header of a part, its name and its value."""

PIECE_BYTES: Final = 64 * 1024
"""Bytes that are given to the parser at a time, so that a hostile body is soon given up."""

_MULTIPART: Final = b"multipart/form-data"

_BOUNDARY: Final = re.compile(rb"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")
"""RFC 2046, 5.1.1."""

_PARAMETER: Final = re.compile(
    rb"""[ \t]*;[ \t]*([^\s;="]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))""", re.DOTALL
)

_NAME: Final = re.compile(rb"[^\\]*")
"""A name with a backslash is read in two ways: with it, and as the start of an escape."""


class PartsHash:
    """Hashes a body by its parts: each part's headers and content, whatever separates them.

    Independent of the boundary and of the order of parts with different names; the parts of one
    name keep their order. An epilogue is ignored (RFC 2046, 5.1.1). Unclear, and so without a
    digest, are a preamble, white space after a delimiter, more than FIELDS_MAX delimiters, and
    what only some readers take for a delimiter: within a line, in the epilogue, or with more
    behind it. Django, for one, reads on after the last delimiter.
    """

    def __init__(self, boundary: bytes, excluded: frozenset[bytes]) -> None:
        """Take the boundary, and the names of the parts that do not count."""
        self._excluded = excluded
        self._opening, self._delimiter = b"--" + boundary, b"\r\n--" + boundary
        self._opened = self._tail = b""
        self._delimiters = self._begun = 0
        self._parts: list[tuple[bytes, bytes]] = []
        self._part = _Part()
        self._is_clear, self._is_complete = True, False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin_part,
                "on_header_field": self._add_field,
                "on_header_value": self._add_value,
                "on_header_end": self._end_header,
                "on_headers_finished": self._end_headers,
                "on_part_data": self._add_data,
                "on_part_end": self._end_part,
                "on_end": self._end,
            },
            max_header_count=HEADERS_MAX,
            max_header_size=HEADER_BYTES_MAX,
        )

    def update(self, chunk: bytes) -> None:
        """Take the next bytes of the body; it does not matter where it is divided."""
        start = 0
        while self._is_clear and start < len(chunk):
            piece = chunk[start : start + PIECE_BYTES]
            try:
                self._check_opening(piece)
                self._check_delimiters(piece)
                self._parser.write(piece)
            except (FormParserError, _Unclear):
                self._is_clear = False
            start += PIECE_BYTES

    def _check_opening(self, piece: bytes) -> None:
        """Accept no preamble: how much of it the parser skips depends on where the pieces end."""
        if len(self._opened) < len(self._opening):
            self._opened += piece[: len(self._opening) - len(self._opened)]
            if not self._opening.startswith(self._opened):
                raise _Unclear("it does not begin with a delimiter")

    def _check_delimiters(self, piece: bytes) -> None:
        """Bound the work: the parser is slow at what looks like a delimiter, and at padded ones."""
        window = self._tail + piece
        delimiter = self._delimiter
        # One that ends the piece before is in this window too.
        self._delimiters += window.count(delimiter) - (self._tail == delimiter)
        self._tail = window[-len(delimiter) :]
        if self._delimiters > FIELDS_MAX:
            raise _Unclear("too many delimiters")
        if delimiter + b" " in window or delimiter + b"\t" in window:
            raise _Unclear("a delimiter with white space after it")
        # What precedes the first two bytes is in the window before.
        at = window.find(self._opening, 2)
        while at >= 0:
            if window[at - 2 : at] != b"\r\n":
                raise _Unclear("a delimiter within a line")
            at = window.find(self._opening, at + 1)

    def digest(self) -> bytes | None:
        """Return the digest, or None if the body is malformed, unclear or not complete."""
        # Each part ends with one delimiter, and none follows the last.
        if not (self._is_clear and self._is_complete and self._delimiters == self._begun):
            return None
        whole = hashlib.sha256(b"m")
        # Stable: the parts of one name stay in their order.
        for _name, digest in sorted(self._parts, key=_name_of):
            whole.update(digest)
        return whole.digest()

    def _begin_part(self) -> None:
        self._begun += 1
        self._part = _Part()

    def _add_field(self, data: bytes, start: int, end: int) -> None:
        self._part.field += data[start:end]

    def _add_value(self, data: bytes, start: int, end: int) -> None:
        self._part.value += data[start:end]

    def _end_header(self) -> None:
        self._part.end_header()

    def _end_headers(self) -> None:
        self._part.end_headers()

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        self._part.hash.update(memoryview(data)[start:end])

    def _end_part(self) -> None:
        if self._part.name not in self._excluded:
            self._parts.append((self._part.name, self._part.hash.digest()))

    def _end(self) -> None:
        self._is_complete = True


def parts_hash(content_type: bytes, exclude: tuple[Pointer, ...]) -> PartsHash | None:
    """Return the hash of a body of this type, or None if it is not one of parts.

    Parts that a pointer of one segment names do not count.
    """
    if media_type_of(content_type) != _MULTIPART:
        return None
    boundary = _parameters(content_type).get(b"boundary", b"")
    return PartsHash(boundary, field_names(exclude)) if _BOUNDARY.fullmatch(boundary) else None


class _Unclear(ValueError):
    """The parts can be read in more than one way, or with too much work."""


class _Part:
    """What is known of the part that is arriving."""

    __slots__ = ("_headers", "field", "hash", "name", "value")

    def __init__(self) -> None:
        self.name = b""
        self.hash = hashlib.sha256()
        self._headers: list[tuple[bytes, bytes]] = []
        self.field = self.value = b""

    def end_header(self) -> None:
        value = self.value.strip(b" \t")
        if b"\n" in value or b"\0" in value:
            raise _Unclear("some readers end a header here")
        self._headers.append((self.field.lower(), value))
        self.field = self.value = b""

    def end_headers(self) -> None:
        """Begin the hash: the headers, then, without a length, the content."""
        self.name = _name_in(self._headers)
        # All of them count, though RFC 7578 (4.8) has most ignored: a handler can read them.
        self._headers.sort(key=_name_of)
        self.hash.update(bytes([len(self._headers)]))
        for header in self._headers:
            for text in header:
                self.hash.update(len(text).to_bytes(8, "big") + text)


def _name_of(pair: tuple[bytes, bytes]) -> bytes:
    return pair[0]


def _name_in(headers: list[tuple[bytes, bytes]]) -> bytes:
    dispositions = [value for field, value in headers if field == b"content-disposition"]
    if len(dispositions) != 1 or media_type_of(dispositions[0]) != b"form-data":
        raise _Unclear("a part of a form has one disposition (RFC 7578, 4.2)")
    parameters = _parameters(dispositions[0])
    name = parameters.get(b"name")
    # "name*" (RFC 5987) is not allowed here, and readers differ in whether it counts.
    if name is None or not _NAME.fullmatch(name) or b"name*" in parameters:
        raise _Unclear("a part of a form has one name")
    return name


def _parameters(value: bytes) -> dict[bytes, bytes]:
    """Return the parameters of a header's value, by lower-case name, as they are between quotes.

    Empty if they are not clear: malformed, or one of them is repeated.
    """
    parameters: dict[bytes, bytes] = {}
    position = len(value.partition(b";")[0])
    while position < len(value):
        found = _PARAMETER.match(value, position)
        if found is None:
            return {} if value[position:].strip(b" \t;") else parameters
        name, quoted, plain = found.groups()
        if name.lower() in parameters:
            return {}
        parameters[name.lower()] = plain if quoted is None else quoted
        position = found.end()
    return parameters
