"""Between the library's messages and the flow's values: requests out, answers and failures in.

The logical request behind a request, one fresh request per attempt, and what an answer or an
exception tells. No decisions about retrying.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from replayfloor.client.boundaries import without_boundary
from replayfloor.client.effects import Failure, Operation, Reply, Send, new_operation
from replayfloor.client.fence import HOOK, AsyncTrace, DeadlinePassed, Fence, Trace
from replayfloor.client.key_place import with_place
from replayfloor.client.library import Fields, Lines, lines_of
from replayfloor.client.options import (
    EXTENSION,
    choose_key,
    current_operation,
    read_options,
    write_body,
    write_fields,
)
from replayfloor.client.profiles import Profile
from replayfloor.client.trail import MARK, Content, Trail
from replayfloor.core.fingerprint import Fingerprint, fingerprint, media_type_of
from replayfloor.core.message import Response, get_first
from replayfloor.core.problem import MEDIA_TYPE

if TYPE_CHECKING:
    import httpx

    from replayfloor.client.library import Library

_TIMEOUTS: Final = ("connect", "read", "write", "pool")

_PROBLEM: Final = MEDIA_TYPE.encode()

_OUR_MISTAKE: Final = "LocalProtocolError"
"""What httpx, httpx2, their cores and h11 call it."""


def read_operation(
    request: httpx.Request, fields: Fields, content: Content, profile: Profile, trail: Trail | None
) -> Operation:
    """Return the logical request behind a request; a `trail` says what it continues.

    Raises UsageError, InvalidKey among them.
    """
    if trail is not None and (continued := trail.continued(request, content)) is not None:
        return continued
    options = read_options(request.extensions.get(EXTENSION))
    named = options.get("operation_id")
    scoped = current_operation() if named is None else None
    name = profile.header.lower().encode()
    # Each line by itself, and only if there is one: most callers leave the key to us.
    written = [v for n, v in lines_of(request.headers) if n == name] if name in fields else ()
    key = options.get("key")
    if written or key is not None or profile.body_field:
        key = choose_key(written, key, profile, content[2])
    content_only = fingerprint_of(request, content)
    return new_operation(
        method=request.method.upper(),
        origin=origin_of(request.url),
        path=path_of(request.url),
        fingerprint=with_place(content_only, profile),
        fingerprint_before=content_only,
        operation_id=named or scoped,
        key=key,
        key_yields=scoped is not None and "key" not in options,
    )


def fingerprint_of(request: httpx.Request, content: Content) -> Fingerprint:
    """Return what tells a request from others under its operation id."""
    method, content_type, body = content
    path, _, query = request.url.raw_path.partition(b"?")
    content_type, body = without_boundary(content_type, body)
    return fingerprint(method=method, path=path, query=query, content_type=content_type, body=body)


def origin_of(url: httpx.URL) -> str:
    """Return scheme, host and port, the port only if it is not the scheme's own."""
    host, number = url.host, url.port
    port = f":{number}" if number is not None else ""
    return f"{url.scheme}://[{host}]{port}" if ":" in host else f"{url.scheme}://{host}{port}"


def path_of(url: httpx.URL) -> str:
    """Return the path as it is sent, without the query."""
    return url.raw_path.partition(b"?")[0].decode("ascii")


def build_attempt(
    library: Library,
    request: httpx.Request,
    fields: Fields,
    body: bytes,
    send: Send,
    profile: Profile,
    trace: Trace | AsyncTrace,
) -> httpx.Request:
    """Return a request of our own for one attempt: the same bytes, the key, the fence.

    No key is written to the caller's request: the library copies its headers and extensions to the
    target of a redirect, and the key must not follow.
    """
    body = write_body(body, send.key, profile)
    extensions = without_ours(request)
    extensions["timeout"] = _timeouts(extensions.get("timeout"), send.timeout_s)
    extensions[HOOK] = trace
    attempt = library.request(
        request.method,
        request.url,
        headers=request.headers,  # copied, and that is cheaper than to make them anew
        stream=library.bytes_stream(body),
        extensions=extensions,
    )
    headers = attempt.headers
    for name, value in write_fields(send.key, send.first_attempt_at_ns, profile):
        headers[name] = value
    length = b"%d" % len(body)
    if fields.get(b"content-length") != length:
        headers["Content-Length"] = length.decode("ascii")
    if b"transfer-encoding" in fields:
        del headers["Transfer-Encoding"]
    return attempt


def _timeouts(given: object, most_s: float) -> dict[str, float]:
    """Return the limits of the library's waits: those that were given, and none above `most_s`."""
    told = cast("dict[str, float | None]", given or {})
    limits: dict[str, float] = {}
    for name in _TIMEOUTS:
        limit = told.get(name)
        limits[name] = most_s if limit is None or limit > most_s else limit
    return limits


def without_ours(request: httpx.Request) -> dict[str, object]:
    """Return the request's extensions but for those that are meant for us."""
    extensions: dict[str, object] = dict(request.extensions)
    extensions.pop(EXTENSION, None)
    extensions.pop(MARK, None)
    return extensions


def as_library_error(library: Library, error: Exception) -> Exception:
    """Return the exception as one of the library's: what leaks from below is a read error."""
    if isinstance(error, (library.transport_error, DeadlinePassed)):
        return error
    wrapped = library.read_error(f"{type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped


def to_failure(library: Library, error: Exception, fence: Fence, status: int | None) -> Failure:
    """Return what the flow has to know of an exception; `status`: the answer that broke off."""
    evidence = _evidence(error)
    sure = isinstance(error, (*library.never_sent, DeadlinePassed))
    maybe_sent = fence.sent > 0 if sure else fence.maybe_sent
    # An answer that had begun is proof of the contrary, whatever the server says afterwards.
    processed = status is not None or fence.processed(error)
    # What the library calls our mistake may be the server's, once the request has left.
    refused = isinstance(error, library.permanent) and fence.sent <= 0
    return Failure(
        evidence if status is None else f"status {status}, then {evidence}",
        maybe_sent=maybe_sent and processed,
        transient=not (refused or isinstance(error, DeadlinePassed)),
        fenced=isinstance(error, DeadlinePassed),
    )


def _evidence(error: Exception) -> str:
    """Return what is told and kept of an exception: no part of the request, which may be secret.

    Where a header has what HTTP does not allow, such as the line break at the end of a token that
    was read from a file, the library quotes the header.
    """
    kinds = type(error).__mro__
    if any(kind.__name__ == _OUR_MISTAKE for kind in kinds):
        return f"{type(error).__name__}: the request has something that HTTP does not allow"
    return f"{type(error).__name__}: {error}"


def to_reply(
    library: Library,
    response: httpx.Response,
    raw: bytes,
    profile: Profile,
    lines: Lines | None = None,
) -> Reply:
    """Return what the flow has to know of an answer: of bodies, a problem's, and error codes.

    `lines` are its header's, if the caller has them already.
    """
    headers = tuple(lines_of(response.headers) if lines is None else lines)
    status = response.status_code
    media_type = media_type_of(get_first(headers, b"content-type") or b"")
    codes = status >= 400 and b"json" in media_type and profile.answers.reads_bodies
    wanted = codes or media_type == _PROBLEM
    body = decoded(library, response, raw) if wanted else b""
    return Reply(Response(status, headers, body))


def decoded(library: Library, response: httpx.Response, raw: bytes) -> bytes:
    """Return the body without its content coding; empty if it is not coded as it says."""
    try:
        return library.response(200, headers=response.headers, content=raw).content
    except library.decoding_error:
        return b""
