"""Decorated views of Django: which one a request is for, and what protects it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, cast

import pytest
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.wsgi import WSGIHandler
from django.urls import set_urlconf
from django.utils.functional import empty
from starlette.types import ASGIApp

from replayfloor.core.errors import UsageError
from replayfloor.server.decorator import AsgiEndpoints, WsgiEndpoints
from replayfloor.server.routes import Overrides
from server.backends import Backend
from server.decorated_wsgi import Workers, environ, outcome, send, workers
from server.wire import Answer, Exchange
from server.wire import Request as Sent
from server.wsgi_server import WSGIApp

A, B = Overrides(lease_s=1.0), Overrides(lease_s=2.0)

CASES = [
    ("POST", "/function", A),
    ("PUT", "/function", A),
    ("GET", "/function", None),
    ("POST", "/function/", None),
    ("POST", "/async/7/", B),
    ("POST", "/async/x/", None),
    ("POST", "/plain", None),
    ("POST", "/shop/methods", A),
    ("PUT", "/shop/methods", B),
    ("DELETE", "/shop/methods", None),
    ("PATCH", "/shop/methods", None),
    ("POST", "/shop/decorated", A),
    ("PUT", "/shop/decorated", A),
    ("GET", "/shop/decorated", None),
    ("POST", "/shop/dispatched", A),
    ("PUT", "/shop/dispatched", A),
    ("POST", "/shop/wrapped", A),
    ("POST", "/shop/async", A),
    ("POST", "/rest", A),
    ("POST", "/rest/payments/", A),
    ("POST", "/rest/payments/7/refund/", B),
    ("PUT", "/rest/payments/7/", None),
    ("POST", "/rest/payments/7/", None),
    ("POST", "/nowhere", None),
]

PROTECTED = [
    "/function",
    "/async/7/",
    "/shop/methods",
    "/shop/decorated",
    "/shop/dispatched",
    "/shop/wrapped",
    "/shop/async",
    "/rest",
    "/rest/payments/",
    "/rest/payments/7/refund/",
]
"""Paths that write on POST, and must not twice."""


@pytest.fixture(autouse=True)
def django() -> Iterator[None]:
    """Django, configured for these tests alone: it is configured once in a process otherwise."""
    before = settings._wrapped
    setattr(settings, "_wrapped", empty)  # noqa: B010 - its type is that of a configured one
    settings.configure(
        ROOT_URLCONF="server.django_site",
        ALLOWED_HOSTS=["*"],
        USE_I18N=False,
        DEBUG_PROPAGATE_EXCEPTIONS=True,
        REST_FRAMEWORK={
            "DEFAULT_AUTHENTICATION_CLASSES": [],
            "DEFAULT_PERMISSION_CLASSES": [],
            "UNAUTHENTICATED_USER": None,
        },
    )
    yield
    settings._wrapped = before


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Workers]:
    """An empty ledger, and middlewares on SQLite."""
    with workers(tmp_path) as made:
        yield made


def carrying(sqlite: Workers, app: Callable[..., object]) -> WSGIApp:
    """Return the application with its ledger in the environ."""

    def call(environ: dict[str, object], start_response: Callable[..., object]) -> Iterable[bytes]:
        environ["test.ledger"] = sqlite.ledger
        return cast("Iterable[bytes]", app(environ, start_response))

    return cast("WSGIApp", call)


@pytest.mark.parametrize(("method", "path", "expected"), CASES)
def test_the_urlconf_decides_whose_options_count(
    method: str, path: str, expected: Overrides | None
) -> None:
    scope = Sent(method, path).scope()
    below = {**scope, "root_path": "/site", "path": f"/site{path}"}
    asgi = AsgiEndpoints(cast("ASGIApp", ASGIHandler()))

    assert WsgiEndpoints(WSGIHandler()).find(environ(path, method)) == expected
    assert asgi.find(scope) == expected
    assert asgi.find(below) == expected


def test_the_urlconf_of_the_settings_counts_whatever_the_thread_had_before() -> None:
    set_urlconf("nowhere")
    try:
        assert WsgiEndpoints(WSGIHandler()).find(environ("/function")) == A
    finally:
        set_urlconf(None)


@pytest.mark.parametrize("path", ["", "function", "//", "/function\x00", "/\xff", "*"])
@pytest.mark.parametrize("method", ["", "POST", "BREW"])
def test_an_odd_request_is_none_of_a_view(path: str, method: str) -> None:
    endpoints = WsgiEndpoints(WSGIHandler())

    assert endpoints.find(environ("/") | {"PATH_INFO": path, "REQUEST_METHOD": method}) is None
    assert endpoints.find({"REQUEST_METHOD": "POST"}) is None
    assert (
        AsgiEndpoints(cast("ASGIApp", ASGIHandler())).find({"type": "http", "method": "X"}) is None
    )


def test_looking_for_a_view_leaves_environ_and_body_as_they_are() -> None:
    sent = environ("/function") | {"SCRIPT_URL": "/site/function", "PATH_INFO": "/function"}
    before = dict(sent)

    assert WsgiEndpoints(WSGIHandler()).find(sent) == A
    assert sent == before
    assert cast("IO[bytes]", sent["wsgi.input"]).read() == b"1"


@pytest.mark.parametrize("path", PROTECTED)
def test_a_decorated_view_is_protected(sqlite: Workers, path: str) -> None:
    app = carrying(sqlite, sqlite.protect(WSGIHandler(), methods=()))

    assert [outcome(send(app, "POST", path)) for _ in range(2)] == [(201, None), (201, "true")]
    assert sqlite.ledger.rows() == ["POST"]


def test_a_view_without_the_decorator_is_not(sqlite: Workers) -> None:
    app = carrying(sqlite, sqlite.protect(WSGIHandler(), methods=()))

    for method, path in (("POST", "/plain"), ("DELETE", "/shop/methods")):
        for _ in range(2):
            assert outcome(send(app, method, path)) == (201, None)

    assert sorted(sqlite.ledger.rows()) == ["DELETE", "DELETE", "POST", "POST"]


def test_a_safe_method_of_a_decorated_class_passes(sqlite: Workers) -> None:
    app = carrying(sqlite, sqlite.protect(WSGIHandler(), required=True))

    for path in ("/shop/decorated", "/shop/dispatched", "/shop/wrapped"):
        assert send(app, "GET", path, key=None).data == b"form"


@pytest.mark.parametrize("path", PROTECTED)
def test_without_the_middleware_a_decorated_view_does_not_run(sqlite: Workers, path: str) -> None:
    with pytest.raises(UsageError, match="no middleware serves"):
        send(carrying(sqlite, WSGIHandler()), "POST", path)
    assert sqlite.ledger.rows() == []


def test_what_other_decorators_note_at_a_view_is_kept() -> None:
    django_site = importlib.import_module("server.django_site")

    assert django_site.function.csrf_exempt is True
    assert django_site.rest.csrf_exempt is True
    assert django_site.Methods.post.__wrapped__.__name__ == "post"


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["/async/7/", "/shop/async", "/shop/dispatched"])
async def test_a_decorated_view_is_protected_under_asgi(asgi_sqlite: Backend, path: str) -> None:
    app = asgi_sqlite.protect(cast("ASGIApp", ASGIHandler()), methods=())
    sent = Sent("POST", path)

    answers: list[Answer] = []
    for _ in range(2):
        scope = {**sent.scope(), "state": {"test.ledger": asgi_sqlite.ledger}}
        answers.append(await Exchange(app, sent).run(scope))

    assert [(each.status, each.replayed) for each in answers] == [(201, False), (201, True)]
    assert asgi_sqlite.ledger.rows() == ["POST"]
