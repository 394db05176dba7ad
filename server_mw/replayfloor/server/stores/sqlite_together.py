"""Operations of one SQLite transaction, put together by their kind; it blocks.

Between two statements the interpreter lets other threads run, and to go on has to wait for them. So
first requests take few statements: one for a claim, and two for a finish. What is not a
first request is asked once more, by itself, as in sqlite_work.py.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Final

from replayfloor.core.claims import Claim, ClaimAnswer, Claimed, Finish, Reuse
from replayfloor.core.receipt import encode_receipt
from replayfloor.server.resources import load
from replayfloor.server.stores.sqlite_sweep import sweep_for
from replayfloor.server.stores.sqlite_work import Work, take_claim

_CLAIMED: Final = Claimed()

_blob: Final = bytearray
"""For bytes, sqlite3 looks for an adapter first, which takes longer than the statement does."""


class Claiming:
    """The work of one claim."""

    __slots__ = ("claim", "now_ms")

    def __init__(self, claim: Claim, now_ms: Callable[[], int]) -> None:
        """Do nothing yet."""
        self.claim, self.now_ms = claim, now_ms

    def __call__(self, database: sqlite3.Connection) -> ClaimAnswer:
        """Claim, inside whatever transaction is open."""
        (answer,) = _claim_all(database, [self])
        if isinstance(answer, Exception):
            raise answer
        return answer


class Finishing:
    """The work of one finish."""

    __slots__ = ("finish", "now_ms")

    def __init__(self, finish: Finish, now_ms: Callable[[], int]) -> None:
        """Do nothing yet."""
        self.finish, self.now_ms = finish, now_ms

    def __call__(self, database: sqlite3.Connection) -> bool:
        """Finish, inside whatever transaction is open."""
        (answer,) = _finish_all(database, [self])
        return answer


def each_of(works: Sequence[Work[object]]) -> Work[list[object]]:
    """Return what runs each of several operations; a failure that wrote nothing is its own answer.

    What fails after a write, or ends the transaction, is raised: there is no way to keep what the
    others did without it. They all wait, so any order of them is right; finishes come first, and
    a claim of the same key then finds the receipt.
    """

    def all_of_them(database: sqlite3.Connection) -> list[object]:
        finishes = {at: work for at, work in enumerate(works) if isinstance(work, Finishing)}
        claims = {at: work for at, work in enumerate(works) if isinstance(work, Claiming)}
        answers: dict[int, object] = {}
        finished = _finish_all(database, list(finishes.values()))
        answers.update(zip(finishes, finished, strict=True))
        for at, work in enumerate(works):
            if at not in finishes and at not in claims:
                answers[at] = _one(database, work)
        claimed = _claim_all(database, list(claims.values()))
        answers.update(zip(claims, claimed, strict=True))
        return [answers[at] for at in range(len(works))]

    return all_of_them


def _one(database: sqlite3.Connection, work: Work[object]) -> object:
    changes = database.total_changes
    try:
        return work(database)
    except sqlite3.OperationalError:
        raise
    except Exception as error:
        if database.total_changes != changes or not database.in_transaction:
            raise
        return error


def _claim_all(
    database: sqlite3.Connection, works: Sequence[Claiming]
) -> Sequence[ClaimAnswer | Exception]:
    if not works:
        return []
    now = works[0].now_ms()
    claims = [work.claim for work in works if work.claim.reuse is not Reuse.NEVER]
    new = database.executemany(
        load("sql/sqlite/claim_new.sql"),
        [
            (
                _blob(claim.id),
                _blob(claim.fingerprint),
                _blob(claim.fence),
                now,
                now + claim.lease_ms,
                claim.retention_ms,
                int(claim.proofs),
            )
            for claim in claims
        ],
    ).rowcount
    if new == len(works):
        sweep_for(database, claims, now)
        return [_CLAIMED] * new
    # One of them is no first request. Those that are now know themselves by their fence.
    return [_claim_one(database, work) for work in works]


def _claim_one(database: sqlite3.Connection, work: Claiming) -> ClaimAnswer | Exception:
    def take(database: sqlite3.Connection) -> ClaimAnswer:
        return take_claim(database, claim=work.claim, now_ms=work.now_ms)

    answer = _one(database, take)
    assert isinstance(answer, ClaimAnswer | Exception)
    return answer


def _finish_all(database: sqlite3.Connection, works: Sequence[Finishing]) -> Sequence[bool]:
    if not works:
        return []
    now = works[0].now_ms()
    finishes = [work.finish for work in works]
    pairs = [(_blob(finish.id), _blob(finish.fence)) for finish in finishes]
    kept = database.executemany(
        load("sql/sqlite/receipt_of_claim.sql"),
        [
            (
                *pair,
                _blob(finish.receipt.fingerprint),
                now,
                finish.receipt.response.status,
                _blob(encode_receipt(finish.receipt)),
            )
            for pair, finish in zip(pairs, finishes, strict=True)
        ],
    ).rowcount
    answers = [True] * kept
    if kept != len(works):
        claim_is = load("sql/sqlite/claim_is.sql")
        answers = [database.execute(claim_is, pair).fetchone() is not None for pair in pairs]
    database.executemany(load("sql/sqlite/claim_gone.sql"), pairs)
    return answers
