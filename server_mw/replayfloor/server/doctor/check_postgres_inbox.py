"""Whether events that were acknowledged first are applied. Pure."""

from __future__ import annotations

from typing import Final

from replayfloor.server.doctor.facts_postgres import InboxCounts
from replayfloor.server.doctor.findings import Finding, Level, ok, unseen
from replayfloor.server.doctor.limits import Limits
from replayfloor.server.doctor.unread import Read, Unread
from replayfloor.server.doctor.words import about

INBOX: Final = "postgres.inbox"

GRANT: Final = "grant this role select on replayfloor.inbox"

WHY_DEAD: Final = (
    "their senders were told that they were accepted, and nobody tries them again; a dead event "
    "also holds those of its subject, where these are applied in order"
)
WHY_OLD: Final = "its sender was told that it was accepted, and it was not applied since"


def check_inbox(counts: Read[InboxCounts], limits: Limits) -> Finding:
    """Return whether an event needs a person, or has been waiting for too long."""
    if isinstance(counts, Unread):
        return unseen(INBOX, counts.reason, GRANT)
    data: dict[str, float | None] = {
        "waiting": counts.waiting,
        "running": counts.running,
        "dead": counts.dead,
        "oldest_s": counts.oldest_s,
    }
    found = f"{counts.waiting} events wait, {counts.running} are in work, {counts.dead} are dead"
    if counts.oldest_s is not None:
        found += f"; the oldest has been there for {about(counts.oldest_s)}"
    if counts.dead:
        do = "replayfloor inbox list URL --dead; then inbox retry, or inbox drop"
        return Finding(INBOX, Level.WARNING, found, WHY_DEAD, do, data=data)
    if counts.oldest_s is not None and counts.oldest_s > limits.inbox_oldest_s:
        do = "replayfloor inbox list URL shows what fails; if nothing does, no worker is running"
        return Finding(INBOX, Level.WARNING, found, WHY_OLD, do, data=data)
    return ok(INBOX, found, **data)
