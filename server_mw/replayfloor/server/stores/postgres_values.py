"""Parameters and rows of the Postgres statements as plain values: no connection, and no driver.

So every driver can be given them: the names are those in sql/postgres/*.sql, the values are
`uuid.UUID`, `int`, `bool` and `bytes`.
"""

from __future__ import annotations

from typing import TypeAlias, cast
from uuid import UUID

from replayfloor.core.claims import (
    Abandon,
    Claim,
    ClaimAnswer,
    Claimed,
    Expired,
    Finish,
    Finished,
    InFlight,
    Orphaned,
    Renew,
)
from replayfloor.core.errors import SchemaMissing
from replayfloor.core.fingerprint import Fingerprint
from replayfloor.core.receipt import decode_receipt, encode_receipt
from replayfloor.server.stores.protocols import Row

Values: TypeAlias = dict[str, object]


def claim_parameters(claim: Claim) -> Values:
    """Return the parameters of claim.sql."""
    return {
        "id": UUID(bytes=claim.id),
        "fingerprint": UUID(bytes=claim.fingerprint),
        "fence": UUID(bytes=claim.fence),
        "lease_ms": claim.lease_ms,
        "takeover": claim.takeover,
        "retention_ms": claim.retention_ms,
        "reuse": claim.reuse.value,
        "proofs": claim.proofs,
    }


def finish_parameters(finish: Finish) -> Values:
    """Return the parameters of finish.sql."""
    return {
        "id": UUID(bytes=finish.id),
        "fence": UUID(bytes=finish.fence),
        "fingerprint": UUID(bytes=finish.receipt.fingerprint),
        "status": finish.receipt.response.status,
        "response": encode_receipt(finish.receipt),
    }


def abandon_parameters(abandon: Abandon) -> Values:
    """Return the parameters of abandon.sql."""
    return {"id": UUID(bytes=abandon.id), "fence": UUID(bytes=abandon.fence)}


def renew_parameters(renew: Renew) -> Values:
    """Return the parameters of renew.sql."""
    return {
        "id": UUID(bytes=renew.id),
        "fence": UUID(bytes=renew.fence),
        "lease_ms": renew.lease_ms,
    }


def claim_answer(row: Row) -> ClaimAnswer:
    """Return what the row of claim.sql says.

    Raises SchemaMissing for a state that this release does not know, ReceiptCorrupt for a receipt
    that cannot be decoded.
    """
    state, fingerprint, age_ms, response, reused = cast(
        "tuple[str, UUID | None, int | None, bytes | None, bool]", row
    )
    if state in ("claimed", "taken_over"):
        return Claimed(taken_over=state == "taken_over", reused=reused)
    if state == "expired":
        return Expired()
    if fingerprint is None:
        raise SchemaMissing(f"the claim was answered {state!r} without a fingerprint")
    if state == "finished":
        return Finished(decode_receipt(fingerprint.bytes, bytes(response or b"")), age_ms)
    if age_ms is None or state not in ("in_flight", "orphaned"):
        raise SchemaMissing(f"the claim was answered {state!r}, which this release does not know")
    if state == "in_flight":
        return InFlight(Fingerprint(fingerprint.bytes), age_ms)
    return Orphaned(Fingerprint(fingerprint.bytes), -age_ms)
