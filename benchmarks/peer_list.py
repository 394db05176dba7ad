"""The peers that have a durable store: what is installed, which app, and how its answers look."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Final, Literal, TypeAlias

from benchmarks.load_plan import Expected
from benchmarks.scenarios import FIRST, IN_FLIGHT, REPLAYED, Load

Framework: TypeAlias = Literal["starlette", "flask", "django"]

SERVERS: Final[dict[Framework, tuple[str, ...]]] = {
    "starlette": ("uvicorn", "uvloop", "httptools", "starlette"),
    "flask": ("gunicorn", "flask"),
    "django": ("gunicorn", "django", "djangorestframework"),
}
"""Installed beside a peer, in the versions that serve ours."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One contender of the comparison.

    Attributes:
        name: package and version; or ours, or bare.
        framework: what it is mounted on. It is compared within its framework.
        app: module and attribute.
        requirements: what pip installs into its environment; empty for our own environment.
        replayed, in_flight: what its answers to a repeated key are.
        environment: for its worker, beside PEER_POSTGRES and PEER_REDIS.
    """

    name: str
    framework: Framework
    app: str
    requirements: tuple[str, ...] = ()
    replayed: Expected = REPLAYED
    in_flight: Expected = IN_FLIGHT
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def is_bare(self) -> bool:
        """Whether it protects nothing."""
        return self.name == "bare"

    @property
    def is_ours(self) -> bool:
        """Whether it is this project's."""
        return self.name == "ours"

    def expected(self, load: Load) -> Expected:
        """Return what every answer has to be."""
        if self.is_bare:
            return FIRST
        return {"replay": self.replayed, "in-flight": self.in_flight}.get(load, FIRST)

    def pinned(self) -> list[str]:
        """Return what its environment is made of."""
        beside = (f"{name}=={version(name)}" for name in SERVERS[self.framework])
        return [*self.requirements, *beside]


APPS: Final = "benchmarks.peer_apps"
REFUSED: Final = Expected(409)

PEERS: Final = (
    Peer("bare", "starlette", ""),
    Peer("ours", "starlette", ""),
    Peer(
        "idemkit 1.0.2", "starlette", f"{APPS}.idemkit_postgres:app",
        ("idemkit[postgres,asgi]==1.0.2",),
        Expected(201, present="idempotency-replayed: true"), Expected(423),
    ),
    Peer(
        "fastapi-idempotency 0.1.1", "starlette", f"{APPS}.fastapi_idempotency_postgres:app",
        ("fastapi-idempotency[tortoise]==0.1.1", "asyncpg"), in_flight=REFUSED,
    ),
    Peer(
        "exactly-once 0.2.1", "starlette", f"{APPS}.exactly_once_postgres:app",
        ("exactly-once[postgres]==0.2.1",), in_flight=REFUSED,
    ),
    Peer(
        "fastidempotent 0.1.0", "starlette", f"{APPS}.fastidempotent_postgres:app",
        ("fastidempotent[postgres]==0.1.0", "greenlet"),
        Expected(201, present="x-idempotent-replayed: true"), REFUSED,
    ),
    Peer(
        "justonce 0.2.0", "starlette", f"{APPS}.justonce_postgres:app",
        ("justonce[postgres]==0.2.0",), in_flight=REFUSED,
    ),
    Peer("bare", "flask", f"{APPS}.flask_bare:app"),
    Peer("ours", "flask", f"{APPS}.flask_ours:app"),
    Peer(
        "idemkit 1.0.2", "flask", f"{APPS}.idemkit_flask:app", ("idemkit[postgres]==1.0.2",),
        Expected(201, present="idempotency-replayed: true"), Expected(423),
    ),
    Peer("bare", "django", "benchmarks.wsgi_app:application"),
    Peer("ours", "django", "benchmarks.wsgi_app:application"),
    Peer(
        "drf-idempotency 1.0.0", "django", f"{APPS}.drf_idempotency_postgres:app",
        ("drf-idempotency==1.0.0", "psycopg[binary]"), in_flight=REFUSED,
    ),
)  # fmt: skip
