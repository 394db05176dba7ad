"""What a delivery meets on its way to the handler, and a batch on its way back to its sender."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import anyio
import pytest
from cryptography.fernet import Fernet
from starlette.types import ASGIApp, Receive, Scope, Send

from replayfloor.core.errors import ConfigurationError
from replayfloor.core.problem import ProblemKind
from replayfloor.server import Route, idempotent
from replayfloor.server.webhooks.delivery import Delivery
from replayfloor.server.webhooks.route import webhook
from server.apps import read_body
from server.backends import Backend
from server.hooks import BATCHES, PATH, SHOP, Applying, batch, check, delivery, receiving
from server.wire import Exchange, Request, send

pytestmark = pytest.mark.anyio

FRESH, REPLAY = (200, None, False), (200, None, True)
HANG_S = 3.0


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


# -- the answer to a batch ------------------------------------------------------------------------


@dataclass
class Lingering:
    """Answers, and then waits for the client to be gone, as ASGI lets an application do."""

    backend: Backend
    ends: list[str] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one event."""
        del scope
        await read_body(receive)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})
        self.ends.append((await receive())["type"])


@dataclass
class Listening(Lingering):
    """Begins to wait for that before it answers."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one event."""
        del scope
        await read_body(receive)

        async def listen() -> None:
            self.ends.append((await receive())["type"])

        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            await anyio.wait_all_tasks_blocked()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"ok"})


def serving(app: ASGIApp, backend: Backend) -> ASGIApp:
    """Return a worker that receives batches with an application."""
    route = Route("POST", PATH, effects="external", key=webhook(BATCHES, verify=check))
    return backend.protect(app, routes=[route])


@pytest.mark.parametrize("kind", [Lingering, Listening])
async def test_an_application_that_waits_for_the_end_of_its_request_does_not_hold_up_a_batch(
    asgi_sqlite: Backend, kind: type[Lingering]
) -> None:
    handler = kind(asgi_sqlite)
    with anyio.fail_after(HANG_S):
        answer = await send(serving(handler, asgi_sqlite), batch("a", "b"))

    assert answer.brief == FRESH
    assert handler.ends == ["http.disconnect"] * 2


@dataclass
class FailingLate:
    """Answers a success, and fails after that."""

    backend: Backend

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one event."""
        del scope
        await read_body(receive)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})
        raise RuntimeError("in the background")


async def test_what_fails_after_the_answers_of_a_batch_does_not_make_them_failures(
    sqlite: Backend,
) -> None:
    app = serving(FailingLate(sqlite), sqlite)
    answers = [await send(app, batch("a", "b")) for _ in range(2)]

    assert [each.status for each in answers] == [200, 200]


@pytest.mark.parametrize(
    ("statuses", "answered"),
    [([400, 503], 503), ([503, 400], 503), ([410, 429, 404], 429), ([302, 200], 302)],
)
async def test_a_failure_that_passes_is_the_answer_to_a_batch_before_one_that_stays(
    asgi_sqlite: Backend, statuses: list[int], answered: int
) -> None:
    """Told 410, a sender would not deliver again what only had to wait."""
    handler = Applying(asgi_sqlite, statuses=list(statuses))
    names = [f"e{number}" for number in range(len(statuses))]

    assert (await send(receiving(handler, BATCHES), batch(*names))).status == answered
    assert len(handler.bodies) == len(statuses)


async def test_a_batch_is_answered_whole_although_its_answers_are_too_large_to_keep(
    sqlite: Backend,
) -> None:
    app = receiving(Applying(sqlite), BATCHES, response_bytes_max=3)
    answers = [await send(app, batch("a", "b")) for _ in range(2)]

    assert [each.status for each in answers] == [200, 200]
    assert [each.body for each in answers] == [b"applied", b""]
    assert [each.complete for each in answers] == [True, True]
    assert sqlite.ledger.rows() == ["a", "b"]


async def test_a_repetition_within_a_batch_is_handed_on_once(sqlite: Backend) -> None:
    handler = Applying(sqlite)
    answer = await send(receiving(handler, BATCHES), batch("a", "a", "b", "a"))

    assert answer.brief == FRESH
    assert sqlite.ledger.rows() == ["a", "b"]


@dataclass
class Looking:
    """Answers, and keeps what it sees of each request."""

    backend: Backend
    lengths: list[tuple[bytes | None, int]] = field(default_factory=list)
    notes: list[object] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one event."""
        body = await read_body(receive)
        announced = dict(scope["headers"]).get(b"content-length")
        self.lengths.append((announced, len(body)))
        self.notes.append(scope["state"].get("pool"))
        scope["state"]["pool"] = "changed by the handler of another event"
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize("names", [("a", "bb", "c"), ("a", "a")])
async def test_each_request_of_a_batch_has_the_length_of_its_own_body(
    sqlite: Backend, names: tuple[str, ...]
) -> None:
    handler = Looking(sqlite)
    whole = batch(*names)
    length = (b"content-length", str(sum(map(len, whole.chunks))).encode())
    sized = whole.but(headers=[*whole.headers, length])

    answer = await send(serving(handler, sqlite), sized)

    assert answer.status == 204
    assert [int(announced or b"-1") for announced, _ in handler.lengths] == [
        size for _, size in handler.lengths
    ]


async def test_each_request_of_a_batch_has_the_state_of_the_lifespan_and_no_others(
    asgi_sqlite: Backend,
) -> None:
    handler = Looking(asgi_sqlite)
    request = batch("a", "b")
    scope = request.scope()
    scope["state"] = {"pool": "of the lifespan"}

    await Exchange(serving(handler, asgi_sqlite), request).run(scope)

    assert handler.notes == ["of the lifespan"] * 2
    assert "idempotency" not in scope["state"]


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
