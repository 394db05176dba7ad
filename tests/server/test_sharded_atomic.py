"""An atomic route on several databases: the handler's rows are in the database of its key."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import psycopg
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from contract.sharded_subjects import place
from replayfloor.core.fingerprint import receipt_id
from replayfloor.server import IdempotencyMiddleware
from replayfloor.server.stores.migrate import migrate
from replayfloor.server.stores.shard_places import place_of
from replayfloor.server.stores.sharded_async import AsyncShardedReceipts
from support.services import Services

KEYS = 12


@pytest.fixture
def urls(services: Services) -> Iterator[list[str]]:
    """Two databases that were told their places."""
    names = ["atomic_shard_1", "atomic_shard_2"]
    made = [services.postgres.database(name) for name in names]
    for url in made:
        migrate(url)
    place(made)
    yield made
    for name in names:
        services.postgres.drop(name)


async def pay(request: Request) -> Response:
    """Write one row through the claim's connection."""
    id_ = bytes.fromhex(request.state.idempotency.id)
    await request.state.idempotency.connection.execute("insert into ledger values (%s)", (id_,))
    return JSONResponse({"status": "charged"}, 201)


@pytest.mark.anyio
async def test_an_atomic_handler_writes_in_the_database_of_its_key(urls: list[str]) -> None:
    store = AsyncShardedReceipts(urls)
    app = IdempotencyMiddleware(
        Starlette(routes=[Route("/pay", pay, methods=["POST"])]),
        receipts=store,
        principal=None,
        effects="atomic",
    )
    ids = [receipt_id("default", None, f"key-{number}") for number in range(KEYS)]
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://shop.test"
    ) as client:
        for replayed in (False, True):
            for number in range(KEYS):
                headers = {"Idempotency-Key": f'"key-{number}"'}
                answer = await client.post("/pay", json={"amount": 1}, headers=headers)
                assert answer.status_code == 201
                assert ("idempotent-replayed" in answer.headers) is replayed
    await store.close()
    for number, url in enumerate(urls, 1):
        with psycopg.connect(url) as database:
            rows = database.execute("select id from ledger").fetchall()
        here = [id_ for id_ in ids if place_of(id_, 2) == number]
        assert here
        assert sorted(row[0] for row in rows) == sorted(here)
