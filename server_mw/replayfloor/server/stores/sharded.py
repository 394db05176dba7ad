"""Blocking receipts in several Postgres databases, each key in one of them. Routing; no SQL of its
own but the look at a database's place. Which place a key has is said in `shard_places`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import psycopg

from replayfloor.core.claims import Abandon, Claim, ClaimAnswer, Finish, Renew
from replayfloor.core.errors import ConfigurationError, StoreUnavailable
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.declared import refuse_shorter
from replayfloor.server.resources import load
from replayfloor.server.stores.policies import Declaration, Declared, PolicyState
from replayfloor.server.stores.postgres import PostgresReceipts
from replayfloor.server.stores.postgres_connection import Pool, get_connection
from replayfloor.server.stores.postgres_options import (
    HANDLER_CONNECTIONS,
    OPERATION_S,
    POOL_CONNECTIONS,
    redacted,
)
from replayfloor.server.stores.postgres_together import one_row
from replayfloor.server.stores.postgres_transaction import PostgresTransaction
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


class ShardedReceipts:
    """Claims and receipts in several Postgres databases; a key belongs to one of them.

    Each database was told its place once (`replayfloor.place_shard_v1`): one that is another, or
    one of another number, is refused here, and refuses every claim that is not its own. While one
    of them is away, the keys of the others are served. See docs/scaling.md.

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
            Shard(url, place, pool_connections, handler_connections, operation_s)
            for url, place in places_of(urls)
        )

    def place_of(self, id_: ReceiptId) -> int:
        """Return the place of a key's database, from 1 on: where to connect for `finish_in`."""
        return place_of(id_, len(self._shards))

    def open(self) -> None:
        """Open every shard. Raises StoreUnavailable if one is away; the others are open then."""
        try:
            all_or_unavailable(self._each(lambda shard: shard.open()))
        except StoreUnavailable:
            raise
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close every shard."""
        for shard in self._shards:
            shard.close()

    def claim(self, claim: Claim) -> ClaimAnswer:
        """See `replayfloor.core.claims.Claim`."""
        return self._of(claim.id).claim(claim)

    def finish(self, finish: Finish) -> bool:
        """See `replayfloor.core.claims.Finish`."""
        return self._of(finish.id).finish(finish)

    def abandon(self, abandon: Abandon) -> bool:
        """See `replayfloor.core.claims.Abandon`."""
        return self._of(abandon.id).abandon(abandon)

    def renew(self, renew: Renew) -> bool:
        """See `replayfloor.core.claims.Renew`."""
        return self._of(renew.id).renew(renew)

    def declare(self, declaration: Declaration) -> Declared:
        """See `replayfloor.server.stores.Receipts.declare`; here it is one operation per shard.

        A shard that is away is told before its next claim. Raises StoreUnavailable if all are.
        """
        told = self._each(lambda shard: shard.declare(declaration))
        answers = [each for each in told if isinstance(each, Declared)]
        return gravest(answers or all_or_unavailable(told))

    def begin(self, id_: ReceiptId | None = None, /) -> PostgresTransaction:
        """See `replayfloor.core.claims.Begin`; in the database of the key.

        Raises ConfigurationError if the key was not given.
        """
        if id_ is None:
            raise ConfigurationError(WITHOUT_KEY)
        return self._of(id_).begin()

    def finish_in(self, connection: object, finish: Finish) -> bool:
        """See `PostgresReceipts.finish_in`.

        The connection is one to the key's database (`place_of`): in another, no claim is found, and
        the answer is that it was lost.
        """
        return self._of(finish.id).finish_in(connection, finish)

    def _of(self, id_: ReceiptId) -> Shard:
        return self._shards[self.place_of(id_) - 1]

    def _each(self, do: Callable[[Shard], T]) -> list[T | StoreUnavailable]:
        """Do it with all at a time: one that is away must not make the others late."""

        def attempt(shard: Shard) -> T | StoreUnavailable:
            try:
                return do(shard)
            except StoreUnavailable as error:
                return shard.place.named(error)

        with ThreadPoolExecutor(len(self._shards)) as threads:
            return list(threads.map(attempt, self._shards))


class Shard(PostgresReceipts):
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

    def claim(self, claim: Claim) -> ClaimAnswer:
        """See `replayfloor.core.claims.Claim`. Raises RetentionTooShort too."""
        if (owed := self._owed) is not None:
            try:
                refuse_shorter(owed, self.declare(owed))
            except StoreUnavailable as error:
                error.performed = False  # nothing was claimed
                raise
        try:
            return super().claim(claim)
        except psycopg.errors.CheckViolation as error:
            if (unavailable := misplaced(error, self.place)) is None:
                raise
            raise unavailable from error

    def declare(self, declaration: Declaration) -> Declared:
        """Declare; what was not answered, or was refused, is owed before the next claim."""
        self._owed = declaration
        declared = super().declare(declaration)
        if declared.state is not PolicyState.REFUSED:
            self._owed = None
        return declared

    def _check_schema(self, protocol: Pool, deadline: float) -> None:
        super()._check_schema(protocol, deadline)
        connection = get_connection(protocol, deadline)
        try:
            row = one_row(connection, load("sql/postgres/shard.sql"), None, deadline)
        finally:
            protocol.putconn(connection)
        require_place(self.place, row, redacted(self._options.conninfo))
