"""Multipart bodies: the same in whatever pieces they arrive, and what does not count is not read.

An input is a body and what is put behind it, with a byte between them. Django and Werkzeug then
say whether a handler could see what the digest leaves out.
"""

from __future__ import annotations

import io
from typing import Final

from django.conf import settings as django_settings
from django.core.exceptions import BadRequest, SuspiciousOperation
from django.http.multipartparser import MultiPartParser, MultiPartParserError
from werkzeug.formparser import MultiPartParser as WerkzeugParser

from replayfloor.core.canonical import Pointer
from replayfloor.server.body_digest import body_digest
from replayfloor.server.body_multipart import parts_hash
from replayfloor.server.body_rules import BodyRule
from replayfloor.server.body_target import RequestHead

BOUNDARY: Final = b"b"
CONTENT_TYPE: Final = b"multipart/form-data; boundary=" + BOUNDARY
HEAD: Final = RequestHead("POST", b"/", b"", CONTENT_TYPE, ())
BETWEEN: Final = b"\xff"
EXCLUDES: Final[tuple[tuple[Pointer, ...], ...]] = ((), (("x",),))
SIZES: Final = (1, 3, 7)

Fields = list[tuple[str, list[str]]]


def check(data: bytes) -> None:
    """Cut a body into pieces, and put something behind it."""
    body, _, behind = data.partition(BETWEEN)
    for exclude in EXCLUDES:
        whole = digest(body, len(body) or 1, exclude)
        assert all(digest(body, size, exclude) == whole for size in SIZES), "the pieces count"
        assert whole is None or body_digest(HEAD, BodyRule(exclude), body) == whole
    longer = body + behind
    if digest(body, len(longer) or 1) == digest(longer, len(longer) or 1) is not None:
        for read in (read_by_django, read_by_werkzeug):
            assert read(body) == read(longer), f"{read.__name__} sees what does not count"


def digest(body: bytes, size: int, exclude: tuple[Pointer, ...] = ()) -> bytes | None:
    """Return the digest of a body that arrives in pieces of a size."""
    hashed = parts_hash(CONTENT_TYPE, exclude)
    assert hashed is not None
    for start in range(0, len(body), size):
        hashed.update(body[start : start + size])
    return hashed.digest()


def read_by_django(body: bytes) -> Fields | None:
    """Return the fields that a view of Django gets; None if it refuses the body."""
    if not django_settings.configured:
        django_settings.configure()
    meta = {"CONTENT_TYPE": CONTENT_TYPE.decode(), "CONTENT_LENGTH": len(body)}
    try:
        fields, _files = MultiPartParser(meta, io.BytesIO(body), [], "utf-8").parse()
    except (MultiPartParserError, SuspiciousOperation, BadRequest):
        return None
    return sorted(fields.lists())


def read_by_werkzeug(body: bytes) -> Fields | None:
    """Return the fields that a view of Flask gets; None if it refuses the body."""
    try:
        fields, _files = WerkzeugParser(stream_factory=_in_memory).parse(
            io.BytesIO(body), BOUNDARY, len(body)
        )
    except ValueError:
        return None
    return sorted(fields.lists())


def _in_memory(
    total_content_length: int | None,
    content_type: str | None,
    filename: str | None,
    content_length: int | None = None,
) -> io.BytesIO:
    """Keep a file that was sent: a temporary file would be left open by a body that is refused."""
    return io.BytesIO()
