"""A receipt that meets no partition: the store is unavailable, loudly, and no key runs twice."""

from __future__ import annotations

import logging

import pytest

from replayfloor.server.events import EventKind, ServerEvent
from replayfloor.server.stores.migrate import migrate
from server.apps import LedgerApp
from server.backends import Backend, EffectsOption, Ledger
from server.partitions import DAY, START, Database
from server.wire import Request, send

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("effects", ["atomic", "external"])
@pytest.mark.parametrize("side", ["asgi", "wsgi"])
async def test_a_receipt_outside_of_all_partitions_alerts(
    postgres_url: str,
    redis_url: str,
    side: str,
    effects: EffectsOption,
    caplog: pytest.LogCaptureFixture,
) -> None:
    migrate(postgres_url)
    database = Database(postgres_url)
    ledger = Ledger(postgres_url)
    backend = Backend("postgres", side, postgres_url, redis_url, ledger)  # type: ignore[arg-type]
    backend.ledger.create()
    events: list[ServerEvent] = []
    app = backend.protect(
        LedgerApp(backend, effects), effects=effects, lock="local", on_event=events.append
    )
    await send(app, Request(key=b'"opens"'))
    backend.ledger.run("delete from ledger")
    database.set_clock(START + 9999 * DAY)

    with caplog.at_level(logging.WARNING):
        answers = [await send(app) for _ in range(2)]

    assert [each.status for each in answers] == ([503, 503] if effects == "atomic" else [201, 409])
    kinds = {event.kind for event in events}
    assert EventKind.STORE_UNAVAILABLE in kinds or EventKind.RECEIPT_LOST in kinds
    assert "partitions maintain" in caplog.text
    assert len(backend.ledger.rows()) == (0 if effects == "atomic" else 1)
    await backend.close()
