"""Which of several databases a key belongs to, and what is said if a database is another. Pure.

Ids are hashes, so that their range is divided evenly, and a database can check with two comparisons
that a key is its own. Twice as many shards are made of copies, in which every key is found where it
has to be (k of N becomes 2 k - 1 and 2 k of 2 N), and no row travels. Rendezvous hashing, which
moves less for any other number, would take rows from every shard for each one that is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeVar, cast

import psycopg

from replayfloor.core.errors import ConfigurationError, StoreUnavailable
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.stores.policies import Declared, PolicyState
from replayfloor.server.stores.protocols import Row

T = TypeVar("T")

SHARDS_MAX: Final = 1024
"""With 24 bits of the id, no shard gets 0.01 % more keys than another one."""

PREFIX_BYTES: Final = 3
"""Of the id; Postgres has the same number in shard_begins_v1."""

CHECK: Final = "claims_are_of_this_shard"
"""The constraint that refuses the claims of other shards."""

WITHOUT_KEY: Final = (
    "which of the shards the transaction has to be opened in follows from the key, and the key was "
    "not given"
)


@dataclass(frozen=True, slots=True)
class Place:
    """One of `shards`; `number` counts from 1, in the order of the URLs."""

    number: int
    shards: int

    def __str__(self) -> str:
        return f"shard {self.number} of {self.shards}"

    def named(self, error: StoreUnavailable) -> StoreUnavailable:
        """Return the error with the name of the shard that it came from."""
        performed: Literal[False] | None = False if error.performed is False else None
        return StoreUnavailable(f"{self}: {error}", performed=performed)


def place_of(id_: ReceiptId, shards: int) -> int:
    """Return the place of a key, from 1 to `shards`: the last that begins at or before its id."""
    return (int.from_bytes(id_[:PREFIX_BYTES]) * shards >> 8 * PREFIX_BYTES) + 1


def places_of(urls: Sequence[str]) -> tuple[tuple[str, Place], ...]:
    """Return each URL with its place. Raises ConfigurationError."""
    if isinstance(urls, str) or not all(isinstance(url, str) for url in cast("list[object]", urls)):
        raise ConfigurationError(
            "shards: expected a sequence of URLs, in the order of their places"
        )
    if not 1 <= len(urls) <= SHARDS_MAX:
        raise ConfigurationError(f"shards: expected 1 to {SHARDS_MAX} URLs, got {len(urls)}")
    if len(set(urls)) < len(urls):
        raise ConfigurationError("shards: a URL is there twice")
    return tuple((url, Place(number, len(urls))) for number, url in enumerate(urls, 1))


def require_place(place: Place, row: Row, database: str) -> None:
    """Raise ConfigurationError unless the row of shard.sql says that the database is `place`."""
    number, shards, guarded = cast("tuple[int | None, int | None, bool]", row)
    told = f"select replayfloor.place_shard_v1({place.number}, {place.shards})"
    if number is None or shards is None:
        raise ConfigurationError(
            f"{database} is to be {place}, and was told of no place; once, as its owner: {told}"
        )
    if (there := Place(number, shards)) != place:
        raise ConfigurationError(
            f"{database} is {there}, and was given as {place}: keys would be looked for where they "
            'are not, and be executed again. See docs/scaling.md, "More shards"'
        )
    if not guarded:
        raise ConfigurationError(
            f"{database} is {place}, but its check {CHECK} is gone, and nothing else refuses the "
            f"claims of other shards; as its owner: {told}"
        )


def misplaced(error: psycopg.errors.CheckViolation, place: Place) -> StoreUnavailable | None:
    """Return what to raise if a claim was refused as another shard's; None for another check."""
    if error.diag.constraint_name != CHECK:
        return None
    return StoreUnavailable(
        f"the database is not {place} any more: keys were moved since this process was started, "
        "which has to be started anew with the shards that there are now",
        performed=False,
    )


def all_or_unavailable(outcomes: Sequence[T | StoreUnavailable]) -> list[T]:
    """Return what came of all shards. Raises StoreUnavailable if some were away, and says which."""
    away = [each for each in outcomes if isinstance(each, StoreUnavailable)]
    if away:
        # Where every one of them is known to have done nothing, that is known of all.
        performed: Literal[False] | None = (
            False if all(each.performed is False for each in away) else None
        )
        raise StoreUnavailable("; ".join(str(each) for each in away), performed=performed)
    return [each for each in outcomes if not isinstance(each, StoreUnavailable)]


def gravest(declared: Sequence[Declared]) -> Declared:
    """Return the answer to a declaration that went to several databases: a refusal by any of them,
    or else what has changed most."""
    return max(declared, key=lambda each: _GRAVITY.index(each.state))


_GRAVITY: Final = (
    PolicyState.SAME,
    PolicyState.FIRST,
    PolicyState.CHANGED,
    PolicyState.SHORTENED,
    PolicyState.REFUSED,
)
