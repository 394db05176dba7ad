"""The paths that are measured, what each is to reach, and who takes part. No process is started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from benchmarks.load_plan import Expected, KeyKind

Contender: TypeAlias = Literal["bare", "floor", "ours"]
Receipts: TypeAlias = Literal["postgres", "sqlite"]
Lock: TypeAlias = Literal["redis", "local"]
Load: TypeAlias = Literal["first", "replay", "in-flight", "keyless"]
Kind: TypeAlias = Literal["asgi", "wsgi", "client"]

FLOOR_GOAL: Final = 0.8
"""Of the floor's throughput: a fifth is what all the checks of a first request may cost. What is
answered without the application has none: there the checks are most of the work, and the goal is
what the application would have taken."""

JUDGED_AT: Final = 64
"""Connections at which a goal is judged, or the most that were measured. With one connection a
request waits for each round trip, which no code can make shorter."""

MARK: Final = "idempotent-replayed: true"
FIRST: Final = Expected(201, absent="replayed: true")
REPLAYED: Final = Expected(201, present=MARK)
IN_FLIGHT: Final = Expected(409, present="application/problem+json")


@dataclass(frozen=True, slots=True)
class Scenario:
    """One row of the table.

    Attributes:
        name: as the command line calls it.
        says: what it is, for people.
        load: what the load generator sends.
        goal: ours to bare at JUDGED_AT connections, throughput; None if only the floor counts.
            For a client: the time of a call to that of a bare one, at most.
        floor_goal: ours to the floor, or None if that is only told.
        has_floor: whether the floor takes part.
    """

    name: str
    says: str
    load: Load
    goal: float | None
    floor_goal: float | None = None
    has_floor: bool = False
    kind: Kind = "asgi"
    receipts: Receipts = "postgres"
    lock: Lock = "redis"
    atomic: bool = False

    @property
    def contenders(self) -> tuple[Contender, ...]:
        """Who takes part, bare first."""
        return ("bare", "floor", "ours") if self.has_floor else ("bare", "ours")

    @property
    def keys(self) -> KeyKind:
        """Where its keys come from."""
        match self.load:
            case "first":
                return "fresh"
            case "keyless":
                return "none"
            case "replay" | "in-flight":
                return "pool"

    def concurrency(self, asked: Sequence[int]) -> Sequence[int]:
        """Return at which numbers of connections it is measured: a client is one caller."""
        return [1] if self.kind == "client" else asked

    def short_of_goal(self, ratio: float | None) -> float:
        """Return by how much of the goal it is missed: 0.25 for three quarters of a throughput."""
        if self.goal is None or ratio is None:
            return 0.0
        if self.kind == "client":
            return max(0.0, ratio / self.goal - 1)
        return max(0.0, 1 - ratio / self.goal)

    def expected(self, contender: Contender) -> Expected:
        """Return what every answer has to be."""
        if contender == "bare":
            return FIRST
        return {"replay": REPLAYED, "in-flight": IN_FLIGHT}.get(self.load, FIRST)


SCENARIOS: Final = (
    Scenario("first", "first request, Postgres + Redis", "first", 0.40, FLOOR_GOAL,
         has_floor=True),
    Scenario("atomic", "first request, atomic, one row", "first", None, FLOOR_GOAL,
         has_floor=True, atomic=True),
    Scenario("replay-redis", "replay from Redis", "replay", 0.85, has_floor=True),
    Scenario("replay-postgres", "replay from Postgres, local lock", "replay", 0.50,
         has_floor=True, lock="local"),
    Scenario("in-flight", "duplicate in flight, 409", "in-flight", 0.85, has_floor=True),
    Scenario("keyless", "no key, through the middleware", "keyless", 0.97),
    Scenario("sqlite", "first request, SQLite + local lock", "first", 0.30, receipts="sqlite",
         lock="local"),
    Scenario("wsgi-first", "WSGI (Django), first request", "first", 0.55, kind="wsgi"),
    Scenario("wsgi-replay", "WSGI (Django), replay", "replay", 0.80, kind="wsgi"),
    Scenario("client-memory", "client, journal in memory", "first", 1.15, kind="client"),
    Scenario("client-sqlite", "client, journal in SQLite", "first", 2.0, kind="client",
             receipts="sqlite"),
)  # fmt: skip

NAMES: Final = tuple(one.name for one in SCENARIOS)


def named(names: list[str]) -> list[Scenario]:
    """Return the paths of these names, in the order of the table. Raises KeyError."""
    if unknown := set(names) - set(NAMES):
        raise KeyError(", ".join(sorted(unknown)))
    return [one for one in SCENARIOS if one.name in names]
