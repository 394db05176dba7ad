"""What was read of Postgres. Values only; what could not be read says why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from replayfloor.server.doctor.unread import Read, Unread
from replayfloor.server.stores.maintenance import Status
from replayfloor.server.stores.policies import NotedPolicy
from replayfloor.server.stores.postgres_schema import SchemaState
from replayfloor.server.stores.storage_measured import Measured


@dataclass(frozen=True, slots=True)
class Answering:
    """The server process that answers.

    Attributes:
        version: as 180006.
        pooled: something between us and it gives us a process that is not the one it said: a
            pooler such as PgBouncer.
        standby: it follows another server, and takes no writes.
        role, database: who we are there.
        sees_all: what other sessions do is shown to us.
    """

    version: int
    pooled: bool = False
    standby: bool = False
    role: str = ""
    database: str = ""
    sees_all: bool = True


@dataclass(frozen=True, slots=True)
class Clock:
    """By how much the database's clock is ahead of this host's, in seconds: between two bounds.

    They are as far apart as the round trip was long.
    """

    least_s: float
    most_s: float

    @property
    def off_s(self) -> float:
        """By how much they differ at least; 0 if that cannot be told from the round trip."""
        return max(self.least_s, -self.most_s, 0.0)

    @property
    def uncertain_s(self) -> float:
        """How far the bounds are apart."""
        return self.most_s - self.least_s


@dataclass(frozen=True, slots=True)
class Override:
    """A setting that is made for a role, or for every role in this database."""

    who: str
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Claims:
    """Keys in flight. `oldest_s`: since when the oldest lease has ended; less than 0: not yet."""

    count: int
    orphans: int
    oldest_s: float | None


@dataclass(frozen=True, slots=True)
class InboxCounts:
    """Acknowledged events that were not applied yet. `oldest_s`: of one that is not dead."""

    waiting: int
    running: int
    dead: int
    oldest_s: float | None


@dataclass(frozen=True, slots=True)
class ClaimsTable:
    """Their table, as the statistics have it; sizes in bytes, indexes included."""

    live: int
    dead: int
    size: int
    autovacuum: bool


@dataclass(frozen=True, slots=True)
class Indexes:
    """Whether claims have their table and its unique index, and which other tables have none."""

    table: bool
    claims_unique: bool
    without: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Holder:
    """Who keeps old row versions: for how long (seconds), or how many bytes of log."""

    kind: str
    name: str
    age_s: float | None
    kept_bytes: int | None
    state: str


@dataclass(frozen=True, slots=True)
class Replica:
    """Who receives what is written. None: this role may not see it."""

    name: str
    state: str | None
    sync: str | None


@dataclass(frozen=True, slots=True)
class Connections:
    """How many there are: in all, and of our workers. A limit is -1 for none."""

    used: int
    ours: int
    role_limit: int
    database_limit: int


NOT_ASKED = Unread("nothing was asked")


@dataclass(frozen=True, slots=True)
class PostgresFacts:
    """Everything that was read.

    `failed` says why nothing could be asked; `usable` is False if the URL is none. `hidden` counts
    sessions whose transactions this role may not see.
    """

    failed: str = ""
    usable: bool = True
    answering: Read[Answering] = NOT_ASKED
    settings: Read[Mapping[str, str]] = NOT_ASKED
    overrides: Read[tuple[Override, ...]] = NOT_ASKED
    clock: Read[Clock] = NOT_ASKED
    schema: Read[SchemaState] = NOT_ASKED
    indexes: Read[Indexes] = NOT_ASKED
    claims: Read[Claims] = NOT_ASKED
    claims_table: Read[ClaimsTable | None] = NOT_ASKED
    inbox: Read[InboxCounts] = NOT_ASKED
    holders: Read[tuple[Holder, ...]] = NOT_ASKED
    hidden: Read[int] = NOT_ASKED
    replicas: Read[tuple[Replica, ...]] = NOT_ASKED
    connections: Read[Connections] = NOT_ASKED
    status: Read[Status] = NOT_ASKED
    noted: Read[tuple[NotedPolicy, ...]] = NOT_ASKED
    measured: Read[tuple[Measured, ...]] = NOT_ASKED
