"""Parameters and rows of the statements that do several claims or finishes at once. Plain values.

Arrays are given as the text that Postgres reads them from. Every value but the response is a
number or 16 bytes, so there is nothing to escape, and a driver that builds arrays from lists of
objects takes several times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final, Literal, TypeAlias, cast

from replayfloor.core.claims import Claim, ClaimAnswer, Claimed, Finish, Finished, InFlight, Reuse
from replayfloor.core.errors import SchemaMissing
from replayfloor.core.fingerprint import Fingerprint
from replayfloor.core.receipt import decode_receipt, encode_receipt
from replayfloor.server.stores.postgres_values import Values
from replayfloor.server.stores.protocols import Row

ENTRIES_MAX: Final = 128
"""Entries of one statement. Beyond some dozens nothing is won any more, and the last of a long
batch would wait for all before it."""

RESPONSE_BYTES_MAX: Final = 64 * 1024
"""A larger response is stored by a statement of its own: hexadecimal doubles it, and its neighbours
would wait while it is sent."""


class Alone(Enum):
    """Says of an entry that it has to be asked by itself."""

    ALONE = auto()


ALONE: Final = Alone.ALONE

_NEVER: Final = Reuse.NEVER  # looked up once: every request's claim is compared with it

AloneType: TypeAlias = Literal[Alone.ALONE]


def joins_claims(claim: Claim) -> bool:
    """Say whether a claim may be one of several: all that only need an insert and a look."""
    return claim.reuse is not _NEVER


def joins_finishes(finish: Finish) -> bool:
    """Say whether a finish may be one of several."""
    return len(finish.receipt.response.body) <= RESPONSE_BYTES_MAX


def claims_parameters(claims: Sequence[Claim]) -> Values:
    """Return the parameters of claim_batch.sql for claims of distinct ids, sorted by id."""
    return {
        "ids": _array([claim.id.hex() for claim in claims]),
        "fingerprints": _array([claim.fingerprint.hex() for claim in claims]),
        "fences": _array([claim.fence.hex() for claim in claims]),
        "leases_ms": _array([str(claim.lease_ms) for claim in claims]),
        "retentions_ms": _array([_number(claim.retention_ms) for claim in claims]),
        "proofs": any(claim.proofs for claim in claims),
    }


def claims_answers(
    claims: Sequence[Claim], rows: Sequence[Row]
) -> list[ClaimAnswer | AloneType | Exception]:
    """Return what the rows of claim_batch.sql say of each claim.

    A receipt that cannot be decoded is the failure of its own claim.
    """
    answers: list[ClaimAnswer | AloneType | Exception] = [_TAKEN] * len(claims)
    for row in rows:
        place, state, fingerprint, age_ms, response = cast(
            "tuple[int, str, bytes | None, int | None, bytes | None]", row
        )
        try:
            answers[place - 1] = _answer(state, fingerprint, age_ms, response)
        except Exception as error:  # noqa: BLE001 - raised where its claim is waited for
            answers[place - 1] = error
    return answers


def finishes_parameters(finishes: Sequence[Finish]) -> Values:
    """Return the parameters of finish_batch.sql for finishes of distinct ids, sorted by id."""
    receipts = [finish.receipt for finish in finishes]
    return {
        "ids": _array([finish.id.hex() for finish in finishes]),
        "fences": _array([finish.fence.hex() for finish in finishes]),
        "fingerprints": _array([receipt.fingerprint.hex() for receipt in receipts]),
        "statuses": _array([str(receipt.response.status) for receipt in receipts]),
        "responses": _array([f'"\\\\x{encode_receipt(receipt).hex()}"' for receipt in receipts]),
    }


def finishes_answers(finishes: Sequence[Finish], rows: Sequence[Row]) -> list[bool]:
    """Return of each finish whether its fence is among those of finish_batch.sql."""
    obeyed = cast("str | None", rows[0][0])
    if obeyed is None:
        return [False] * len(finishes)
    texts = obeyed.strip("{}").split(",")
    if len(texts) == len(finishes):
        return [True] * len(finishes)  # each fence comes back once at most, and no other does
    fences = {bytes.fromhex(text.replace("-", "")) for text in texts}
    return [finish.fence in fences for finish in finishes]


_TAKEN: Final = Claimed(taken_over=False)


def _answer(
    state: str, fingerprint: bytes | None, age_ms: int | None, response: bytes | None
) -> ClaimAnswer | AloneType:
    if state == "alone":
        return ALONE
    if state == "finished" and fingerprint is not None:
        return Finished(decode_receipt(fingerprint, bytes(response or b"")), age_ms)
    if state == "in_flight" and fingerprint is not None and age_ms is not None:
        return InFlight(Fingerprint(fingerprint), age_ms)
    raise SchemaMissing(f"a claim was answered {state!r}, which this release does not know")


def _number(value: int | None) -> str:
    return "null" if value is None else str(value)


def _array(elements: list[str]) -> str:
    return "{" + ",".join(elements) + "}"
