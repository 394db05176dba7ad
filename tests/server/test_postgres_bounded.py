"""No operation of the Postgres stores waits without end, and each says what it knows: whatever the
server does, or does not do, StoreUnavailable is there in time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

import anyio
import psycopg
import pytest

from replayfloor.core.claims import ClaimAnswer, Claimed, Finish, Finished, InFlight
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.stores import AsyncReceipts
from replayfloor.server.stores.postgres import PostgresReceipts
from replayfloor.server.stores.postgres_async import AsyncPostgresReceipts
from replayfloor.testing.contract import claim, new_fence, new_id, receipt
from replayfloor.testing.threads import in_threads
from support.services import Postgres

pytestmark = pytest.mark.anyio

OPERATION_S = 0.5
MARGIN_S = 1.5  # for a busy machine; a wait without end is far above it

SLOW_COMMIT = """
create function slow() returns trigger language plpgsql as $$
begin perform pg_sleep(1.5); return null; end $$;
create constraint trigger slow after insert on ledger deferrable initially deferred
for each row execute function slow();
"""

BOTH_OR_NEITHER = ((1, Finished), (0, InFlight))
"""What may have become of a row and its receipt, of which it is not known what became."""


def make(colour: str, url: str) -> AsyncReceipts:
    """Return a store of either colour that loses its patience soon."""
    if colour == "async":
        return AsyncPostgresReceipts(url, handler_connections=2, operation_s=OPERATION_S)
    return in_threads(PostgresReceipts(url, handler_connections=2, operation_s=OPERATION_S))


@pytest.fixture(params=["async", "blocking"])
async def store(
    request: pytest.FixtureRequest, migrated_own_url: str
) -> AsyncIterator[AsyncReceipts]:
    """A store that has not been opened, on a database with a ledger."""
    with psycopg.connect(migrated_own_url, autocommit=True) as database:
        database.execute("create table ledger (id bytea)")
    store = make(request.param, migrated_own_url)
    yield store
    await store.close()


@asynccontextmanager
async def unavailable_in_time(
    *, performed: tuple[bool | None, ...], operations: int = 1
) -> AsyncGenerator[None]:
    """Expect StoreUnavailable in the time of `operations`, knowing one of these."""
    began = monotonic()
    with pytest.raises(StoreUnavailable) as raised:
        yield
    assert monotonic() - began < operations * OPERATION_S + MARGIN_S
    assert raised.value.performed in performed


async def test_a_server_that_hangs_ends_a_claim_in_time(
    store: AsyncReceipts, postgres_server: Postgres
) -> None:
    await store.open()
    postgres_server.freeze()

    async with unavailable_in_time(performed=(None,)):
        await store.claim(claim(new_id(), new_fence()))

    postgres_server.thaw()
    assert await store.claim(claim(new_id(), new_fence())) == Claimed()


async def test_a_server_that_hangs_ends_the_opening_in_time(
    store: AsyncReceipts, postgres_server: Postgres
) -> None:
    postgres_server.freeze()

    # The asynchronous store also waits until its pools have closed, which may be connecting.
    async with unavailable_in_time(performed=(False,), operations=5):
        await store.open()

    postgres_server.thaw()
    await store.open()
    assert await store.claim(claim(new_id(), new_fence())) == Claimed()


async def test_a_server_that_was_killed_ends_a_claim_in_time(
    store: AsyncReceipts, postgres_server: Postgres
) -> None:
    await store.open()
    postgres_server.crash()

    # Whether the end of the connection has arrived before the statement leaves is chance.
    async with unavailable_in_time(performed=(False, None)):
        await store.claim(claim(new_id(), new_fence()))


async def test_a_transaction_that_finds_no_connection_free_ends_in_time(
    store: AsyncReceipts,
) -> None:
    held = [await store.begin() for _ in range(2)]

    async with unavailable_in_time(performed=(False,)):
        await store.begin()

    for transaction in held:
        await transaction.rollback()


async def test_a_server_that_hangs_ends_a_handlers_transaction_in_time_and_nobody_guesses(
    store: AsyncReceipts, postgres_server: Postgres, migrated_own_url: str
) -> None:
    id_, fence = new_id(), new_fence()
    await store.claim(claim(id_, fence))
    transaction = await store.begin()
    await transaction.connection.execute("insert into ledger values (%s)", (id_,))
    postgres_server.freeze()

    async with unavailable_in_time(performed=(None,)):
        await transaction.commit(Finish(id_, fence, receipt()))

    postgres_server.thaw()
    await _until_all_has_ended(migrated_own_url)
    answer = await store.claim(claim(id_, new_fence()))
    assert (_entries(migrated_own_url), type(answer)) in BOTH_OR_NEITHER


async def test_a_rollback_on_a_server_that_hangs_ends_in_time_and_raises_nothing(
    store: AsyncReceipts, postgres_server: Postgres
) -> None:
    transaction = await store.begin()
    postgres_server.freeze()

    with anyio.fail_after(OPERATION_S + MARGIN_S):
        await transaction.rollback()


async def test_a_finish_that_waits_for_a_lock_ends_in_time_and_nobody_guesses(
    store: AsyncReceipts, migrated_own_url: str
) -> None:
    id_, fence = new_id(), new_fence()
    await store.claim(claim(id_, fence))
    transaction = await store.begin()
    await transaction.connection.execute("insert into ledger values (%s)", (id_,))

    with psycopg.connect(migrated_own_url) as other:
        other.execute("select from replayfloor.claims for update")
        async with unavailable_in_time(performed=(None,)):
            await transaction.commit(Finish(id_, fence, receipt()))

    await _until_all_has_ended(migrated_own_url)
    answer = await store.claim(claim(id_, new_fence()))
    assert (_entries(migrated_own_url), type(answer)) in BOTH_OR_NEITHER


async def test_a_commit_whose_answer_does_not_come_is_not_said_to_have_failed(
    store: AsyncReceipts, migrated_own_url: str
) -> None:
    with psycopg.connect(migrated_own_url, autocommit=True) as database:
        database.execute(SLOW_COMMIT)
    id_, fence = new_id(), new_fence()
    await store.claim(claim(id_, fence))
    transaction = await store.begin()
    await transaction.connection.execute("insert into ledger values (%s)", (id_,))

    async with unavailable_in_time(performed=(None,), operations=2):
        await transaction.commit(Finish(id_, fence, receipt()))

    with anyio.fail_after(10):
        # No event to wait for: what happens, happens in another process.
        while not isinstance(await _patient_claim(store, id_), Finished):  # noqa: ASYNC110
            await anyio.sleep(0.1)
    assert _entries(migrated_own_url) == 1


async def _until_all_has_ended(url: str) -> None:
    """Wait for what the server still has to do: the COMMIT went along with the receipt, and it
    obeys both although nobody is there any more."""
    running = (
        "select count(*) from pg_stat_activity where datname = current_database()"
        " and pid <> pg_backend_pid() and xact_start is not null"
    )
    with psycopg.connect(url, autocommit=True) as database, anyio.fail_after(10):
        while database.execute(running).fetchone() != (0,):  # noqa: ASYNC110 - another process
            await anyio.sleep(0.05)


async def _patient_claim(store: AsyncReceipts, id_: ReceiptId) -> ClaimAnswer | None:
    """A claim waits for the commit that is under way, and may run out of time over it."""
    try:
        return await store.claim(claim(id_, new_fence()))
    except StoreUnavailable:
        return None


def _entries(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as database:
        row = database.execute("select count(*) from ledger").fetchone()
    assert row is not None
    return int(row[0])
