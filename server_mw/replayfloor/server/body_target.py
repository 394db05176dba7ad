"""What comes before the body: method, target and headers, in the same bytes from ASGI and WSGI.

A key claimed through one server may come back through another, whose interface, or whose proxy,
hands over the path decoded or escaped in another way. So the path counts in one form: decoded per
segment and escaped anew. That is how every router reads it; "/a%2Fb" stays another path than
"/a/b" where the server gives the target's own bytes. The query counts byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from starlette.types import Scope

from replayfloor.core.message import Headers, get_first
from replayfloor.core.values import frozen

PATHS_KNOWN_MAX: Final = 1024
"""Paths whose one form is remembered: those of one application."""

PATH_KNOWN_BYTES_MAX: Final = 256
"""Longer ones are not remembered: few come again, and all together take 512 KiB at most."""

_PLAIN: Final = re.compile(rb"[A-Za-z0-9._~/-]+")
"""Paths that are in their one form already: unreserved characters (RFC 3986, 2.3) and slashes."""

_AUTHORITY: Final = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://[^/?]*")
"""What precedes the path of a target in absolute form (RFC 9112, 3.2.2)."""

_TARGETS: Final = ("RAW_URI", "REQUEST_URI")
"""Where WSGI servers put the target as it was received: gunicorn; uWSGI, mod_wsgi, waitress and
cheroot; and Werkzeug both. PEP 3333 has no place for it."""


@frozen
class RequestHead:
    """A request without its body. Header names are lower-case; `content_type` may be empty."""

    method: str
    path: bytes
    query: bytes
    content_type: bytes
    headers: Headers


def asgi_head(scope: Scope) -> RequestHead:
    """Return the head of an ASGI `http` connection."""
    headers: Headers = tuple(scope["headers"])
    return RequestHead(
        scope["method"],
        _asgi_path(scope),
        scope.get("query_string", b""),
        get_first(headers, b"content-type") or b"",
        headers,
    )


def wsgi_head(environ: Mapping[str, object], *, with_headers: bool = True) -> RequestHead:
    """Return the head of a WSGI request; its headers only for who looks at them.

    A header that was sent in several lines is one here, as the server joined them.
    """
    content_type = _text(environ, "CONTENT_TYPE")
    return RequestHead(
        _text(environ, "REQUEST_METHOD").decode("latin-1"),
        _wsgi_path(environ),
        _text(environ, "QUERY_STRING"),
        content_type,
        _wsgi_headers(environ, content_type) if with_headers else (),
    )


def _wsgi_headers(environ: Mapping[str, object], content_type: bytes) -> Headers:
    headers = [
        (name[5:].replace("_", "-").lower().encode("latin-1"), _text(environ, name))
        for name in environ
        if name.startswith("HTTP_")
    ]
    for name, value in (("type", content_type), ("length", _text(environ, "CONTENT_LENGTH"))):
        if value:
            headers.append((b"content-" + name.encode(), value))
    return tuple(headers)


def _asgi_path(scope: Scope) -> bytes:
    # A server gives the target's own bytes; a test client may give the decoded path only.
    raw: bytes | None = scope.get("raw_path")
    if not raw:
        path = _escaped(_local(_encoded(scope["path"])))
    elif len(raw) <= PATH_KNOWN_BYTES_MAX:
        path = _known_form(raw)
    else:
        path = _one_form(_path_of(raw))
    root_path: str = scope.get("root_path", "")
    if root_path and (root_path := root_path.rstrip("/")):
        # A mount leaves both as they were, and they begin with the root path; where a proxy took
        # it away, some servers do not put it back.
        root = _escaped(_encoded(root_path))
        if path != root and not path.startswith(root + b"/"):
            path = root + path
    return path or b"/"


def _wsgi_path(environ: Mapping[str, object]) -> bytes:
    path = _text(environ, "SCRIPT_NAME") + _text(environ, "PATH_INFO")
    targets = tuple([_text(environ, name) for name in _TARGETS])
    known = len(path) + sum(map(len, targets)) <= PATH_KNOWN_BYTES_MAX
    return (_known_path if known else _path_of_all)(path, targets)


def _path_of_all(decoded: bytes, targets: tuple[bytes, ...]) -> bytes:
    decoded = _local(decoded)
    for target in targets:
        path = _path_of(target)
        # It says which slashes are between segments, and nothing more; if it names another path,
        # a proxy or a middleware has changed what came from there. cheroot decodes all but slashes.
        if path and unquote_to_bytes(path) in (decoded, decoded.replace(b"%2F", b"/")):
            return _one_form(path)
    return _escaped(decoded) or b"/"


_known_path = lru_cache(PATHS_KNOWN_MAX)(_path_of_all)


@lru_cache(PATHS_KNOWN_MAX)
def _known_form(raw: bytes) -> bytes:
    return _one_form(_path_of(raw))


def _path_of(target: bytes) -> bytes:
    return _local(target.partition(b"?")[0])


def _local(path: bytes) -> bytes:
    # Some servers hand over a target in absolute form as the path that it is not.
    authority = _AUTHORITY.match(path)
    return path[authority.end() :] if authority else path


def _one_form(path: bytes) -> bytes:
    if _PLAIN.fullmatch(path):
        return path
    return b"/".join(
        quote(unquote_to_bytes(segment), safe="").encode() for segment in path.split(b"/")
    )


def _escaped(decoded: bytes) -> bytes:
    return decoded if _PLAIN.fullmatch(decoded) else quote(decoded, safe="/").encode()


def _encoded(path: str) -> bytes:
    return path.encode("utf-8", "surrogatepass")


def _text(environ: Mapping[str, object], name: str) -> bytes:
    """Return a value of the environ as the bytes it stands for (PEP 3333)."""
    value = environ.get(name, "")
    return value.encode("latin-1") if isinstance(value, str) else b""
