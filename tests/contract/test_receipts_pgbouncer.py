"""The receipts contract through PgBouncer in transaction mode, and many clients at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial

import pytest

from contract.subjects import blocking_postgres_subject, postgres_subject
from replayfloor.core.claims import Claimed, Finish, Finished, InFlight
from replayfloor.testing.contract import (
    ReceiptsContract,
    ReceiptsSubject,
    all_at_once,
    claim,
    new_fence,
    new_id,
    receipt,
)
from support.services import Services
from support.services.pgbouncer import SERVER_CONNECTIONS, PgBouncer

KEYS = 8
CLAIMS_OF_EACH = 8


# One database for all tests: none of them meets another's keys.
@pytest.fixture(scope="module")
def urls(services: Services, pgbouncer: PgBouncer) -> Iterator[tuple[str, str]]:
    """The addresses of one database, by way of PgBouncer and without it."""
    name = "pooled"
    yield pgbouncer.url_of(name), services.postgres.database(name)
    services.postgres.drop(name)


class SharedConnections(ReceiptsContract):
    """The contract, and what only shows when transactions change connections."""

    async def test_of_many_claims_of_several_keys_one_of_each_is_claimed(
        self, subject: ReceiptsSubject
    ) -> None:
        ids = [new_id() for _ in range(KEYS)]
        stores = [subject.receipts, subject.other] * (CLAIMS_OF_EACH // 2)
        assert len(ids) * len(stores) > SERVER_CONNECTIONS
        fences = {id_: [new_fence() for _ in stores] for id_ in ids}
        calls = [
            partial(store.claim, claim(id_, fence))
            for id_ in ids
            for store, fence in zip(stores, fences[id_], strict=True)
        ]
        answers = await all_at_once(calls)

        assert sum(isinstance(answer, Claimed) for answer in answers) == len(ids)
        assert sum(isinstance(answer, InFlight) for answer in answers) == len(calls) - len(ids)

    async def test_handlers_transactions_keep_their_connections_apart(
        self, subject: ReceiptsSubject
    ) -> None:
        keys = [(new_id(), new_fence()) for _ in range(SERVER_CONNECTIONS - 1)]
        for id_, fence in keys:
            await subject.receipts.claim(claim(id_, fence))
        opened = [(await subject.receipts.begin(), id_, fence) for id_, fence in keys]
        for transaction, id_, _fence in opened:
            await subject.write(transaction.connection, id_)
        for transaction, id_, fence in opened[::2]:
            assert await transaction.commit(Finish(id_, fence, receipt()))
        for transaction, _id, _fence in opened[1::2]:
            await transaction.rollback()

        counted = [await subject.count(id_) for id_, _fence in keys]
        assert counted == [(number + 1) % 2 for number in range(len(keys))]
        answers = [await subject.other.claim(claim(id_, new_fence())) for id_, _fence in keys]
        assert [type(answer) for answer in answers] == [
            InFlight if number % 2 else Finished for number in range(len(keys))
        ]


class TestAsyncThroughPgBouncer(SharedConnections):
    """AsyncPostgresReceipts."""

    @pytest.fixture
    async def subject(self, urls: tuple[str, str]) -> AsyncIterator[ReceiptsSubject]:
        async with postgres_subject(urls[0], direct_url=urls[1]) as subject:
            yield subject


class TestBlockingThroughPgBouncer(SharedConnections):
    """PostgresReceipts."""

    @pytest.fixture
    async def subject(self, urls: tuple[str, str]) -> AsyncIterator[ReceiptsSubject]:
        async with blocking_postgres_subject(urls[0], direct_url=urls[1]) as subject:
            yield subject
