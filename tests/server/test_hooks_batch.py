"""Several events in one delivery: each is applied once, and what failed alone is applied later."""

from __future__ import annotations

import json
from functools import partial

import anyio
import pytest

from replayfloor.core.problem import ProblemKind
from server.apps import Gate, Hook, Killed, raising
from server.backends import Backend
from server.hooks import BATCHES, SIGNED, Applying, batch, receiving
from server.wire import Answer, Request, send

pytestmark = pytest.mark.anyio


async def test_the_handler_is_run_once_for_each_event_with_a_body_of_that_event_alone(
    backend: Backend,
) -> None:
    handler = Applying(backend)
    app = receiving(handler, BATCHES)

    answer = await send(app, batch("a", "b", "c", kept="as it is"))

    told = [json.loads(body) for body in handler.bodies]
    assert answer.brief == (200, None, False)
    assert [each["events"] for each in told] == [[{"id": n, "amount": 1}] for n in ("a", "b", "c")]
    assert {each["kept"] for each in told} == {"as it is"}
    assert backend.ledger.rows() == ["a", "b", "c"]


async def test_batches_that_overlap_apply_each_event_once(backend: Backend) -> None:
    app = receiving(Applying(backend), BATCHES)

    answers = [await send(app, batch(*names)) for names in ("ab", "bc", "ca", "abc")]

    assert [each.status for each in answers] == [200] * 4
    assert sorted(backend.ledger.rows()) == ["a", "b", "c"]


async def test_a_batch_of_which_one_event_fails_is_delivered_again_and_only_that_one_applied(
    backend: Backend,
) -> None:
    broken = receiving(Applying(backend, fails_for=["b"]), BATCHES)
    handler = Applying(backend)
    app = receiving(handler, BATCHES)

    failed = await send(broken, batch("a", "b", "c"))
    rows = backend.ledger.rows()
    again = await send(app, batch("a", "b", "c"))

    assert failed.status == 500
    assert rows == ["a", "c"]
    assert again.status == 200
    assert [json.loads(body)["events"][0]["id"] for body in handler.bodies] == ["b"]
    assert sorted(backend.ledger.rows()) == ["a", "b", "c"]


async def test_a_handler_that_raises_for_one_event_does_not_hold_up_the_others(
    backend: Backend,
) -> None:
    broken = receiving(Applying(backend, after=once(RuntimeError("no"))), BATCHES)
    app = receiving(Applying(backend), BATCHES)

    failed = await send(broken, batch("a", "b"))
    rows = backend.ledger.rows()
    again = await send(app, batch("a", "b"))

    assert (failed.status, again.status) == (500, 200)
    assert rows == ["b"]
    assert sorted(backend.ledger.rows()) == ["a", "b"]


def once(error: Exception) -> Hook:
    """Return a hook that raises the first time."""
    left = [raising(error)]

    async def hook() -> None:
        if left:
            await left.pop()()

    return hook


async def test_while_one_event_of_a_batch_is_in_flight_the_whole_is_delivered_again(
    backend: Backend,
) -> None:
    gate = Gate()
    slow = receiving(Applying(backend, before=gate), BATCHES)
    app = receiving(Applying(backend), BATCHES)

    busy: list[Answer] = []
    rows: list[str] = []
    async with anyio.create_task_group() as group:
        group.start_soon(partial(send, slow, batch("b")))
        await gate.entered.wait()
        busy.append(await send(app, batch("a", "b", "c")))
        rows += backend.ledger.rows()
        gate.opened.set()
    again = await send(app, batch("a", "b", "c"))

    assert [each.brief for each in busy] == [(409, ProblemKind.IN_FLIGHT, False)]
    assert rows == ["a", "c"]
    assert again.status == 200
    assert sorted(backend.ledger.rows()) == ["a", "b", "c"]


async def test_a_worker_that_is_killed_in_the_middle_of_a_batch_has_applied_the_events_before(
    asgi: Backend,
) -> None:
    backend = asgi
    killed = receiving(Applying(backend, after=second(Killed())), BATCHES, lease_s=0.05)
    app = receiving(Applying(backend), BATCHES)

    with pytest.raises(Killed):
        await send(killed, batch("a", "b", "c"))
    rows = backend.ledger.rows()
    await anyio.sleep(0.1)
    again = await send(app, batch("a", "b", "c"))

    assert rows == ["a"]
    assert again.status == 200
    assert sorted(backend.ledger.rows()) == ["a", "b", "c"]


def second(error: BaseException) -> Hook:
    """Return a hook that raises the second time."""
    calls = [0]

    async def hook() -> None:
        calls[0] += 1
        if calls[0] == 2:
            raise error

    return hook


async def test_a_delivery_of_no_events_is_acknowledged(backend: Backend) -> None:
    handler = Applying(backend)

    answer = await send(receiving(handler, BATCHES), batch())

    assert answer.brief == (200, None, False)
    assert handler.bodies == []


@pytest.mark.parametrize("entry", ["{}", '{"id": null}', "7"])
async def test_a_batch_of_which_one_event_cannot_be_told_is_refused_as_a_whole(
    asgi_sqlite: Backend, entry: str
) -> None:
    """A success would say that it was taken, and it could never be delivered again."""
    handler = Applying(asgi_sqlite)
    body = '{"events": [{"id": "a"}, ' + entry + "]}"
    request = Request(path="/hooks/shop", key=None, chunks=(body.encode(),), headers=[SIGNED])

    answer = await send(receiving(handler, BATCHES), request)

    assert answer.brief == (400, ProblemKind.UNIDENTIFIED_EVENT, False)
    assert handler.bodies == []
