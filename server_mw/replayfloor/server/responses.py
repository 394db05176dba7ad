"""Answers in the shapes of common frameworks, turned into plain ones. No framework is imported.

Needed where an answer does not come through the middleware: from a reconciler, and from a handler
that finishes its receipt in its own transaction. What is taken is status, headers and the whole
body; a body that is still to be produced cannot be part of a receipt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, cast

from replayfloor.core.errors import UsageError
from replayfloor.core.message import Headers, Response

STATUS_MIN, STATUS_MAX = 200, 599
"""Final answers only: a 1xx is followed by another answer (RFC 9110, 15.2), and there is no status
above 599 (RFC 9110, 15)."""

BODYLESS: Final = frozenset({204, 205, 304})
"""Statuses whose answer has no body (RFC 9110, 15.3.5, 15.3.6, 15.4.5)."""

_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A field name is a token (RFC 9110, 5.1 and 5.6.2)."""

_BROKEN_VALUE = re.compile(rb"[\r\n\0]")
"""What would end a field line, and so let a value add fields of its own (RFC 9110, 5.5)."""

_TAKEN: Final = (
    "a response of Starlette, FastAPI, Flask, Werkzeug or Django, "
    "replayfloor.core.Response, or (status, headers, body)"
)


def to_response(answer: object) -> Response:
    """Return an answer as a plain value.

    Takes a complete response of Starlette or FastAPI (`status_code`, `raw_headers`, `body`), of
    Flask or Werkzeug (`status_code`, `headers`, `get_data()`), of Django (`status_code`,
    `items()`, `content`; its cookies are left out, since a receipt holds none), a
    `replayfloor.core.Response`, or a tuple (status, headers, body) with headers as a mapping or
    as pairs and text or bytes throughout.

    Raises UsageError for anything else, for a response whose body is streamed or not rendered
    yet, for a status outside of 200 to 599, and for header fields that cannot be sent.
    """
    status, headers, body = _parts(answer)
    code = _status(status)
    content = _body(body)
    if code in BODYLESS and content:
        raise UsageError(f"an answer with status {code} has no body (RFC 9110, 15)")
    return Response(code, _headers(headers), content)


def _parts(answer: object) -> tuple[object, object, object]:
    """Return status, headers and body, whatever their types."""
    if isinstance(answer, Response):
        return answer.status, answer.headers, answer.body
    if isinstance(answer, tuple):
        parts = cast("tuple[object, ...]", answer)
        if len(parts) != 3:
            raise UsageError("an answer as a tuple is (status, headers, body)")
        return parts[0], parts[1], parts[2]
    status: object = getattr(answer, "status_code", None)
    if status is None:
        raise UsageError(f"{type(answer).__name__} is not an answer: expected {_TAKEN}")
    _refuse_incomplete(answer)
    if hasattr(answer, "raw_headers"):
        return status, _attribute(answer, "raw_headers"), _attribute(answer, "body")
    if hasattr(answer, "get_data"):
        return status, _attribute(answer, "headers"), _called(answer, "get_data")
    if hasattr(answer, "content") and hasattr(answer, "items"):
        return status, _called(answer, "items"), _attribute(answer, "content")
    raise UsageError(f"{type(answer).__name__} is not an answer known here: expected {_TAKEN}")


def _refuse_incomplete(answer: object) -> None:
    """Raise UsageError for a body that is not there yet: iterators, files, lazy templates."""
    streams = (
        bool(getattr(answer, "streaming", False))  # Django
        or bool(getattr(answer, "is_streamed", False))  # Werkzeug
        or bool(getattr(answer, "direct_passthrough", False))  # Werkzeug's send_file
        or (hasattr(answer, "raw_headers") and not hasattr(answer, "body"))  # Starlette
    )
    if streams:
        raise UsageError(
            f"{type(answer).__name__} streams its body, and a receipt needs the whole of it: "
            "answer with a complete response, such as a link to the content"
        )
    if not getattr(answer, "is_rendered", True):
        raise UsageError(f"{type(answer).__name__} is not rendered yet: call its render() before")


def _attribute(answer: object, name: str) -> object:
    return getattr(answer, name)


def _called(answer: object, name: str) -> object:
    return cast("Callable[[], object]", getattr(answer, name))()


def _status(status: object) -> int:
    # bool is an int, and no status.
    if not isinstance(status, int) or not STATUS_MIN <= status <= STATUS_MAX:
        raise UsageError(f"status {status!r}: expected a number from {STATUS_MIN} to {STATUS_MAX}")
    return int(status)


def _headers(headers: object) -> Headers:
    pairs: object = headers
    if isinstance(headers, Mapping):
        pairs = cast("Mapping[object, object]", headers).items()
    elif isinstance(headers, str | bytes) or not isinstance(headers, Iterable):
        raise UsageError("headers: expected a mapping or pairs of name and value")
    return tuple(_pair(each) for each in cast("Iterable[object]", pairs))


def _pair(pair: object) -> tuple[bytes, bytes]:
    if not isinstance(pair, tuple | list):
        raise UsageError("headers: expected pairs of name and value")
    parts = cast("tuple[object, ...] | list[object]", pair)
    if len(parts) != 2:
        raise UsageError("headers: expected pairs of name and value")
    name, value = _field(parts[0]), _field(parts[1])
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not the name of a header field (RFC 9110, 5.1)")
    if _BROKEN_VALUE.search(value):
        # The value is not repeated: it may be a credential.
        raise UsageError(f"header {name.decode('ascii')}: a value holds no line break and no NUL")
    return name.lower(), value.strip(b" \t")


def _field(part: object) -> bytes:
    if not isinstance(part, str):
        return _bytes(part, "headers")
    try:
        # What WSGI and Starlette do with a text in a header.
        return part.encode("latin-1")
    except UnicodeEncodeError:
        raise UsageError("headers: text must fit latin-1, as on the wire") from None


def _body(body: object) -> bytes:
    return body.encode() if isinstance(body, str) else _bytes(body, "body")


def _bytes(value: object, where: str) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise UsageError(f"{where}: expected text or bytes, got {type(value).__name__}")
    return bytes(cast("bytes | bytearray", value))


def refuse_unsendable(parts: Iterable[bytes]) -> None:
    """Raise UsageError if a header's name or value holds what no server can send.

    Asked before anything is stored: so an atomic route is rolled back. Found out by the server,
    when the receipt is there, it would leave this client and every repetition without an answer.
    """
    if _BROKEN_VALUE.search(b"".join(parts)):
        raise UsageError(
            "a header of the answer holds CR, LF or NUL, which no server sends (RFC 9110, 5.5); "
            "percent-encode what came from a client"
        )
