"""A journal in Postgres made ready for the contract: its clock shows the moments of the effects."""

from __future__ import annotations

import threading

import psycopg

from replayfloor.client.journal import PostgresJournal
from replayfloor.client.journal.postgres_schema import create_schema
from replayfloor.core.journal import BeginOperation, Begun, JournalEntry, RenewLease, StartAttempt

SET_CLOCK = """
create table public.clock (ns bigint not null);
insert into public.clock values (0);
create or replace function replayfloor_client.clock_ns_v1() returns bigint
language sql volatile as 'select ns from public.clock';
"""


def prepare(url: str) -> None:
    """Make the schema, and let a table say what its clock shows."""
    create_schema(url)
    with psycopg.connect(url, autocommit=True) as database:
        database.execute(SET_CLOCK)


class JournalOnTestClock(PostgresJournal):
    """A journal whose database was prepared. Empty when it is made; `url` may be a pooler's."""

    def __init__(self, url: str, *, direct_url: str | None = None) -> None:
        super().__init__(url)
        self._admin = psycopg.connect(direct_url or url, autocommit=True)
        self._admin.execute("delete from replayfloor_client.operations")
        self._lock = threading.Lock()
        self._shown_ns = -1

    def begin(self, effect: BeginOperation) -> Begun:
        """Perform BeginOperation at the moment of its entry."""
        self._show(effect.entry.last_seen_at_ns)
        return super().begin(effect)

    def start_attempt(self, effect: StartAttempt) -> JournalEntry:
        """Perform StartAttempt at its moment."""
        self._show(effect.at_ns)
        return super().start_attempt(effect)

    def renew_lease(self, effect: RenewLease) -> JournalEntry:
        """Perform RenewLease at its moment."""
        self._show(effect.at_ns)
        return super().renew_lease(effect)

    def close(self) -> None:
        """Close the connections."""
        self._admin.close()
        super().close()

    def _show(self, at_ns: int) -> None:
        # Simultaneous calls of the contract have one moment in common.
        with self._lock:
            if at_ns != self._shown_ns and not self._admin.closed:
                self._admin.execute("update public.clock set ns = %s", (at_ns,))
                self._shown_ns = at_ns
