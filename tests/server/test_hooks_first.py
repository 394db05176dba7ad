"""A webhook's event is applied once, whoever delivers it how often; successes only are stored."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal

import anyio
import pytest

from replayfloor.core.problem import ProblemKind
from replayfloor.server import EventKind, ServerEvent
from server.apps import Gate, Killed, raising
from server.backends import Backend
from server.hooks import PATH, SHOP, Applying, delivery, receiving
from server.wire import Answer, Request, send, send_all

pytestmark = pytest.mark.anyio

FRESH, REPLAY = (200, None, False), (200, None, True)


async def test_an_event_that_is_delivered_again_is_acknowledged_and_not_applied(
    backend: Backend,
) -> None:
    handler = Applying(backend)
    app, other = receiving(handler), receiving(handler)

    answers = [await send(each, delivery()) for each in (app, app, other)]

    assert [each.brief for each in answers] == [FRESH, REPLAY, REPLAY]
    assert [each.body for each in answers] == [b"applied"] * 3
    assert backend.ledger.rows() == ["evt_1"]


async def test_what_a_sender_changes_from_attempt_to_attempt_does_not_count(
    backend: Backend,
) -> None:
    app = receiving(Applying(backend))
    first = delivery("evt_1", (b"x-delivery", b"d1"), (b"x-attempt", b"0"), pending=2)
    again = delivery("evt_1", (b"x-delivery", b"d2"), (b"x-attempt", b"1"), pending=1)

    answers = [await send(app, each) for each in (first, again)]

    assert [each.brief for each in answers] == [FRESH, REPLAY]
    assert backend.ledger.rows() == ["evt_1"]


async def test_two_events_are_two_events_even_if_all_else_is_equal(backend: Backend) -> None:
    app = receiving(Applying(backend))

    answers = [await send(app, delivery(name, amount=1)) for name in ("evt_1", "evt_2")]

    assert [each.brief for each in answers] == [FRESH, FRESH]
    assert sorted(backend.ledger.rows()) == ["evt_1", "evt_2"]


async def test_one_event_at_two_endpoints_is_applied_by_both(asgi_sqlite: Backend) -> None:
    backend = asgi_sqlite
    app = receiving(Applying(backend), path="/hooks/{name}")

    answers = [await send(app, delivery(path=path)) for path in ("/hooks/a", "/hooks/b")]

    assert [each.brief for each in answers] == [FRESH, FRESH]
    assert backend.ledger.rows() == ["evt_1", "evt_1"]


@pytest.mark.parametrize("status", [302, 400, 404, 409, 410, 500, 503])
async def test_an_answer_that_is_no_success_is_not_stored_and_the_next_delivery_is_applied(
    asgi: Backend, status: int
) -> None:
    backend = asgi
    handler = Applying(backend, effects="external", statuses=[status])
    app = receiving(handler)

    answers = [await send(app, delivery()) for _ in range(3)]

    assert [each.status for each in answers] == [status, 200, 200]
    assert [each.replayed for each in answers] == [False, False, True]
    assert len(handler.bodies) == 2


async def test_a_handler_that_fails_is_rolled_back_and_run_again_by_the_next_delivery(
    backend: Backend,
) -> None:
    broken = receiving(Applying(backend, after=raising(RuntimeError("no"))))
    app = receiving(Applying(backend))

    failed = await send(broken, delivery())
    rows = backend.ledger.rows()
    again = await send(app, delivery())

    assert failed.status == 500
    assert rows == []
    assert again.brief == FRESH
    assert backend.ledger.rows() == ["evt_1"]


async def test_an_external_handler_that_raises_is_run_again(asgi_sqlite: Backend) -> None:
    backend = asgi_sqlite
    broken = receiving(Applying(backend, "external", before=raising(RuntimeError("no"))))
    app = receiving(Applying(backend, "external"))

    answers = [await send(each, delivery()) for each in (broken, app)]

    assert [each.status for each in answers] == [500, 200]
    assert backend.ledger.rows() == ["evt_1"]


async def test_an_external_handler_that_was_stopped_leaves_an_outcome_that_nobody_knows(
    asgi_sqlite: Backend,
) -> None:
    backend = asgi_sqlite
    stopped = receiving(Applying(backend, "external", after=raising(Killed())), lease_s=0.05)
    app = receiving(Applying(backend, "external"))

    with pytest.raises(Killed):
        await send(stopped, delivery())
    await anyio.sleep(0.1)
    again = await send(app, delivery())

    assert again.brief == (409, ProblemKind.OUTCOME_UNKNOWN, False)
    assert backend.ledger.rows() == ["evt_1"]


@pytest.mark.parametrize("busy_status", [409, 503])
async def test_while_an_event_is_applied_another_delivery_is_told_to_come_back(
    backend: Backend, busy_status: Literal[409, 503]
) -> None:
    source = replace(SHOP, busy_status=busy_status)
    gate = Gate()
    app = receiving(Applying(backend, before=gate), source)
    other = receiving(Applying(backend), source)

    busy: list[Answer] = []
    async with anyio.create_task_group() as group:
        group.start_soon(partial(send, app, delivery()))
        await gate.entered.wait()
        busy.append(await send(other, delivery()))
        gate.opened.set()

    assert [each.brief for each in busy] == [(busy_status, ProblemKind.IN_FLIGHT, False)]
    assert int(busy[0].first(b"retry-after") or b"0") >= 1
    assert backend.ledger.rows() == ["evt_1"]


async def test_an_answer_that_is_too_large_to_keep_is_still_a_success_for_the_sender(
    asgi: Backend,
) -> None:
    backend = asgi
    app = receiving(Applying(backend), response_bytes_max=3)

    answers = [await send(app, delivery()) for _ in range(2)]

    assert [each.status for each in answers] == [200, 200]
    assert [each.body for each in answers] == [b"applied", b""]
    assert backend.ledger.rows() == ["evt_1"]


# -- verification comes first ----------------------------------------------------------------------


async def test_a_delivery_that_is_not_its_senders_executes_and_stores_nothing(
    backend: Backend,
) -> None:
    app = receiving(Applying(backend))
    forged = Request(path=PATH, key=None, chunks=(b'{"id": "evt_1"}',))

    refused = [await send(app, forged) for _ in range(2)]
    real = await send(app, delivery())

    assert [each.brief for each in refused] == [(401, ProblemKind.INVALID_SIGNATURE, False)] * 2
    assert real.brief == FRESH
    assert backend.ledger.rows() == ["evt_1"]


async def test_a_forgery_does_not_even_open_the_store(
    asgi_sqlite: Backend,
) -> None:
    events: list[ServerEvent] = []
    app = receiving(Applying(asgi_sqlite), on_event=events.append)

    await send(app, Request(path=PATH, key=None, chunks=(b'{"id": "evt_1"}',)))

    assert [(each.kind, each.receipt_id) for each in events] == [(EventKind.REFUSED, "")]
    tables = asgi_sqlite.ledger.run("select name from sqlite_master where type = 'table'")
    assert tables == [("ledger",)]


async def test_a_verifier_that_breaks_is_a_failure_of_the_application_and_claims_nothing(
    backend: Backend,
) -> None:
    def broken(_delivery: object) -> None:
        raise RuntimeError("the sender's keys cannot be fetched")

    answer = await send(receiving(Applying(backend), verify=broken), delivery())
    again = await send(receiving(Applying(backend)), delivery())

    assert answer.status == 500
    assert again.brief == FRESH


async def test_the_verifier_sees_the_bytes_as_they_came(asgi: Backend) -> None:
    seen: list[bytes] = []
    handler = Applying(asgi)
    body = b'{ "id" : "evt_1", "price": 1.10, "name": "\\u00e9" }\n'
    chunks = [body[:7], body[7:9], body[9:]]

    def see(delivered: object) -> None:
        seen.append(delivered.body)  # type: ignore[attr-defined]

    request = Request(path=PATH, key=None, chunks=chunks)
    answer = await send(receiving(handler, verify=see), request)

    assert answer.brief == FRESH
    assert seen == [body]
    assert handler.bodies == [body]


# -- events that cannot be told --------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"{}", b"[]", b"no json", b'{"id": null}', b'{"id": ""}'])
async def test_a_delivery_without_an_event_id_is_refused_and_executes_nothing(
    asgi_sqlite: Backend, body: bytes
) -> None:
    handler = Applying(asgi_sqlite)
    request = Request(path=PATH, key=None, chunks=(body,))
    answer = await send(receiving(handler, verify=None), request)

    assert answer.brief == (400, ProblemKind.UNIDENTIFIED_EVENT, False)
    assert handler.bodies == []


async def test_an_id_that_comes_with_another_event_is_refused_and_not_dropped(
    asgi: Backend,
) -> None:
    source = replace(SHOP, compared="body /type")
    app = receiving(Applying(asgi), source)

    answers = [await send(app, delivery(type=kind)) for kind in ("paid", "refunded", "paid")]

    reused = (422, ProblemKind.EVENT_REUSED, False)
    assert [each.brief for each in answers] == [FRESH, reused, REPLAY]


async def test_a_body_that_is_too_large_is_refused_and_executes_nothing(backend: Backend) -> None:
    handler = Applying(backend)
    answer = await send(receiving(handler, body_bytes_max=10), delivery())

    assert answer.brief == (413, ProblemKind.BODY_TOO_LARGE, False)
    assert handler.bodies == []


async def test_a_key_in_the_header_plays_no_part(asgi_sqlite: Backend) -> None:
    """A sender that also sends an Idempotency-Key makes it per delivery, as like as not."""
    app = receiving(Applying(asgi_sqlite))
    answers = [await send(app, delivery().but(key=key)) for key in (b'"a"', b'"b"', b"'")]

    assert [each.brief for each in answers] == [FRESH, REPLAY, REPLAY]


# -- at once ---------------------------------------------------------------------------------------


ROUNDS = 200


async def test_of_two_copies_at_once_one_is_applied_in_each_of_200_rounds(
    asgi_postgres: Backend,
) -> None:
    backend = asgi_postgres
    handler = Applying(backend)
    apps = [receiving(handler), receiving(handler)]

    for number in range(ROUNDS):
        request = delivery(f"evt_{number}")
        answers = await send_all([partial(send, app, request) for app in apps])
        statuses = sorted(each.status for each in answers)
        assert statuses in ([200, 200], [200, 409])
        assert sum(1 for each in answers if each.brief == FRESH) == 1

    assert sorted(backend.ledger.rows()) == sorted(f"evt_{number}" for number in range(ROUNDS))
