"""Several claims or finishes of blocking callers in one statement and one commit.

Given a connection; returns answers in the order of what was asked. If one entry has spoiled the
statement for all, nothing was done, and Alone is raised: each is to be asked by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, LiteralString, TypeVar

import psycopg

from replayfloor.core.claims import Claim, ClaimAnswer, Claimed, Finish
from replayfloor.core.errors import StoreUnavailable
from replayfloor.server.coalesce_threads import Alone
from replayfloor.server.resources import load
from replayfloor.server.stores.postgres_batch import (
    ALONE,
    claims_answers,
    claims_parameters,
    finishes_answers,
    finishes_parameters,
)
from replayfloor.server.stores.postgres_connection import BoundedConnection, answered_by
from replayfloor.server.stores.postgres_direct import (
    arrays_written,
    claim_written,
    finish_written,
    is_plainly_claimed,
    result_of,
    rows_of,
)
from replayfloor.server.stores.postgres_link import is_of_an_entry
from replayfloor.server.stores.postgres_values import Values, claim_answer
from replayfloor.server.stores.protocols import Row

CLAIMED: Final = Claimed()

AskedT = TypeVar("AskedT", Claim, Finish)
AnswerT = TypeVar("AnswerT")


def claim_one(connection: BoundedConnection, claim: Claim, deadline: float) -> ClaimAnswer:
    """Make a claim."""
    query = load("sql/postgres/claim.sql")
    result = result_of(connection, query, claim_written(claim), deadline)
    if is_plainly_claimed(result):
        return CLAIMED
    (row,) = rows_of(result)
    return claim_answer(row)


def finish_one(connection: BoundedConnection, finish: Finish, deadline: float) -> bool:
    """Finish a claim."""
    query = load("sql/postgres/finish.sql")
    result = result_of(connection, query, finish_written(finish), deadline)
    return result.get_value(0, 0) == b"t"


def claim_all(
    connection: BoundedConnection, claims: Sequence[Claim], deadline: float
) -> list[ClaimAnswer | Exception]:
    """Make claims of distinct ids."""
    if len(claims) == 1:
        return [claim_one(connection, claims[0], deadline)]
    ordered, places = _by_id(claims)
    query, parameters = load("sql/postgres/claim_batch.sql"), claims_parameters(ordered)
    answers = claims_answers(ordered, _rows_of_all(connection, query, parameters, deadline))
    return _in_places(places, [Alone() if each is ALONE else each for each in answers])


def finish_all(
    connection: BoundedConnection, finishes: Sequence[Finish], deadline: float
) -> list[bool | Exception]:
    """Finish claims of distinct ids."""
    if len(finishes) == 1:
        return [finish_one(connection, finishes[0], deadline)]
    ordered, places = _by_id(finishes)
    query, parameters = load("sql/postgres/finish_batch.sql"), finishes_parameters(ordered)
    answers = finishes_answers(ordered, _rows_of_all(connection, query, parameters, deadline))
    return _in_places(places, [*answers])


def one_row(
    connection: BoundedConnection,
    query: LiteralString,
    parameters: Mapping[str, object] | None,
    deadline: float,
) -> Row:
    """Return the row of a statement that has one. Raises StoreUnavailable."""
    with answered_by(connection, deadline):
        (row,) = connection.execute(query, parameters).fetchall()
    return row


def _rows_of_all(
    connection: BoundedConnection,
    query: LiteralString,
    parameters: Values,
    deadline: float,
) -> Sequence[Row]:
    try:
        return rows_of(result_of(connection, query, arrays_written(parameters), deadline))
    except (psycopg.Error, StoreUnavailable) as error:
        if is_of_an_entry(error):
            raise Alone from error
        raise


def _by_id(asked: Sequence[AskedT]) -> tuple[list[AskedT], list[int]]:
    """Return what was asked sorted by id, so that two batches wait for each other in one
    direction only, and the place that each of them had."""
    places = sorted(range(len(asked)), key=lambda place: asked[place].id)
    return [asked[place] for place in places], places


def _in_places(places: Sequence[int], answers: Sequence[AnswerT]) -> list[AnswerT]:
    ordered = dict(zip(places, answers, strict=True))
    return [ordered[place] for place in range(len(places))]
