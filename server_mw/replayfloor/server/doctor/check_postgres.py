"""Everything that is to be said of the database of the receipts. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from replayfloor.server.doctor.check_noted import check_noted
from replayfloor.server.doctor.check_postgres_inbox import check_inbox
from replayfloor.server.doctor.check_postgres_kept import check_kept
from replayfloor.server.doctor.check_postgres_server import (
    check_answering,
    check_clock,
    check_connections,
    check_replicas,
)
from replayfloor.server.doctor.check_postgres_settings import check_settings
from replayfloor.server.doctor.check_postgres_tables import check_tables
from replayfloor.server.doctor.facts_postgres import PostgresFacts
from replayfloor.server.doctor.findings import Finding, Level, ok
from replayfloor.server.doctor.limits import Limits
from replayfloor.server.doctor.unread import Unread
from replayfloor.server.doctor.wanted import Wanted
from replayfloor.server.stores.postgres_schema import never_migrated

REACHABLE = "postgres.reachable"


def check_postgres(
    facts: PostgresFacts, limits: Limits | None = None, wanted: Wanted | None = None
) -> list[Finding]:
    """Return everything that is to be said of the receipts' database."""
    return list(_all(facts, limits or Limits(), wanted or Wanted()))


def _all(facts: PostgresFacts, limits: Limits, wanted: Wanted) -> Iterator[Finding]:
    if not facts.usable:
        why = "a middleware with this receipts= raises when it is made: no worker starts"
        yield Finding(REACHABLE, Level.CRITICAL, facts.failed, why, "correct the URL")
        return
    if facts.failed:
        yield Finding(
            REACHABLE,
            Level.CRITICAL,
            f"no answer: {facts.failed}",
            "seen from this host, no key can be claimed: workers answer 503, and execute nothing",
            "start it, or look at the address, the password, its connection limit and the network",
        )
        return
    yield ok(REACHABLE, "it answers")
    yield from check_answering(facts.answering)
    yield from check_settings(facts)
    yield check_clock(facts.clock, limits, _retention_s(facts, wanted))
    yield check_replicas(facts)
    yield check_connections(facts, wanted, limits)
    yield from check_tables(facts, limits)
    if facts.schema != never_migrated():
        yield from check_kept(facts, wanted, limits)
        yield check_inbox(facts.inbox, limits)
        yield check_noted("postgres.policy", facts.noted, wanted)


def _retention_s(facts: PostgresFacts, wanted: Wanted) -> float | None:
    told = None if isinstance(facts.status, Unread) else facts.status.keeping
    return wanted.retention_s if told is None else told.retention_s
