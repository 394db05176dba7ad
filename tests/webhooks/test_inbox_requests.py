"""An application gets a stored request as it would have come from the server itself."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from typing import IO, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.types import Scope

from replayfloor.core.errors import ReceiptCorrupt
from replayfloor.server.webhooks.inbox.request import (
    StoredRequest,
    decode_request,
    encode_request,
    of_environ,
    of_scope,
    to_environ,
    to_scope,
)
from replayfloor.testing.inbox_subject import REQUEST

BODY = bytes(range(256))

SCOPE: Scope = {
    "type": "http",
    "asgi": {"version": "3.0", "spec_version": "2.3"},
    "http_version": "2",
    "method": "POST",
    "scheme": "https",
    "path": "/mounted/hooks/café b",
    "raw_path": b"/mounted/hooks/caf%C3%A9%20b",
    "query_string": b"a=1&a=%32",
    "root_path": "/mounted",
    "headers": [
        (b"host", b"shop.example"),
        (b"x-twice", b"1"),
        (b"x-twice", b"\xff"),
        (b"content-length", b"256"),
    ],
    "client": ("192.0.2.1", 4711),
    "server": ("shop.example", 443),
    "state": {},
    "extensions": {},
}

ENVIRON: dict[str, object] = {
    "REQUEST_METHOD": "POST",
    "SCRIPT_NAME": "/mounted",
    "PATH_INFO": "/hooks/caf\xc3\xa9 b",
    "QUERY_STRING": "a=1&a=%32",
    "CONTENT_TYPE": "application/json",
    "CONTENT_LENGTH": "256",
    "SERVER_NAME": "shop.example",
    "SERVER_PORT": "443",
    "SERVER_PROTOCOL": "HTTP/1.1",
    "REMOTE_ADDR": "192.0.2.1",
    "REMOTE_PORT": "4711",
    "RAW_URI": "/mounted/hooks/caf%C3%A9%20b?a=1&a=%32",
    "REQUEST_URI": "/mounted/hooks/caf%C3%A9%20b?a=1&a=%32",
    "HTTP_HOST": "shop.example",
    "HTTP_X_TWICE": "1,\xff",
    "HTTP_COOKIE": "a=1; b=2",
    "wsgi.url_scheme": "https",
}


def kept(request: StoredRequest) -> StoredRequest:
    """Return a request that was stored and read again."""
    return decode_request(encode_request(request))


def test_an_asgi_application_gets_the_scope_that_the_server_made() -> None:
    assert to_scope(kept(of_scope(SCOPE, BODY))) == SCOPE


def test_a_wsgi_application_gets_the_environ_that_the_server_made() -> None:
    environ = to_environ(kept(of_environ(ENVIRON, BODY)))

    assert {name: environ[name] for name in ENVIRON} == ENVIRON
    assert cast("IO[bytes]", environ["wsgi.input"]).read() == BODY


def test_what_the_process_has_in_its_environment_is_not_stored() -> None:
    environ = {**ENVIRON, "AWS_SECRET_ACCESS_KEY": "s3cret", "wsgi.input": BytesIO(b"")}

    assert b"s3cret" not in encode_request(of_environ(environ, BODY))


def test_a_body_that_came_in_chunks_is_whole_and_has_its_length() -> None:
    headers = [(b"transfer-encoding", b"chunked"), (b"x", b"1")]
    request = of_scope({**SCOPE, "headers": headers}, b"12345")

    assert request.headers == ((b"x", b"1"), (b"content-length", b"5"))


def test_a_server_that_tells_little_is_enough() -> None:
    scope: Scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    request = kept(of_scope(scope, b""))

    assert "raw_path" not in to_scope(request)
    assert to_scope(request)["client"] is None
    assert to_environ(request)["SERVER_NAME"] == "localhost"
    assert kept(of_environ({"REQUEST_METHOD": "GET"}, b"")).method == "GET"


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    path=st.binary(max_size=20),
    query=st.binary(max_size=20),
    body=st.binary(max_size=200),
    headers=st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9)), max_size=4),
)
def test_any_bytes_survive(
    path: bytes, query: bytes, body: bytes, headers: list[tuple[bytes, bytes]]
) -> None:
    request = replace(REQUEST, path=path, query=query, body=body, headers=tuple(headers))

    assert kept(request) == request


@pytest.mark.parametrize(
    "data", [b"", b"\x02", b"\x01\x00\x00\x00\x05{}", b"\x01\x00\x00\x00\x02[]"]
)
def test_what_cannot_be_read_is_said_so_without_repeating_it(data: bytes) -> None:
    with pytest.raises(ReceiptCorrupt):
        decode_request(data)
