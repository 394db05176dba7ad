"""The retention that a database was told of: one row, shorter only by consent, on every store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import psycopg
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from replayfloor.core.errors import ConfigurationError
from replayfloor.retention import InboundPolicy, RetentionTooShort, Sender
from replayfloor.server import EventKind, ServerEvent
from replayfloor.server.adapters.protocol import AsyncOnReceipts, OnReceipts
from replayfloor.server.declared import declaration_of, difference
from replayfloor.server.settings import build
from replayfloor.server.stores import open_async_receipts, open_receipts
from replayfloor.server.stores.policies import (
    Declaration,
    Declared,
    NotedPolicy,
    PolicyState,
    state_of,
)
from replayfloor.server.stores.policies_read import noted_policies
from server.apps import LedgerApp
from server.backends import Backend
from server.doubles import unavailable, watched_receipts
from server.wire import Request, send

pytestmark = pytest.mark.anyio

FRESH = (201, None, False)
LONG = InboundPolicy(
    "hooks", senders=(Sender("shop", automatic_retry="72h"),), planned_outage="12h"
)
SHORT = InboundPolicy("hooks", senders=(Sender("shop", automatic_retry="24h"),))
OTHER = InboundPolicy("hooks", senders=(Sender("shop", automatic_retry="84h"),))
"""As long as LONG, for another reason."""


def declared(
    policy: InboundPolicy | float, namespace: str = "default", *, accept_shorter: bool = False
) -> Declaration:
    """Return what a middleware with this retention declares."""
    settings = build(
        {"retention": policy, "namespace": namespace, "accept_shorter": accept_shorter}
    )
    assert settings.declaration is not None
    return settings.declaration


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of each kind that was told nothing."""
    if request.param == "postgres":
        return str(request.getfixturevalue("emptied_url"))
    return f"sqlite:///{tmp_path / 'receipts.db'}"


@pytest.fixture
def declare(url: str) -> Iterator[Callable[[Declaration], PolicyState]]:
    """What a store answers to a declaration."""
    receipts = open_receipts(url)
    yield lambda declaration: receipts.declare(declaration).state
    receipts.close()


# -- the store ------------------------------------------------------------------------------------


def test_a_policy_is_noted_once_and_with_all_that_it_says(
    url: str, declare: Callable[[Declaration], PolicyState]
) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)

    assert [declare(declared(LONG)) for _ in range(2)] == [PolicyState.FIRST, PolicyState.SAME]
    (noted,) = noted_policies(url)
    assert (noted.namespace, noted.retention_s) == ("default", 84 * 3600)
    assert (noted.digest, noted.text) == (LONG.digest, LONG.text)
    assert before < noted.noted_at < datetime.now(UTC) + timedelta(seconds=1)


def test_a_shorter_retention_changes_nothing_unless_it_is_accepted(
    url: str, declare: Callable[[Declaration], PolicyState]
) -> None:
    states = [
        declare(each)
        for each in (
            declared(SHORT),
            declared(LONG),
            declared(SHORT),
            declared(OTHER),
            declared(SHORT, accept_shorter=True),
        )
    ]

    expected = ["first", "changed", "refused", "changed", "shortened"]
    assert states == [PolicyState(each) for each in expected]
    assert [each.digest for each in noted_policies(url)] == [SHORT.digest]


def test_namespaces_have_nothing_to_do_with_each_other(
    url: str, declare: Callable[[Declaration], PolicyState]
) -> None:
    assert declare(declared(LONG, "b")) is declare(declared(SHORT, "a")) is PolicyState.FIRST
    assert [each.namespace for each in noted_policies(url)] == ["a", "b"]


async def test_the_asynchronous_store_answers_the_same(url: str) -> None:
    receipts = open_async_receipts(url)
    try:
        every = [declared(LONG), declared(LONG), declared(SHORT), declared(OTHER)]
        answers = [await receipts.declare(each) for each in every]
    finally:
        await receipts.close()

    assert [each.state.value for each in answers] == ["first", "same", "refused", "changed"]
    assert answers[0].before is None
    assert [each.before.digest for each in answers[1:] if each.before] == [LONG.digest] * 3


def test_of_deployments_that_start_at_once_one_row_is_left_and_it_is_the_longest(
    url: str,
) -> None:
    lengths = [float(hours * 3600) for hours in (24, 84, 48, 72)] * 4
    receipts = [open_receipts(url) for _ in lengths]
    barrier = threading.Barrier(len(lengths))

    def start(at: int) -> PolicyState:
        barrier.wait()
        return receipts[at].declare(declared(lengths[at])).state

    with ThreadPoolExecutor(len(lengths)) as pool:
        states = list(pool.map(start, range(len(lengths))))
    for each in receipts:
        each.close()

    (noted,) = noted_policies(url)
    assert noted.retention_s == 84 * 3600
    assert states.count(PolicyState.FIRST) == 1
    longest = {state for state, length in zip(states, lengths, strict=True) if length == 84 * 3600}
    assert PolicyState.REFUSED not in longest
    assert PolicyState.SHORTENED not in states


def test_a_declaration_is_compared_with_the_one_before_it(emptied_url: str) -> None:
    """Both wait for the row. Compared with what stood before that, the shorter would win."""
    receipts = open_receipts(emptied_url)
    receipts.declare(declared(12 * 3600.0))
    with ThreadPoolExecutor(2) as pool, psycopg.connect(emptied_url) as connection:
        connection.execute("select from replayfloor.policies for update")
        both: list[Future[Declared]] = []
        for hours in (84, 24):
            both.append(pool.submit(receipts.declare, declared(hours * 3600.0)))
            with pytest.raises(TimeoutError):
                both[-1].result(0.3)
        connection.commit()
        states = [each.result(10).state for each in both]
    receipts.close()

    assert states == [PolicyState.CHANGED, PolicyState.REFUSED]
    assert [each.retention_s for each in noted_policies(emptied_url)] == [84 * 3600]


def test_a_database_that_was_told_nothing_has_nothing_to_show(url: str) -> None:
    if url.startswith("sqlite"):
        with pytest.raises(ConfigurationError, match="there is no file"):
            noted_policies(url)
        open_receipts(url).open()
    assert noted_policies(url) == []


async def test_the_stores_of_frameworks_declare_to_their_database(url: str) -> None:
    """As their claims, so their policy: it is the one database that the handlers write to."""
    blocking = OnReceipts(open_receipts(url))
    other = AsyncOnReceipts(open_async_receipts(url))
    states = [blocking.declare(declared(LONG)).state]
    states.append((await other.declare(declared(LONG))).state)
    blocking.close()
    await other.close()

    assert states == [PolicyState.FIRST, PolicyState.SAME]


# -- what is declared -----------------------------------------------------------------------------


def test_without_a_retention_nothing_is_declared() -> None:
    assert build({}).declaration is None


def test_a_number_beside_a_policy_is_declared_as_the_policy_with_that_number() -> None:
    longer = build({"retention": 100 * 3600, "policy": LONG}).declaration
    same = build({"retention": 84 * 3600, "policy": LONG}).declaration

    assert longer is not None
    assert (longer.retention_s, longer.text) == (
        100 * 3600,
        LONG.with_terms(retention="100h").text,
    )
    assert same is not None
    assert same.digest == LONG.digest


def test_a_plain_number_says_that_it_is_one() -> None:
    plain, policy = declared(84 * 3600), declared(LONG)

    assert plain.text == "a retention without a policy\n= retention 302400 s\n"
    assert plain.digest != policy.digest
    assert declared(1.5).text.endswith("= retention 1.500000 s\n")


def test_a_difference_is_told_in_words() -> None:
    assert sorted(difference(LONG.text, SHORT.text)) == [
        "planned outage 12 h -> none",
        "retention 84 h -> 1 d",
        "shop: automatic retry 3 d -> 1 d",
    ]
    assert difference(LONG.text, LONG.text) == []
    plain = declaration_of("default", 3600.0, None, accept_shorter=False)
    assert plain is not None
    assert "policy hooks -> none" in difference(LONG.text, plain.text)
    assert difference("what a later release wrote\n(or not)\n", "") != []


# -- the middlewares ------------------------------------------------------------------------------


async def start(app: ASGIApp) -> list[Message]:
    """Start and stop an application, as a server does; return what it says."""
    inbox: list[Message] = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    said: list[Message] = []

    async def receive() -> Message:
        return inbox.pop(0)

    async def say(message: Message) -> None:
        said.append(message)

    scope: Scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
    await app(scope, receive, say)
    return said


async def living(_scope: Scope, receive: Receive, say: Send) -> None:
    """An application with a lifespan, and nothing else."""
    for phase in ("startup", "shutdown"):
        await receive()
        await say({"type": f"lifespan.{phase}.complete"})


async def test_a_start_with_a_shorter_retention_is_refused_with_both_and_what_to_do(
    asgi: Backend,
) -> None:
    first = await start(asgi.protect(living, retention=LONG))
    refused = await start(asgi.protect(living, retention=SHORT))

    assert [each["type"] for each in first] == [
        "lifespan.startup.complete",
        "lifespan.shutdown.complete",
    ]
    assert [each["type"] for each in refused] == ["lifespan.startup.failed"]
    for words in (
        "kept for 84 h",
        "kept for 1 d",
        "shop: automatic retry 3 d -> 1 d",
        "planned outage 12 h -> none",
        "accept_shorter=True",
        "replayfloor retention accept",
    ):
        assert words in refused[0]["message"]


async def test_a_start_with_a_shorter_retention_that_is_accepted_goes_on_and_says_so(
    asgi: Backend,
) -> None:
    events: list[ServerEvent] = []
    await start(asgi.protect(living, retention=LONG))
    accepted = asgi.protect(living, retention=SHORT, accept_shorter=True, on_event=events.append)

    assert (await start(accepted))[0]["type"] == "lifespan.startup.complete"
    assert [(each.kind, each.receipt_id) for each in events] == [(EventKind.POLICY_CHANGED, "")]
    assert "84 h" in events[0].detail
    assert "accepted" in events[0].detail
    # The deployment before it, started again, is told that it disagrees: it keeps for longer.
    again: list[ServerEvent] = []
    await start(asgi.protect(living, retention=LONG, on_event=again.append))
    assert [each.kind for each in again] == [EventKind.POLICY_CHANGED]


async def test_without_a_start_the_first_key_declares_and_a_refused_one_executes_nothing(
    backend: Backend,
) -> None:
    events: list[ServerEvent] = []
    first = backend.protect(LedgerApp(backend), retention=LONG, on_event=events.append)
    shorter = backend.protect(LedgerApp(backend), retention=SHORT)

    assert (await send(first, Request(key=None))).status == 201
    assert (await send(first)).brief == FRESH
    answer = await send(shorter, Request(key=b'"other"'))

    assert isinstance(answer.raised, RetentionTooShort) or answer.status == 500
    assert EventKind.POLICY_CHANGED not in [each.kind for each in events]
    assert len(backend.ledger.rows()) == 2
    assert [each.digest for each in noted_policies(backend.receipts_url)] == [LONG.digest]


async def test_a_database_that_is_away_at_the_start_is_told_before_the_first_claim(
    backend: Backend,
) -> None:
    receipts = watched_receipts(backend.receipts())
    receipts.before["declare"] = unavailable(1)
    app = backend.protect(LedgerApp(backend), receipts=receipts, retention=LONG)

    away = await send(app)
    assert (away.status, backend.ledger.rows()) == (503, [])
    assert "claim" not in receipts.calls
    answers = [await send(app) for _ in range(3)]

    assert [each.status for each in answers] == [201] * 3
    assert len(backend.ledger.rows()) == 1
    assert receipts.calls.count("declare") == 2
    assert receipts.calls.index("claim") > receipts.calls.index("declare")
    assert [each.digest for each in noted_policies(backend.receipts_url)] == [LONG.digest]


async def test_a_start_without_a_database_goes_on(asgi_sqlite: Backend) -> None:
    receipts = watched_receipts(asgi_sqlite.receipts())
    receipts.before["declare"] = unavailable(1)
    app = asgi_sqlite.protect(living, receipts=receipts, retention=LONG)

    assert (await start(app))[0]["type"] == "lifespan.startup.complete"


async def test_many_first_requests_at_once_declare_one_policy(backend: Backend) -> None:
    app = backend.protect(LedgerApp(backend), retention=LONG)
    answers = []

    async def one(at: int) -> None:
        answers.append(await send(app, Request(key=f'"{at}"'.encode())))

    async with anyio.create_task_group() as group:
        for at in range(8):
            group.start_soon(one, at)

    assert [each.brief for each in answers] == [FRESH] * 8
    assert len(noted_policies(backend.receipts_url)) == 1


def test_a_noted_policy_of_another_release_is_compared_by_its_retention() -> None:
    """Its text may say what this release cannot read; its length is a column of its own."""
    new = declared(LONG)
    old = NotedPolicy("default", "another digest", 3600.0, "…", datetime.now(UTC))
    assert state_of(new, old) is PolicyState.CHANGED
    assert state_of(replace(new, retention_s=60.0), old) is PolicyState.REFUSED
