"""Whether receipts take what they are estimated to take, and which factor is to blame. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from replayfloor.retention.storage import BYTES_PER_KEY, DAY_S, Estimate, size_text
from replayfloor.server.doctor.facts_postgres import PostgresFacts
from replayfloor.server.doctor.findings import Finding, Level, ok, unseen
from replayfloor.server.doctor.limits import Limits
from replayfloor.server.doctor.unread import Unread
from replayfloor.server.doctor.wanted import Wanted
from replayfloor.server.stores.maintenance import Keeping, Status
from replayfloor.server.stores.storage_measured import Measured


def check_growth(
    facts: PostgresFacts,
    status: Status,
    keeping: Keeping | None,
    wanted: Wanted,
    limits: Limits,
) -> Iterator[Finding]:
    """Yield how what receipts take compares with the estimate."""
    name, measured = "postgres.growth", facts.measured
    if isinstance(measured, Unread):
        yield unseen(name, measured.reason)
        return
    receipts = next((each for each in measured if each.table == "receipts"), None)
    if receipts is None:
        return
    filled = receipts.total - receipts.empty
    data: dict[str, float | None] = {
        "rows": receipts.rows,
        "bytes": filled,
        "bytes_per_key": receipts.bytes_per_key,
        "estimate_bytes": None,
    }
    found = f"receipts take {size_text(filled)}, about {receipts.rows:,} rows"
    if wanted.rate_per_s is None or keeping is None:
        lacks = "--rate" if wanted.rate_per_s is None else "--policy, for the retention"
        yield ok(name, f"{found}; say {lacks}, to compare with an estimate", **data)
        return
    expected = Estimate(wanted.rate_per_s, keeping.retention_s / DAY_S, wanted.bytes_per_key)
    width_s = keeping.width_s if status.layout == "partitioned" else 0.0
    most = expected.receipt_bytes + (expected.bytes_until_dropped(width_s) if width_s else 0)
    data["estimate_bytes"] = most
    found += f"; {size_text(most)} are expected at {wanted.rate_per_s:g} keys a second"
    if filled <= max(limits.growth * most, limits.growth_bytes):
        yield ok(name, found, **data)
        return
    why, do = _growth_why(receipts, expected, width_s, limits)
    yield Finding(name, Level.WARNING, found, why, do, data=data)


def _growth_why(
    receipts: Measured, expected: Estimate, width_s: float, limits: Limits
) -> tuple[str, str]:
    """Return which of the factors is larger than expected, and what to do about it."""
    why: list[str] = []
    do: list[str] = []
    rows = expected.keys_per_day * (expected.days + width_s / DAY_S)
    if receipts.rows > limits.growth * rows:
        why.append(
            f"there are {receipts.rows / rows:.1f} times as many rows as expected: the rate is "
            "higher, or expired ones are not dropped"
        )
        do.append("look at postgres.maintenance; else estimate anew with the real --rate")
    each = receipts.bytes_per_key or 0.0
    if each > limits.growth * expected.bytes_per_key:
        why.append(
            f"a key takes {each:,.0f} B instead of {expected.bytes_per_key:g}: "
            + (
                "answers are stored with it, and the estimate is one without"
                if expected.bytes_per_key == BYTES_PER_KEY
                else "answers are larger than expected"
            )
        )
        do.append(f"say --bytes-per-key {each:.0f} if that is right, or keep smaller answers")
    if not why:
        why.append("rows and bytes a key are both somewhat more than expected")
        do.append("estimate anew: replayfloor storage estimate")
    return "; ".join(why), "; ".join(do)
