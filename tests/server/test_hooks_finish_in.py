"""A handler of webhooks that commits its receipt itself: a success, or nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from replayfloor.core.errors import UsageError
from replayfloor.server import Route
from replayfloor.server.webhooks.route import webhook
from server.apps import read_body
from server.backends import Backend, claim_of
from server.hooks import PATH, SHOP, check, delivery
from server.own_transaction import own_transaction
from server.wire import send

pytestmark = pytest.mark.anyio

FRESH, REPLAY = (200, None, False), (200, None, True)


@dataclass
class Finishing:
    """Writes a row and its receipt in a transaction of its own."""

    backend: Backend
    statuses: list[int]
    answers: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Apply one delivery."""
        await read_body(receive)
        status = self.statuses.pop(0)
        async with own_transaction(self.backend) as own:
            await own.write()
            try:
                await claim_of(scope).finish_in(own.connection, (status, (), b"own"))
            except UsageError as error:
                self.errors.append(str(error))
                raise
            await own.commit()
        status = self.answers.pop(0) if self.answers else status
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b"own"})


def finishing(handler: Finishing) -> ASGIApp:
    """Return a worker for it."""
    route = Route("POST", PATH, effects="external", key=webhook(SHOP, verify=check))
    return handler.backend.protect(handler, routes=[route])


@pytest.mark.parametrize("status", [302, 404, 500])
async def test_a_failure_is_no_receipt_of_an_event_in_a_handlers_own_transaction_either(
    sqlite: Backend, status: int
) -> None:
    """Stored, it would be the answer to every further delivery, until the sender gives up."""
    handler = Finishing(sqlite, [status, 200])
    app = finishing(handler)

    answers = [await send(app, delivery()) for _ in range(3)]

    assert [each.status for each in answers] == [500, 200, 200]
    assert "2xx" in handler.errors[0]
    assert sqlite.ledger.rows() == ["own"]


async def test_a_failure_after_that_commit_is_answered_with_the_success_that_it_holds(
    sqlite: Backend,
) -> None:
    handler = Finishing(sqlite, [200], answers=[500])
    app = finishing(handler)

    answers = [await send(app, delivery()) for _ in range(2)]

    assert [each.brief for each in answers] == [FRESH, REPLAY]
    assert sqlite.ledger.rows() == ["own"]
