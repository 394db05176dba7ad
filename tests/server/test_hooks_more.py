"""What a delivery meets on its way to the handler, and which options of a middleware it goes by."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from cryptography.fernet import Fernet
from starlette.types import ASGIApp, Receive, Scope, Send

from replayfloor.core.errors import ConfigurationError
from replayfloor.core.problem import ProblemKind
from replayfloor.server import Route, idempotent
from replayfloor.server.webhooks.delivery import Delivery
from replayfloor.server.webhooks.route import webhook
from server.backends import Backend
from server.hooks import BATCHES, PATH, SHOP, Applying, batch, check, delivery, receiving
from server.wire import Exchange, Request, send

pytestmark = pytest.mark.anyio

FRESH, REPLAY = (200, None, False), (200, None, True)


# -- a verifier that says neither yes nor no ------------------------------------------------------


@pytest.mark.parametrize("said", [False, True, 0, "no"])
async def test_a_verifier_that_returns_something_has_not_verified_and_nothing_is_claimed(
    sqlite: Backend, said: object
) -> None:
    """`lambda delivery: compare_digest(…)` would otherwise let everything through."""
    handler = Applying(sqlite)
    verify = cast("Callable[[Delivery], None]", lambda _delivery: said)

    answer = await send(receiving(handler, verify=verify), delivery())
    real = await send(receiving(handler), delivery())

    assert answer.status == 500
    assert real.brief == FRESH
    assert len(handler.bodies) == 1


async def test_a_coroutine_is_no_verdict(sqlite: Backend) -> None:
    async def later(_delivery: Delivery) -> None:
        raise AssertionError("nobody awaits this")

    class Hidden:
        def __call__(self, delivery: Delivery) -> object:
            return later(delivery)

    handler = Applying(sqlite)
    verify = cast("Callable[[Delivery], None]", Hidden())
    answer = await send(receiving(handler, verify=verify), delivery())

    assert answer.status == 500
    assert handler.bodies == []


def test_an_asynchronous_verifier_is_refused_at_construction() -> None:
    async def verify(_delivery: Delivery) -> None:
        """Never be awaited."""

    class Verifying:
        async def __call__(self, _delivery: Delivery) -> None:
            """Never be awaited."""

    for each in (verify, Verifying()):
        with pytest.raises(ConfigurationError, match="async"):
            webhook("stripe", verify=cast("Callable[[Delivery], None]", each))


# -- one endpoint ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "target"), [(PATH, b"/hooks%2Fshop"), (PATH, b"/%68ooks/shop"), (PATH + "\n", b"")]
)
async def test_a_path_that_is_only_spelled_in_another_way_is_the_same_endpoint(
    sqlite: Backend, path: str, target: bytes
) -> None:
    """Routers take it for the same path; who repeats a delivery there must not apply it again."""
    app = receiving(Applying(sqlite))
    repeated = delivery(path=path)

    first = await send(app, delivery())
    again = await Exchange(app, repeated).run({**repeated.scope(), "raw_path": target})

    assert [first.brief, again.brief] == [FRESH, REPLAY]


# -- what a middleware says of all its routes -----------------------------------------------------


async def test_a_webhook_is_refused_while_its_receipts_are_away_whatever_the_outage_option(
    asgi_sqlite: Backend,
) -> None:
    """Unlike a client, its sender comes back for days."""
    handler = Applying(asgi_sqlite, effects="external")
    away = f"sqlite:///{asgi_sqlite.receipts_url.removeprefix('sqlite:///')}/nowhere/receipts.db"
    app = receiving(handler, receipts=away, on_outage="execute")

    answer = await send(app, delivery())

    assert answer.brief == (503, ProblemKind.STORE_UNAVAILABLE, False)
    assert handler.bodies == []


@pytest.mark.parametrize(
    "options",
    [{"required": True}, {"store": [500]}, {"free": [400]}, {"after_expiry": "execute"}],
    ids=str,
)
async def test_an_option_of_the_middleware_that_webhooks_do_not_have_plays_no_part(
    asgi_sqlite: Backend, options: dict[str, Any]
) -> None:
    handler = Applying(asgi_sqlite, effects="external", statuses=[500])
    app = receiving(handler, **options)

    answers = [await send(app, delivery()) for _ in range(3)]

    assert [each.status for each in answers] == [500, 200, 200]
    assert len(handler.bodies) == 2


async def test_an_answer_that_cannot_be_read_any_more_is_still_a_success(sqlite: Backend) -> None:
    """The key of its cipher was lost."""
    handler = Applying(sqlite)
    ciphers = [Fernet(Fernet.generate_key()) for _ in range(2)]
    apps = [receiving(handler, response_cipher=each) for each in (*ciphers[:1], *ciphers)]

    answers = [await send(app, delivery()) for app in apps]

    assert [each.status for each in answers] == [200] * 3
    assert [each.body for each in answers] == [b"applied", b"applied", b""]
    assert sqlite.ledger.rows() == ["evt_1"]


async def test_the_first_route_that_matches_says_whose_deliveries_these_are(
    sqlite: Backend,
) -> None:
    handler = Applying(sqlite)
    other = replace(SHOP, name="other", event_id="body /other")
    routes = [
        Route("POST", PATH, effects="atomic", key=webhook(SHOP, verify=check)),
        Route("POST", "/hooks/{name}", effects="atomic", key=webhook(other, verify=check)),
    ]
    app = sqlite.protect(handler, routes=routes)

    answers = [await send(app, delivery("evt_1", other=name)) for name in ("x", "y")]

    assert [each.brief for each in answers] == [FRESH, REPLAY]


async def test_a_decorated_endpoint_goes_by_the_route_that_receives_webhooks(
    asgi_sqlite: Backend,
) -> None:
    handler = Applying(asgi_sqlite)
    calls: list[str] = []

    @idempotent(required=True, effects="external")
    async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
        calls.append("called")
        await handler(scope, receive, send)

    key = webhook(BATCHES, verify=check)
    app = asgi_sqlite.protect(endpoint, routes=[Route("POST", PATH, effects="atomic", key=key)])

    assert (await send(app, batch("a", "b"))).brief == FRESH
    assert calls == ["called"] * 2


def serving(app: ASGIApp, backend: Backend) -> ASGIApp:
    """Return a worker that receives batches with an application."""
    route = Route("POST", PATH, effects="external", key=webhook(BATCHES, verify=check))
    return backend.protect(app, routes=[route])


async def test_other_methods_at_the_path_pass_untouched(sqlite: Backend) -> None:
    """A sender's check of the endpoint by GET is the application's to answer."""
    seen: list[object] = []

    async def plain(scope: Scope, receive: Receive, send: Send) -> None:
        del receive
        seen.append(scope["state"].get("idempotency") if not sqlite.is_wsgi else None)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"here"})

    answer = await send(serving(plain, sqlite), Request("GET", PATH, key=None, chunks=()))

    assert (answer.status, answer.body) == (200, b"here")
    assert seen == [None]


# -- reading --------------------------------------------------------------------------------------


async def test_a_sender_that_breaks_off_executes_nothing(sqlite: Backend) -> None:
    handler = Applying(sqlite)
    app = receiving(handler, verify=None)

    broken = await send(app, delivery().but(disconnects=True))
    again = await send(app, delivery())

    assert broken.status in (0, 400)
    assert again.brief == FRESH
    assert len(handler.bodies) == 1


async def test_a_body_of_exactly_the_limit_is_taken(sqlite: Backend) -> None:
    request = delivery()
    size = sum(map(len, request.chunks))

    answers = [
        await send(receiving(Applying(sqlite), body_bytes_max=limit), request)
        for limit in (size - 1, size)
    ]

    assert [each.status for each in answers] == [413, 200]


async def test_over_asgi_a_verifier_may_wait_without_holding_up_other_requests(
    asgi_sqlite: Backend,
) -> None:
    threads: list[int] = []
    app = receiving(
        Applying(asgi_sqlite), verify=lambda _delivery: threads.append(threading.get_ident())
    )

    await send(app, delivery())

    assert threads
    assert threading.get_ident() not in threads
