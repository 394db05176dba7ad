"""A multipart body without its boundary: what of it is the same when the form is built anew.

A library makes a new boundary for every request. Two bodies that differ in nothing else are one
request, and after a restart the operation goes on with the new one: our own servers compare forms
by meaning, and a provider that compares bytes says that they differ, which settles nothing.
"""

from __future__ import annotations

import re
from typing import Final

_BOUNDARY: Final = re.compile(rb';\s*boundary=(?:"([^"]{1,70})"|([^;\s"]{1,70}))', re.IGNORECASE)
"""The parameter, of 1 to 70 characters (RFC 2046, 5.1.1)."""

_ANY: Final = b"\r\n--"
"""What every delimiter begins with. By the same rule nothing else in the body begins with it and
the boundary."""


def without_boundary(content_type: bytes, body: bytes) -> tuple[bytes, bytes]:
    """Return both without the boundary, to be compared; as they are if it is no multipart body.

    What is returned of a multipart body is none any more: its parts, each behind its length.
    """
    if not content_type.lower().startswith(b"multipart/"):
        return content_type, body
    found = _BOUNDARY.search(content_type)
    if found is None:
        return content_type, body
    boundary: bytes = found[1] or found[2]
    if not body.startswith(b"--" + boundary):
        return content_type, body
    # The first delimiter has no line break before it. The lengths tell the parts apart, whatever
    # is in them.
    parts = (b"\r\n" + body).split(_ANY + boundary)
    bare = b"".join(b"%d:%b" % (len(part), part) for part in parts)
    return content_type[: found.start()] + content_type[found.end() :], bare
