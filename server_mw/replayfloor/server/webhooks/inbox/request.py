"""The request of an event: how it is kept, and how an application gets it again. No I/O.

What is kept is what a server would hand over, so that the application cannot tell the difference:
the decoded path and the target as it was sent, the query, every header line, the body, and who
the client and the server were. Not kept: what belongs to one connection.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from io import BytesIO
from typing import Final, TypeAlias, cast

from starlette.types import Scope

from replayfloor.core.errors import ReceiptCorrupt
from replayfloor.core.message import Headers
from replayfloor.core.values import frozen

VERSION: Final = 1
"""First byte of the stored form. A later release reads the forms of earlier ones."""

_LENGTH_BYTES: Final = 4
_TARGETS: Final = ("RAW_URI", "REQUEST_URI")
"""Where WSGI servers put the target as it was sent; PEP 3333 has no place for it."""

Address: TypeAlias = tuple[str, int | None]


@frozen
class StoredRequest:
    """A request with its whole body, whichever interface it came through.

    Attributes:
        method: as it was sent.
        path: decoded, the root included if the server has it there.
        root: below which the application is mounted, decoded.
        target: the path as it was sent, percent-encoded; empty if the server did not tell.
        query: as it was sent.
        headers: lower-case names and raw values, in order; Content-Length is the body's.
        body: what the application reads.
        scheme, http_version: such as "https" and "1.1".
        client, server: host and port; None if the server did not tell.
    """

    method: str
    path: bytes
    query: bytes
    headers: Headers
    body: bytes
    root: bytes = b""
    target: bytes = b""
    scheme: str = "http"
    http_version: str = "1.1"
    client: Address | None = None
    server: Address | None = None


# -- ASGI -----------------------------------------------------------------------------------------


def of_scope(scope: Scope, body: bytes) -> StoredRequest:
    """Return the request of an ASGI `http` connection whose body was read."""
    return StoredRequest(
        method=scope["method"],
        path=scope["path"].encode("utf-8", "surrogatepass"),
        query=scope.get("query_string", b""),
        headers=_with_length(tuple((bytes(n), bytes(v)) for n, v in scope["headers"]), body),
        body=body,
        root=scope.get("root_path", "").encode("utf-8", "surrogatepass"),
        target=scope.get("raw_path") or b"",
        scheme=scope.get("scheme", "http"),
        http_version=scope.get("http_version", "1.1"),
        client=_address(scope.get("client")),
        server=_address(scope.get("server")),
    )


def to_scope(request: StoredRequest) -> Scope:
    """Return a scope with a `state` of its own; the caller hands over the body."""
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": request.http_version,
        "method": request.method,
        "scheme": request.scheme,
        "path": request.path.decode("utf-8", "surrogatepass"),
        "query_string": request.query,
        "root_path": request.root.decode("utf-8", "surrogatepass"),
        "headers": list(request.headers),
        "client": request.client,
        "server": request.server,
        "state": {},
        "extensions": {},
    }
    if request.target:
        scope["raw_path"] = request.target
    return scope


# -- WSGI -----------------------------------------------------------------------------------------


def of_environ(environ: Mapping[str, object], body: bytes) -> StoredRequest:
    """Return the request of a WSGI environ whose body was read.

    Only what PEP 3333 has for a request: an environ may also hold the process's own variables.
    """
    root = _bytes(environ, "SCRIPT_NAME")
    headers = [
        (name[5:].replace("_", "-").lower().encode("latin-1"), _bytes(environ, name))
        for name in environ
        if name.startswith("HTTP_")
    ]
    if content_type := _bytes(environ, "CONTENT_TYPE"):
        headers.append((b"content-type", content_type))
    targets = (_bytes(environ, name).partition(b"?")[0] for name in _TARGETS)
    return StoredRequest(
        method=_text(environ, "REQUEST_METHOD"),
        path=root + _bytes(environ, "PATH_INFO"),
        query=_bytes(environ, "QUERY_STRING"),
        headers=_with_length(tuple(headers), body),
        body=body,
        root=root,
        target=next(filter(None, targets), b""),
        scheme=_text(environ, "wsgi.url_scheme") or "http",
        http_version=_text(environ, "SERVER_PROTOCOL").rpartition("/")[2] or "1.1",
        client=_named(environ, "REMOTE_ADDR", "REMOTE_PORT"),
        server=_named(environ, "SERVER_NAME", "SERVER_PORT"),
    )


def to_environ(request: StoredRequest) -> dict[str, object]:
    """Return an environ that holds the body."""
    root, path = request.root.decode("latin-1"), request.path.decode("latin-1")
    host, port = request.server or ("localhost", None)
    environ: dict[str, object] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": root,
        "PATH_INFO": path.removeprefix(root),
        "QUERY_STRING": request.query.decode("latin-1"),
        "SERVER_NAME": host,
        "SERVER_PORT": str(port or ("443" if request.scheme == "https" else "80")),
        "SERVER_PROTOCOL": f"HTTP/{request.http_version}",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": request.scheme,
        "wsgi.input": BytesIO(request.body),
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    if request.client is not None:
        environ["REMOTE_ADDR"] = request.client[0]
        if request.client[1] is not None:
            environ["REMOTE_PORT"] = str(request.client[1])
    if request.target:
        query = b"?" + request.query if request.query else b""
        environ.update(dict.fromkeys(_TARGETS, (request.target + query).decode("latin-1")))
    for name, value in request.headers:
        _add_header(environ, name.decode("latin-1"), value.decode("latin-1"))
    return environ


def _add_header(environ: dict[str, object], name: str, value: str) -> None:
    """Set a header's variable; further lines of it join the first, as servers do it."""
    variable = name.upper().replace("-", "_")
    if variable not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        variable = f"HTTP_{variable}"
        before = environ.get(variable)
        separator = "; " if name == "cookie" else ","
        value = value if before is None else f"{before}{separator}{value}"
    environ[variable] = value


# -- the stored form ------------------------------------------------------------------------------


def encode_request(request: StoredRequest) -> bytes:
    """Return the stored form: version, length of the head, the head as JSON, the body."""
    head = {
        "method": request.method,
        "path": _latin(request.path),
        "query": _latin(request.query),
        "headers": [[_latin(name), _latin(value)] for name, value in request.headers],
        "root": _latin(request.root),
        "target": _latin(request.target),
        "scheme": request.scheme,
        "http_version": request.http_version,
        "client": request.client,
        "server": request.server,
    }
    text = json.dumps(head, separators=(",", ":")).encode()
    return bytes([VERSION]) + len(text).to_bytes(_LENGTH_BYTES, "big") + text + request.body


def decode_request(data: bytes) -> StoredRequest:
    """Return the request of a stored form.

    Raises ReceiptCorrupt for one that is cut off, or of a version that this release does not read.
    """
    if data[:1] != bytes([VERSION]):
        raise ReceiptCorrupt("the stored request of an event has a form that is not known here")
    begins = 1 + _LENGTH_BYTES
    ends = begins + int.from_bytes(data[1:begins], "big")
    try:
        head = cast("dict[str, str]", json.loads(data[begins:ends]))
        headers = cast("list[tuple[str, str]]", head["headers"])
        return StoredRequest(
            method=head["method"],
            path=head["path"].encode("latin-1"),
            query=head["query"].encode("latin-1"),
            headers=tuple((n.encode("latin-1"), v.encode("latin-1")) for n, v in headers),
            body=data[ends:],
            root=head["root"].encode("latin-1"),
            target=head["target"].encode("latin-1"),
            scheme=head["scheme"],
            http_version=head["http_version"],
            client=_address(head["client"]),
            server=_address(head["server"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        # Without the cause's text, which may repeat what is stored.
        kind = type(error).__name__
        raise ReceiptCorrupt(f"the stored request of an event cannot be read ({kind})") from None


def _with_length(headers: Headers, body: bytes) -> Headers:
    """Return the headers of a request whose body is whole: its length, and no coding in chunks."""
    length = str(len(body)).encode()
    kept = tuple(pair for pair in headers if pair[0] not in (b"content-length", _CHUNKED))
    return (*kept, (b"content-length", length))


_CHUNKED: Final = b"transfer-encoding"


def _address(pair: object) -> Address | None:
    if not isinstance(pair, tuple | list):
        return None
    host, port = cast("Address", tuple(cast("list[object]", pair)))
    return str(host), None if port is None else int(port)


def _named(environ: Mapping[str, object], host: str, port: str) -> Address | None:
    name, number = _text(environ, host), _text(environ, port)
    return (name, int(number) if number.isdecimal() else None) if name else None


def _text(environ: Mapping[str, object], name: str) -> str:
    value = environ.get(name, "")
    return value if isinstance(value, str) else ""


def _bytes(environ: Mapping[str, object], name: str) -> bytes:
    return _text(environ, name).encode("latin-1", "replace")


def _latin(data: bytes) -> str:
    return data.decode("latin-1")
