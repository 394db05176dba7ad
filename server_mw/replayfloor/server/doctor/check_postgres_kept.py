"""Whether receipts are kept for as long as they should be, and take what they should. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from replayfloor.retention.layout import LIVE_PARTITIONS_MAX, partition_width_s
from replayfloor.server.doctor.check_postgres_growth import check_growth
from replayfloor.server.doctor.facts_postgres import PostgresFacts
from replayfloor.server.doctor.findings import Finding, Level, ok, unseen
from replayfloor.server.doctor.limits import Limits
from replayfloor.server.doctor.unread import Unread
from replayfloor.server.doctor.wanted import Wanted
from replayfloor.server.doctor.words import about, length, some
from replayfloor.server.stores.maintenance import Keeping, Outcome, Part, Status, state_of, troubles

MAINTAIN: Final = "replayfloor partitions maintain URL"

RUN_IT: Final = (
    "let it run: Maintenance(...).start() in the workers, the command by a timer, or the schedule "
    "that `replayfloor partitions maintain --print-pg-cron` prints"
)


def check_kept(facts: PostgresFacts, wanted: Wanted, limits: Limits) -> Iterator[Finding]:
    """Yield what is to be said of partitions, their maintenance, retention and growth."""
    status = facts.status
    if isinstance(status, Unread):
        do = "grant this role: usage on schema replayfloor, select on all its tables"
        yield unseen("postgres.partitions", status.reason, do)
        return
    keeping = _keeping(status, wanted)
    yield _partitions(facts, status, keeping)
    yield _maintenance(status, keeping, limits)
    yield from _retention(facts, status, wanted)
    yield from _widths(status, keeping)
    yield from check_growth(facts, status, keeping, wanted, limits)


def _keeping(status: Status, wanted: Wanted) -> Keeping | None:
    """Return what the database is told, or else what the policy says."""
    if status.keeping is not None:
        return status.keeping
    return None if wanted.retention_s is None else Keeping(wanted.retention_s)


def _partitions(facts: PostgresFacts, status: Status, keeping: Keeping | None) -> Finding:
    name = "postgres.partitions"
    wrong = troubles(status, keeping)
    receipts = [part for part in status.parts if part.table == "receipts"]
    if status.layout == "plain":
        if wrong:
            why = "expired receipts take space, and nothing else; a sweep deletes them in batches"
            return Finding(name, Level.WARNING, some(wrong), why, MAINTAIN)
        return ok(name, "receipts are one table, without partitions", partitions=0)
    data = {"partitions": len(receipts)}
    if not any(_is_current(part, status) for part in receipts):
        why = (
            "a receipt of now has no place: what is executed cannot be recorded, and workers that "
            "start refuse to"
        )
        return Finding(name, Level.CRITICAL, some(wrong), why, _make(keeping), data=data)
    schema = facts.schema
    if not isinstance(schema, Unread) and schema.ends_soon:
        wrong = (*wrong, f"partitions end in {schema.days_left} days")
    if wrong:
        why = (
            "without the next partition no receipt can be recorded once its time comes; one that "
            "is overdue takes space, and each claim looks into it"
        )
        return Finding(name, Level.WARNING, some(wrong), why, _make(keeping), data=data)
    return ok(name, f"{len(receipts)} partitions, the next one is there", **data)


def _make(keeping: Keeping | None) -> str:
    if keeping is None:
        return "replayfloor migrate URL makes half a year of partitions"
    return f"{MAINTAIN}; then {RUN_IT}"


def _is_current(part: Part, status: Status) -> bool:
    bounded = part.starts_at is not None and part.ends_at is not None
    return bounded and state_of(part, status.present, None) == "current"


def _maintenance(status: Status, keeping: Keeping | None, limits: Limits) -> Finding:
    name, last = "postgres.maintenance", status.last
    if keeping is None and last is None:
        return Finding(
            name,
            Level.NOTE,
            "nobody has told the database for how long receipts are kept",
            "they are kept for good, and the table grows without end; a longer retention is never "
            "wrong otherwise",
            f"derive a retention (replayfloor policy explain), then {RUN_IT}",
        )
    why = (
        "partitions are not made ahead, and expired ones not dropped: some days later no receipt "
        "can be recorded, and until then the table grows"
    )
    if last is None or last.succeeded_at is None:
        failed = f": {last.detail}" if last is not None and last.detail else ""
        found = f"the maintenance has never come to its end{failed}"
        return Finding(name, Level.WARNING, found, why, RUN_IT)
    age_s = (status.present - last.succeeded_at).total_seconds()
    found = f"the last run that did all was {about(age_s)} ago, by {last.by or 'somebody'}"
    data = {"age_s": age_s, "outcome": last.outcome.value}
    if last.outcome is Outcome.FAILED:
        found += f"; the last one failed: {last.detail}"
        do = "look at what it says; the next run tries again"
        return Finding(name, Level.WARNING, found, why, do, data=data)
    if age_s > limits.maintenance_s:
        if last.outcome is Outcome.OVERDUE:
            found += f"; {last.detail}"
        return Finding(name, Level.WARNING, found, why, RUN_IT, data=data)
    return ok(name, found, **data)


def _retention(facts: PostgresFacts, status: Status, wanted: Wanted) -> Iterator[Finding]:
    """Yield how long receipts are kept, compared with the policy and what workers declared."""
    name, kept = "postgres.retention", status.keeping
    promised = [] if isinstance(facts.noted, Unread) else [each.retention_s for each in facts.noted]
    if wanted.retention_s is not None:
        promised.append(wanted.retention_s)
    if kept is None or not promised:
        return
    longest_s = max(promised)
    data = {"kept_s": kept.retention_s, "promised_s": longest_s}
    found = f"receipts are kept for {length(kept.retention_s)}"
    longest = length(longest_s)
    if kept.retention_s < longest_s:
        why = (
            "they are dropped before the longest promise ends, and a legitimate retry that comes "
            "in between is executed a second time"
        )
        do = f"{MAINTAIN} --retention '{longest}', and the same wherever it runs"
        found += f", and {longest} are promised, by --policy or by what workers have declared"
        yield Finding(name, Level.CRITICAL, found, why, do, data=data)
    elif kept.retention_s > longest_s:
        found += f", and no more than {longest} are promised"
        why = "safe, and takes more space than it has to"
        yield Finding(name, Level.NOTE, found, why, data=data)
    else:
        yield ok(name, f"{found}, as is promised", **data)


def _widths(status: Status, keeping: Keeping | None) -> Iterator[Finding]:
    """Yield whether partitions are as wide as the retention wants them."""
    if status.layout != "partitioned" or keeping is None:
        return
    name = "postgres.partition_width"
    right = timedelta(seconds=partition_width_s(keeping.retention_s))
    mine = [part for part in status.parts if part.table == "receipts"]
    current = next((part for part in mine if _is_current(part, status)), None)
    live = [part for part in mine if _is_live(part, status, keeping)]
    if current is None or current.starts_at is None or current.ends_at is None:
        return
    width = current.ends_at - current.starts_at
    data = {"width_s": width.total_seconds(), "wanted_s": right.total_seconds(), "live": len(live)}
    found = (
        f"partitions are {length(width.total_seconds())} wide, {len(live)} of them can hold a "
        "receipt that is still needed"
    )
    if len(live) > LIVE_PARTITIONS_MAX:
        why = f"each claim looks into every one: more than {LIVE_PARTITIONS_MAX} make claims slow"
    elif width > 2 * right:
        why = (
            "a receipt stays until its whole partition is past the retention: the width is what is "
            "stored for nothing"
        )
    else:
        yield ok(name, found, **data)
        return
    do = (
        f"{MAINTAIN} makes the next ones {length(right.total_seconds())} wide; those that are "
        "there stay as they are until they are dropped"
    )
    yield Finding(name, Level.NOTE, found, why, do, data=data)


def _is_live(part: Part, status: Status, keeping: Keeping) -> bool:
    return state_of(part, status.present, keeping.retention_s) in ("current", "live")
