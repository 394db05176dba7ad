"""One request through two servers, over ASGI and over WSGI: the same method, path and query."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from wsgiref.simple_server import WSGIRequestHandler, make_server
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest
import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send

from replayfloor.server.body import BodyReader
from replayfloor.server.body_target import RequestHead, asgi_head, wsgi_head

TARGETS = [
    ("/pay", b"/pay"),
    ("/", b"/"),
    ("/pay/1/refunds?a=1&b=%2F?c", b"/pay/1/refunds"),
    ("/a%20b", b"/a%20b"),
    ("/caf%c3%a9/%C3%A9", b"/caf%C3%A9/%C3%A9"),
    ("/2024:01/x@y;v=1,2/$&'()*+!", None),
    ("/2024%3A01/x%40y;v=1,2/%24&'()*+%21", None),
    ("/%7Euser/~user/%41", b"/~user/~user/A"),
    ("/%FF/%fe", b"/%FF/%FE"),
    ("/a//b/", b"/a//b/"),
    ("/100%25/%2525", b"/100%25/%2525"),
    ("http://other.example/pay?q", b"/pay"),
    ("http://other.example", b"/"),
]
EMPTY: dict[str, object] = {"REQUEST_METHOD": "POST", "QUERY_STRING": ""}


def scope(**change: object) -> Scope:
    return {"type": "http", "method": "POST", "path": "/x", "headers": [], **change}


def asgi_path(**change: object) -> bytes:
    return asgi_head(scope(**change)).path


def wsgi_path(script_name: str, path_info: str, **change: object) -> bytes:
    environ = {**EMPTY, "SCRIPT_NAME": script_name, "PATH_INFO": path_info, **change}
    return wsgi_head(environ).path


class Heads:
    """Two applications that keep the head of the request they get."""

    def __init__(self) -> None:
        self.seen: list[RequestHead] = []

    async def asgi(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.seen.append(asgi_head(scope))
        start = {"type": "http.response.start", "status": 204, "headers": []}
        await send(start)
        await send({"type": "http.response.body"})

    def wsgi(self, environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        self.seen.append(wsgi_head(environ))
        start_response("204 No Content", [])
        return []


class Quiet(WSGIRequestHandler):
    """Writes no log."""

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


@pytest.fixture(scope="module")
def servers() -> Iterator[Callable[[str], tuple[RequestHead, RequestHead]]]:
    """A function that sends one request to uvicorn and to wsgiref, byte for byte the same."""
    heads = Heads()
    # httptools, if it is installed, refuses some of the targets.
    config = uvicorn.Config(
        heads.asgi, interface="asgi3", http="h11", lifespan="off", log_level="warning"
    )
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(contextlib.closing(socket.create_server(("127.0.0.1", 0))))
        asgi = uvicorn.Server(config)
        wsgi = stack.enter_context(make_server("127.0.0.1", 0, heads.wsgi, handler_class=Quiet))
        asgi_thread = threading.Thread(target=asgi.run, args=([listener],))
        wsgi_thread = threading.Thread(target=wsgi.serve_forever, args=(0.01,))
        asgi_thread.start()
        wsgi_thread.start()

        def send(target: str) -> tuple[RequestHead, RequestHead]:
            heads.seen.clear()
            for port in (listener.getsockname()[1], wsgi.server_port):
                _post(port, target)
            asgi_seen, wsgi_seen = heads.seen
            return asgi_seen, wsgi_seen

        yield send
        asgi.should_exit = True
        wsgi.shutdown()
        asgi_thread.join()
        wsgi_thread.join()


def _post(port: int, target: str) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(
            f"POST {target} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
            "Content-Length: 0\r\nX-User: a\r\nConnection: close\r\n\r\n".encode("latin-1")
        )
        while connection.recv(4096):
            pass


@pytest.mark.parametrize(("target", "path"), TARGETS)
def test_two_servers_of_two_kinds_see_the_same_request(
    servers: Callable[[str], tuple[RequestHead, RequestHead]], target: str, path: bytes | None
) -> None:
    asgi, wsgi = servers(target)

    assert asgi.path == wsgi.path
    assert path in (asgi.path, None)
    assert (asgi.method, asgi.query) == (wsgi.method, wsgi.query)
    assert asgi.query == target.partition("?")[2].encode()
    assert BodyReader(asgi).finish().fingerprint == BodyReader(wsgi).finish().fingerprint


def test_two_servers_of_two_kinds_hand_over_the_same_headers(
    servers: Callable[[str], tuple[RequestHead, RequestHead]],
) -> None:
    asgi, wsgi = servers("/pay")

    assert asgi.content_type == wsgi.content_type == b"application/json"
    assert sorted(asgi.headers) == sorted(wsgi.headers)


@pytest.mark.parametrize("name", ["RAW_URI", "REQUEST_URI"])
@pytest.mark.parametrize("target", ["/a%2Fb?c", "http://test/a%2fb", "/a%2Fb"])
def test_an_escaped_slash_is_no_slash_where_the_server_gives_the_target(
    name: str, target: str
) -> None:
    # As gunicorn and uWSGI hand it over, and cheroot; wsgiref has the decoded path alone.
    path = wsgi_path("", "/a/b", **{name: target})

    assert wsgi_path("", "/a%2Fb", **{name: target}) == path
    assert wsgi_path("", "/a%2Fb", **{name: "/a%252Fb"}) == b"/a%252Fb"
    assert path == asgi_path(path="/a/b", raw_path=b"/a%2Fb") == b"/a%2Fb"
    assert wsgi_path("", "/a/b") == asgi_path(path="/a/b", raw_path=b"/a/b") == b"/a/b"


def test_a_target_that_names_another_path_than_the_request_does_not_count() -> None:
    # Behind a proxy that takes a prefix away, or a middleware that rewrites the path.
    assert wsgi_path("/api", "/pay", RAW_URI="/pay") == b"/api/pay"
    assert wsgi_path("", "/v2/pay", RAW_URI="/v1/pay") == b"/v2/pay"


def test_under_a_mount_the_path_that_the_client_sent_counts() -> None:
    paths = {
        wsgi_path("/api", "/pay"),
        wsgi_path("", "/api/pay"),
        wsgi_path("/api", "/pay", RAW_URI="/api/pay"),
        asgi_path(path="/api/pay", raw_path=b"/api/pay"),
        asgi_path(path="/api/pay", raw_path=b"/api/pay", root_path="/api"),
        asgi_path(path="/api/pay", raw_path=b"/api/pay", root_path="/api/"),
        asgi_path(path="/api/pay", root_path="/api"),
        # A server whose proxy took the prefix away, and an old mount.
        asgi_path(path="/pay", raw_path=b"/pay", root_path="/api"),
        asgi_path(path="/pay", raw_path=b"/api/pay", root_path="/api"),
        asgi_path(path="/pay", root_path="/api"),
    }

    assert paths == {b"/api/pay"}
    assert wsgi_path("/api", "") == asgi_path(path="/api", root_path="/api") == b"/api"
    assert asgi_path(path="/apis", root_path="/api") == b"/api/apis"


def test_a_path_in_another_script_is_the_same_with_and_without_its_bytes() -> None:
    decoded, escaped = "/ü ü", b"/%C3%BC%20%C3%BC"

    assert asgi_path(path=decoded) == escaped
    assert asgi_path(path=decoded, raw_path=escaped.lower()) == escaped
    assert asgi_path(path="/x", raw_path=escaped, root_path="/") == escaped
    assert asgi_path(path="/ü/x", raw_path=b"/%c3%bc/x", root_path="/ü") == b"/%C3%BC/x"
    assert wsgi_path("", decoded.encode().decode("latin-1")) == escaped
    assert asgi_path(path="/\ud800") == b"/%ED%A0%80"


def test_a_query_in_the_raw_path_does_not_count_twice() -> None:
    assert asgi_path(path="/x", raw_path=b"/x?a=1") == b"/x"


def test_a_request_without_path_and_type_has_a_head() -> None:
    assert wsgi_head(EMPTY) == RequestHead("POST", b"/", b"", b"", ())
    assert asgi_head(scope(path="")) == RequestHead("POST", b"/", b"", b"", ())


def test_wsgi_headers_have_their_http_names() -> None:
    environ: dict[str, object] = {
        **EMPTY,
        "HTTP_X_USER": "\xe9",
        "CONTENT_TYPE": "text/plain",
        "CONTENT_LENGTH": "",
        "wsgi.version": (1, 0),
    }

    assert wsgi_head(environ).headers == (
        (b"x-user", b"\xe9"),
        (b"content-type", b"text/plain"),
    )


@given(st.lists(st.binary(max_size=4), min_size=1, max_size=4), st.booleans())
@settings(deadline=None)
def test_any_path_is_the_same_however_it_is_escaped(segments: list[bytes], raw: bool) -> None:
    """Fully escaped over ASGI; over WSGI decoded, and with the target if a slash was escaped."""
    escaped = b"/" + b"/".join(b"".join(b"%%%02x" % byte for byte in part) for part in segments)
    decoded = b"/" + b"/".join(segments)
    target = {"RAW_URI": escaped.decode()} if raw or b"/" in b"".join(segments) else {}

    one = asgi_path(path=decoded.decode(errors="replace"), raw_path=escaped)

    assert one == wsgi_path("", decoded.decode("latin-1"), **target)
    assert one.count(b"/") == len(segments)
