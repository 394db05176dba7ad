"""Asynchronous receipts in several Postgres databases; see `sharded` for what both colours do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import anyio
import psycopg

from replayfloor.core.claims import Abandon, Claim, ClaimAnswer, Finish, Renew
from replayfloor.core.errors import ConfigurationError, IdempotencyError, StoreUnavailable
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.declared import refuse_shorter
from replayfloor.server.resources import load
from replayfloor.server.stores.policies import Declaration, Declared, PolicyState
from replayfloor.server.stores.postgres_async import AsyncPostgresReceipts
from replayfloor.server.stores.postgres_connection_async import Pool
from replayfloor.server.stores.postgres_options import (
    HANDLER_CONNECTIONS,
    OPERATION_S,
    POOL_CONNECTIONS,
    redacted,
)
from replayfloor.server.stores.postgres_transaction_async import AsyncPostgresTransaction
from replayfloor.server.stores.shard_places import (
    WITHOUT_KEY,
    Place,
    all_or_unavailable,
    gravest,
    misplaced,
    place_of,
    places_of,
    require_place,
)

T = TypeVar("T")


class AsyncShardedReceipts:
    """Claims and receipts in several Postgres databases; see ShardedReceipts.

    Args:
        urls: of the databases, in the order of their places.
        pool_connections: connections for the protocol, per process and database.
        handler_connections: connections for `atomic` handlers, per process and database.
        operation_s: seconds until an operation raises StoreUnavailable.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        pool_connections: int = POOL_CONNECTIONS,
        handler_connections: int = HANDLER_CONNECTIONS,
        operation_s: float = OPERATION_S,
    ) -> None:
        """Check the options; connect nothing. Raises ConfigurationError."""
        self._shards = tuple(
            AsyncShard(url, place, pool_connections, handler_connections, operation_s)
            for url, place in places_of(urls)
        )

    def place_of(self, id_: ReceiptId) -> int:
        """Return the place of a key's database, from 1 on: where to connect for `finish_in`."""
        return place_of(id_, len(self._shards))

    async def open(self) -> None:
        """Open every shard. Raises StoreUnavailable if one is away; the others are open then."""
        try:
            all_or_unavailable(await self._each(lambda shard: shard.open()))
        except StoreUnavailable:
            raise
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.close()
            raise

    async def close(self) -> None:
        """Close every shard."""
        for shard in self._shards:
            await shard.close()

    async def claim(self, claim: Claim) -> ClaimAnswer:
        """See `replayfloor.core.claims.Claim`."""
        return await self._of(claim.id).claim(claim)

    async def finish(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Finish`."""
        return await self._of(finish.id).finish(finish)

    async def abandon(self, abandon: Abandon) -> bool:
        """See `replayfloor.core.claims.Abandon`."""
        return await self._of(abandon.id).abandon(abandon)

    async def renew(self, renew: Renew) -> bool:
        """See `replayfloor.core.claims.Renew`."""
        return await self._of(renew.id).renew(renew)

    async def declare(self, declaration: Declaration) -> Declared:
        """See `ShardedReceipts.declare`."""
        told = await self._each(lambda shard: shard.declare(declaration))
        answers = [each for each in told if isinstance(each, Declared)]
        return gravest(answers or all_or_unavailable(told))

    async def begin(self, id_: ReceiptId | None = None, /) -> AsyncPostgresTransaction:
        """See `ShardedReceipts.begin`."""
        if id_ is None:
            raise ConfigurationError(WITHOUT_KEY)
        return await self._of(id_).begin()

    async def finish_in(self, connection: object, finish: Finish) -> bool:
        """See `ShardedReceipts.finish_in`, and `AsyncPostgresReceipts.finish_in`."""
        return await self._of(finish.id).finish_in(connection, finish)

    def _of(self, id_: ReceiptId) -> AsyncShard:
        return self._shards[self.place_of(id_) - 1]

    async def _each(self, do: Callable[[AsyncShard], Awaitable[T]]) -> list[T | StoreUnavailable]:
        """Do it with all at a time: one that is away must not make the others late."""
        outcomes: dict[AsyncShard, T | StoreUnavailable] = {}
        refusals: list[IdempotencyError | psycopg.Error] = []

        async def attempt(shard: AsyncShard) -> None:
            try:
                outcomes[shard] = await do(shard)
            except StoreUnavailable as error:
                outcomes[shard] = shard.place.named(error)
            except (IdempotencyError, psycopg.Error) as error:  # else the others are cancelled
                refusals.append(error)

        async with anyio.create_task_group() as group:
            for shard in self._shards:
                group.start_soon(attempt, shard)
        for refusal in refusals:
            raise refusal
        return [outcomes[shard] for shard in self._shards]


class AsyncShard(AsyncPostgresReceipts):
    """One of the databases. Before anything is done in it, its place is looked at."""

    def __init__(
        self,
        url: str,
        place: Place,
        pool_connections: int,
        handler_connections: int,
        operation_s: float,
    ) -> None:
        """Check the options; connect nothing. Raises ConfigurationError."""
        super().__init__(
            url,
            pool_connections=pool_connections,
            handler_connections=handler_connections,
            operation_s=operation_s,
        )
        self.place = place
        self._owed: Declaration | None = None

    async def claim(self, claim: Claim) -> ClaimAnswer:
        """See `replayfloor.core.claims.Claim`. Raises RetentionTooShort too."""
        if (owed := self._owed) is not None:
            try:
                refuse_shorter(owed, await self.declare(owed))
            except StoreUnavailable as error:
                error.performed = False  # nothing was claimed
                raise
        try:
            return await super().claim(claim)
        except psycopg.errors.CheckViolation as error:
            if (unavailable := misplaced(error, self.place)) is None:
                raise
            raise unavailable from error

    async def declare(self, declaration: Declaration) -> Declared:
        """Declare; what was not answered, or was refused, is owed before the next claim."""
        self._owed = declaration
        declared = await super().declare(declaration)
        if declared.state is not PolicyState.REFUSED:
            self._owed = None
        return declared

    async def _check_schema(self, protocol: Pool, deadline: float) -> None:
        await super()._check_schema(protocol, deadline)
        (row,) = await self._rows_of(protocol, load("sql/postgres/shard.sql"), None, deadline)
        require_place(self.place, row, redacted(self._options.conninfo))
