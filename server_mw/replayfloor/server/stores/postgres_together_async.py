"""Several claims or finishes of asynchronous callers in one statement and one commit.

Given what asks the server; returns answers in the order of what was asked. ALONE instead of an
answer: nothing was done, and the entry is to be asked by itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, LiteralString, TypeAlias

import psycopg
from psycopg.pq.abc import PGresult

from replayfloor.core.claims import Claim, ClaimAnswer, Claimed, Finish
from replayfloor.core.errors import StoreUnavailable
from replayfloor.server.resources import load
from replayfloor.server.stores.postgres_batch import (
    ALONE,
    AloneType,
    claims_answers,
    claims_parameters,
    finishes_answers,
    finishes_parameters,
)
from replayfloor.server.stores.postgres_direct import (
    Written,
    arrays_written,
    claim_written,
    finish_written,
    is_plainly_claimed,
    rows_of,
)
from replayfloor.server.stores.postgres_link import is_of_an_entry
from replayfloor.server.stores.postgres_values import claim_answer

CLAIMED: Final = Claimed()

Ask: TypeAlias = Callable[[LiteralString, Written], Awaitable[PGresult]]
"""Runs a statement. Raises StoreUnavailable, and what the server has refused."""


async def claim_one(ask: Ask, claim: Claim) -> ClaimAnswer:
    """Make a claim."""
    result = await ask(load("sql/postgres/claim.sql"), claim_written(claim))
    if is_plainly_claimed(result):
        return CLAIMED
    (row,) = rows_of(result)
    return claim_answer(row)


async def finish_one(ask: Ask, finish: Finish) -> bool:
    """Finish a claim."""
    result = await ask(load("sql/postgres/finish.sql"), finish_written(finish))
    return result.get_value(0, 0) == b"t"


async def claim_all(
    ask: Ask, claims: Sequence[Claim]
) -> Sequence[ClaimAnswer | AloneType | Exception]:
    """Make claims of distinct ids, sorted by id."""
    if is_single(claims):
        return [await claim_one(ask, claims[0])]
    written = arrays_written(claims_parameters(claims))
    result = await _ask_all(ask, load("sql/postgres/claim_batch.sql"), written)
    return [ALONE] * len(claims) if result is None else claims_answers(claims, rows_of(result))


async def finish_all(ask: Ask, finishes: Sequence[Finish]) -> Sequence[bool | AloneType]:
    """Finish claims of distinct ids, sorted by id."""
    if is_single(finishes):
        return [await finish_one(ask, finishes[0])]
    written = arrays_written(finishes_parameters(finishes))
    result = await _ask_all(ask, load("sql/postgres/finish_batch.sql"), written)
    if result is None:
        return [ALONE] * len(finishes)
    return finishes_answers(finishes, rows_of(result))


def is_single(entries: Sequence[object]) -> bool:
    """Say whether the statement for one entry is enough, which takes the server less time."""
    return len(entries) == 1


async def _ask_all(ask: Ask, query: LiteralString, written: Written) -> PGresult | None:
    """Return the rows, or None if one of the entries has spoiled the statement for all."""
    try:
        return await ask(query, written)
    except (psycopg.Error, StoreUnavailable) as error:
        if is_of_an_entry(error):
            return None
        raise
