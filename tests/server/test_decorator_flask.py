"""Decorated view functions of Flask: which one a request is for, and what protects it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, ClassVar, cast

import flask
import pytest
from flask.views import MethodView, View
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.middleware.proxy_fix import ProxyFix

from replayfloor.core.errors import UsageError
from replayfloor.server import Route
from replayfloor.server.decorator import WsgiEndpoints, idempotent
from replayfloor.server.routes import Overrides
from server.decorated_wsgi import Workers, environ, outcome, send, workers

A, B = Overrides(lease_s=1.0), Overrides(lease_s=2.0)


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Workers]:
    """An empty ledger, and middlewares on SQLite."""
    with workers(tmp_path) as made:
        yield made


class Refunds(MethodView):
    """Two methods with options of their own, and one without."""

    @idempotent(lease_s=1.0)
    def post(self) -> str:
        """Carry A."""
        return "post"

    @idempotent(lease_s=2.0)
    def put(self) -> str:
        """Carry B."""
        return "put"

    def delete(self) -> str:
        """Carry nothing."""
        return "delete"


class Whole(View):
    """One function for all methods, decorated as Flask does it."""

    methods: ClassVar = {"POST", "PUT"}
    decorators: ClassVar = [idempotent(lease_s=2.0)]

    def dispatch_request(self) -> str:
        """Carry B."""
        return "whole"


@idempotent(lease_s=1.0)
class Decorated(MethodView):
    """All methods."""

    def post(self) -> str:
        """Carry A."""
        return "post"


def site() -> flask.Flask:
    """Return an application with functions, classes and a blueprint."""
    app = flask.Flask(__name__)

    @app.post("/a")
    @idempotent(lease_s=1.0)
    def a() -> str:
        return "a"

    @app.route("/b/<int:number>/", methods=["GET", "POST", "DELETE"])
    @idempotent(lease_s=2.0)
    async def b(number: int) -> str:
        return str(number)

    @app.post("/plain")
    def plain() -> str:
        return "plain"

    blueprint = flask.Blueprint("shop", __name__, url_prefix="/shop")
    blueprint.add_url_rule("/refund", view_func=Refunds.as_view("refund"))
    blueprint.add_url_rule("/whole", view_func=Whole.as_view("whole"))
    blueprint.add_url_rule("/decorated", view_func=Decorated.as_view("decorated"))
    app.register_blueprint(blueprint)
    return app


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", "/a", A),
        ("PUT", "/a", None),
        ("POST", "/a/", None),
        ("POST", "/b/7/", B),
        ("DELETE", "/b/7/", B),
        ("GET", "/b/7/", None),
        ("HEAD", "/b/7/", None),
        ("OPTIONS", "/b/7/", None),
        ("POST", "/b/7", None),
        ("POST", "/b/x/", None),
        ("POST", "/plain", None),
        ("POST", "/shop/refund", A),
        ("PUT", "/shop/refund", B),
        ("DELETE", "/shop/refund", None),
        ("PATCH", "/shop/refund", None),
        ("POST", "/shop/whole", B),
        ("PUT", "/shop/whole", B),
        ("POST", "/shop/decorated", A),
        ("POST", "/nowhere", None),
    ],
)
@pytest.mark.parametrize(
    "wrapped",
    [lambda app: app, lambda app: app.wsgi_app, lambda app: ProxyFix(app.wsgi_app)],
    ids=["the object", "its method", "a middleware"],
)
def test_the_url_map_decides_whose_options_count(
    wrapped: Callable[[flask.Flask], Callable[..., object]],
    method: str,
    path: str,
    expected: Overrides | None,
) -> None:
    assert WsgiEndpoints(wrapped(site())).find(environ(path, method)) == expected


def test_hosts_count_as_the_application_has_them_count() -> None:
    app = flask.Flask(__name__, subdomain_matching=True)
    app.config.update(SERVER_NAME="example.org", TRUSTED_HOSTS=[".example.org"])

    @app.post("/pay", subdomain="<tenant>")
    @idempotent(lease_s=1.0)
    def pay(tenant: str) -> str:
        return tenant

    endpoints = WsgiEndpoints(app)
    assert endpoints.find(environ("/pay", HTTP_HOST="acme.example.org")) == A
    assert endpoints.find(environ("/pay", HTTP_HOST="example.org")) is None
    assert endpoints.find(environ("/pay", HTTP_HOST="acme.example.com")) is None


@pytest.mark.parametrize("path", ["", "//", "/a\x00", "/\xff", "/a?b", "*"])
@pytest.mark.parametrize("method", ["", "post", "BREW"])
def test_an_odd_request_is_none_of_an_endpoint(path: str, method: str) -> None:
    found = WsgiEndpoints(site()).find(
        environ("/a") | {"PATH_INFO": path, "REQUEST_METHOD": method}
    )

    assert found is None
    assert WsgiEndpoints(site()).find({}) is None
    assert WsgiEndpoints(site()).find({"REQUEST_METHOD": "POST"}) is None


def test_small_letters_name_a_method_as_they_do_to_flask() -> None:
    endpoints = WsgiEndpoints(site())

    assert endpoints.find(environ("/a") | {"REQUEST_METHOD": "post"}) == A
    assert endpoints.find(environ("/b/7/") | {"REQUEST_METHOD": "get"}) is None
    assert endpoints.lookup(environ("/a") | {"REQUEST_METHOD": "post"})() == A
    assert endpoints.lookup(environ("/b/7/") | {"REQUEST_METHOD": "get"})() is None


def test_looking_for_an_endpoint_leaves_environ_and_body_as_they_are() -> None:
    sent = environ("/a")
    before = dict(sent)

    assert WsgiEndpoints(site()).find(sent) == A
    assert sent == before
    assert cast("IO[bytes]", sent["wsgi.input"]).read() == b"1"


def test_what_is_neither_flask_nor_django_has_no_endpoints() -> None:
    def bare(_environ: object, _start_response: object) -> list[bytes]:
        return []

    assert WsgiEndpoints(bare).find(environ("/a")) is None
    # It holds several applications, and which one serves is its own to say.
    assert WsgiEndpoints(DispatcherMiddleware(site())).find(environ("/a")) is None


def test_without_a_decorated_view_the_url_map_is_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = flask.Flask(__name__)
    app.post("/plain")(lambda: "plain")
    endpoints = WsgiEndpoints(app)
    asked: list[object] = []
    monkeypatch.setattr(app, "create_url_adapter", asked.append)

    assert [endpoints.find(environ("/plain")) for _ in range(3)] == [None] * 3
    assert asked == []


def paying(sqlite: Workers, app: flask.Flask) -> None:
    """Add a view that writes a row, required to have a key."""

    @app.route("/pay", methods=["GET", "POST", "PUT"])
    @idempotent(required=True)
    def pay() -> tuple[str, int]:
        if flask.request.method == "GET":
            return "form", 200
        sqlite.ledger.write(flask.request.method)
        return "paid", 201


def test_a_decorated_view_is_protected_and_has_its_own_options(sqlite: Workers) -> None:
    app = flask.Flask(__name__)
    paying(sqlite, app)
    app.wsgi_app = sqlite.protect(app.wsgi_app)  # type: ignore[method-assign]

    for method in ("POST", "PUT"):
        key = f'"{method}"'
        assert send(app, method, key=None).status_code == 400
        assert [outcome(send(app, method, key=key)) for _ in range(2)] == [
            (201, None),
            (201, "true"),
        ]
    assert send(app, "GET", key=None).data == b"form"
    assert sqlite.ledger.rows() == ["POST", "PUT"]
    assert list(app.view_functions) == ["static", "pay"]


def test_a_view_without_the_decorator_has_the_options_of_the_middleware(sqlite: Workers) -> None:
    app = flask.Flask(__name__)

    @app.route("/pay", methods=["POST", "PUT"])
    def pay() -> str:
        sqlite.ledger.write(flask.request.method)
        return "paid"

    protected = sqlite.protect(app)
    for method in ("POST", "PUT"):
        for _ in range(2):
            send(protected, method, key=f'"{method}"')

    assert sqlite.ledger.rows() == ["POST", "PUT", "PUT"]


def test_an_asynchronous_view_is_protected(sqlite: Workers) -> None:
    app = flask.Flask(__name__)

    @app.put("/pay")
    @idempotent(required=True)
    async def pay() -> str:
        sqlite.ledger.write()
        return "paid"

    protected = sqlite.protect(app)

    assert [send(protected, "PUT").status_code for _ in range(2)] == [200, 200]
    assert len(sqlite.ledger.rows()) == 1
    with pytest.raises(UsageError, match="no middleware serves"):
        send(raising(app), "PUT")


def test_a_route_of_the_middleware_goes_before_the_decorator(sqlite: Workers) -> None:
    app = flask.Flask(__name__)
    paying(sqlite, app)
    protected = sqlite.protect(app, routes=[Route("PUT", "/pay", required=False)])

    assert send(protected, "PUT", key=None).status_code == 201
    assert send(protected, "POST", key=None).status_code == 400
    assert sqlite.ledger.rows() == ["PUT"]


def raising(app: flask.Flask) -> flask.Flask:
    """Let exceptions of views come out, as under a test client."""
    app.testing = True
    return app


@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
def test_without_the_middleware_a_decorated_view_does_not_run(sqlite: Workers, method: str) -> None:
    app = raising(flask.Flask(__name__))
    paying(sqlite, app)

    with pytest.raises(UsageError, match="no middleware serves"):
        send(app, method)
    assert sqlite.ledger.rows() == []
