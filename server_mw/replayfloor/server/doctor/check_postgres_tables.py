"""What is to be said of our tables: schema, indexes, claims, and who holds up vacuum. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from replayfloor.retention import format_duration
from replayfloor.retention.storage import size_text
from replayfloor.server.doctor.facts_postgres import Holder, PostgresFacts
from replayfloor.server.doctor.findings import Finding, Level, ok, unseen
from replayfloor.server.doctor.limits import Limits
from replayfloor.server.doctor.unread import Unread
from replayfloor.server.doctor.words import about, some
from replayfloor.server.stores.postgres_schema import UNIQUE_INDEX_GONE, never_migrated

REFUSED: Final = "workers refuse to work with it: every request is answered 503"

MIGRATE: Final = "replayfloor migrate URL, as a role that may create tables"

GRANT: Final = (
    "grant this role: usage on schema replayfloor, select on all its tables, pg_read_all_stats"
)


def check_tables(facts: PostgresFacts, limits: Limits) -> Iterator[Finding]:
    """Yield what is to be said of our tables."""
    yield _migrations(facts)
    if facts.schema != never_migrated():
        yield from _indexes(facts)
        yield _orphans(facts, limits)
        yield from _claims_table(facts, limits)
    yield from _holders(facts, limits)


def _migrations(facts: PostgresFacts) -> Finding:
    name, state = "postgres.migrations", facts.schema
    if isinstance(state, Unread):
        return unseen(name, state.reason, GRANT)
    if state == never_migrated():
        return Finding(
            name, Level.CRITICAL, "the database has no replayfloor schema", REFUSED, MIGRATE
        )
    if state.missing:
        found = f"not applied yet: {', '.join(state.missing)}"
        data = {"missing": len(state.missing)}
        return Finding(name, Level.CRITICAL, found, REFUSED, MIGRATE, data=data)
    return ok(name, "every migration of this release is applied", missing=0)


def _indexes(facts: PostgresFacts) -> Iterator[Finding]:
    state = facts.indexes
    if isinstance(state, Unread):
        yield unseen("postgres.claims_index", state.reason)
        return
    if not state.table:
        return  # said above
    if state.claims_unique:
        yield ok("postgres.claims_index", "a unique index refuses the second claim of a key")
    else:
        why = f"two requests with one key could both be executed, were it not that {REFUSED}"
        do = (
            "create unique index claims_id on replayfloor.claims (id); if one is there and "
            "invalid, drop it first; if ids are there twice, both may have been executed"
        )
        yield Finding("postgres.claims_index", Level.CRITICAL, UNIQUE_INDEX_GONE, why, do)
    if not state.without:
        yield ok("postgres.receipts_index", "each table of receipts has its unique index")
        return
    found = f"no valid unique index on the id: {some(state.without)}"
    why = (
        "each claim reads the whole of such a table, and a key could get a second receipt, by "
        "hand or by a defect"
    )
    do = "create unique index on replayfloor.... (id), for each; it stops writes to it meanwhile"
    data = {"tables": len(state.without)}
    yield Finding("postgres.receipts_index", Level.WARNING, found, why, do, data=data)


def _orphans(facts: PostgresFacts, limits: Limits) -> Finding:
    name, claims = "postgres.orphans", facts.claims
    if isinstance(claims, Unread):
        return unseen(name, claims.reason, GRANT)
    data = {"claims": claims.count, "orphans": claims.orphans, "oldest_s": claims.oldest_s}
    if not claims.orphans:
        return ok(name, f"{claims.count} keys are in flight, none is orphaned", **data)
    oldest_s = max(0.0, claims.oldest_s or 0.0)
    found = (
        f"{claims.orphans} of {claims.count} claims are orphaned, the oldest for {about(oldest_s)}"
    )
    why = (
        "it was begun, and nobody knows how it ended: retries are answered 409 outcome-unknown "
        "until it is settled (those of atomic and repeatable routes are executed)"
    )
    do = (
        "replayfloor receipts list URL --orphans, then settle them, by hand or with replayfloor "
        "reconcile; docs/operating.md says how"
    )
    level = Level.WARNING if oldest_s >= limits.orphan_s else Level.NOTE
    return Finding(name, level, found, why, do, data=data)


def _claims_table(facts: PostgresFacts, limits: Limits) -> Iterator[Finding]:
    name, table = "postgres.claims_table", facts.claims_table
    if isinstance(table, Unread):
        yield unseen(name, table.reason)
        return
    if table is None:
        return  # said above
    data = {"live_rows": table.live, "dead_rows": table.dead, "bytes": table.size}
    found = (
        f"claims take {size_text(table.size)} with {table.dead:,} dead rows beside {table.live:,} "
        "live ones"
    )
    if not table.autovacuum:
        yield Finding(
            "postgres.claims_autovacuum",
            Level.WARNING,
            "autovacuum is off for the table of claims",
            "each key leaves a dead row there, and claims get slower without end",
            "alter table replayfloor.claims reset (autovacuum_enabled)",
        )
    if table.dead > limits.claims_dead_rows:
        why = "each claim steps over dead rows of its place in the index, and gets slower"
        do = (
            "find out what holds vacuum up (postgres.transactions), then: vacuum replayfloor.claims"
        )
        yield Finding(name, Level.WARNING, found, why, do, data=data)
    elif table.size > limits.claims_bytes:
        why = (
            "rows live for milliseconds there, so it should be small; space that is free inside is "
            "used again, but never given back"
        )
        do = "at a quiet hour: vacuum full replayfloor.claims, which stops all claims meanwhile"
        yield Finding(name, Level.NOTE, found, why, do, data=data)
    else:
        yield ok(name, found, **data)


def _holders(facts: PostgresFacts, limits: Limits) -> Iterator[Finding]:
    name, holders = "postgres.transactions", facts.holders
    if isinstance(holders, Unread):
        yield unseen(name, holders.reason)
        return
    long = [
        each
        for each in holders
        if each.age_s is not None and each.age_s >= limits.long_transaction_s
    ]
    if long:
        oldest_s = max(each.age_s or 0.0 for each in long)
        yield Finding(
            name,
            Level.WARNING,
            f"open for long: {some([_told(each) for each in long])}",
            "dead rows of claims stay until it ends, and claims get slower; a partition that it "
            "has looked into cannot be dropped",
            "end it (select pg_terminate_backend(pid), rollback prepared '...'), and limit such: "
            "idle_in_transaction_session_timeout, transaction_timeout",
            data={"transactions": len(long), "oldest_s": oldest_s},
        )
    else:
        limit = format_duration(limits.long_transaction_s)
        yield ok(name, f"no transaction is open for more than {limit}", transactions=0)
    if not isinstance(facts.hidden, Unread) and facts.hidden:
        reason = f"{facts.hidden} sessions of other roles do not show since when they are at it"
        yield unseen("postgres.sessions", reason, "GRANT pg_read_all_stats to this role")
    yield from _slots([each for each in holders if each.kind == "slot"], limits)


def _slots(slots: list[Holder], limits: Limits) -> Iterator[Finding]:
    kept = [each for each in slots if (each.kept_bytes or 0) >= limits.slot_bytes]
    if not kept:
        return
    names = [f"{each.name} keeps {size_text(each.kept_bytes or 0)}" for each in kept]
    yield Finding(
        "postgres.slots",
        Level.WARNING,
        f"replication slots that nobody reads: {some(names)} of log",
        "the log grows until the disk is full, and then every request is answered 503; until then "
        "vacuum may be held up too",
        "select pg_drop_replication_slot('...'), if its replica does not come back",
        data={"bytes": max(each.kept_bytes or 0 for each in kept)},
    )


def _told(holder: Holder) -> str:
    state = f", {holder.state}" if holder.state else ""
    return f"{holder.kind} {holder.name} for {about(holder.age_s or 0.0)}{state}"
