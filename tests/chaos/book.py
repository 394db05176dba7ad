"""Everything a run knows of each payment: what was sent, what was answered, what was done to whom.

Clients and the stage write, the checks read. Times are seconds since 1970 by the machine's clock,
as in the workers' trails.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from chaos.plan import Blow, Route, Strike
from replayfloor.core.fingerprint import receipt_id
from replayfloor.core.problem import ProblemKind


@dataclass(slots=True)
class Attempt:
    """One request on its way to a worker; `ended_as` is its status or what broke."""

    at: float
    worker: int
    ended_at: float = 0.0
    ended_as: str = "not ended"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that a client took for definitive.

    `kind` is the refusal it is, if it is one of the middleware's; `run` names the execution.
    """

    at: float
    client: str
    status: int
    body: bytes
    run: str = ""
    replayed: bool = False
    kind: ProblemKind | None = None

    @property
    def acknowledges(self) -> bool:
        """Whether it says that the payment was charged."""
        return 200 <= self.status < 300

    @property
    def unknown(self) -> bool:
        """Whether it says that nobody can know."""
        return self.kind is ProblemKind.OUTCOME_UNKNOWN


@dataclass(slots=True)
class Operation:
    """One payment under one key; `final` are the answers to its repetitions after the run."""

    payment: str
    route: Route
    amount: int
    order: dict[str, object]
    key: str = ""
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    answers: list[Answer] = field(default_factory=list[Answer])
    final: list[Answer] = field(default_factory=list[Answer])

    @property
    def receipt(self) -> str:
        """The id of its receipt, as events name it; "" if nothing was ever sent."""
        return receipt_id("default", None, self.key).hex() if self.key else ""

    @property
    def acknowledged(self) -> list[Answer]:
        """The answers, of the run and after it, that say it was charged."""
        return [answer for answer in (*self.answers, *self.final) if answer.acknowledges]


@dataclass(frozen=True, slots=True)
class Struck:
    """A blow that fell: from when to when, and at which processes."""

    strike: Strike
    began: float
    ended: float
    pids: tuple[int, ...] = ()


POSTGRES = frozenset({Blow.BACKENDS_TERMINATED, Blow.BACKEND_KILLED, Blow.POSTMASTER_KILLED})
"""Blows that can make the receipts unreachable."""


@dataclass(slots=True)
class Book:
    """One run. `network` counts faults of the network by their names."""

    operations: dict[str, Operation] = field(default_factory=dict[str, Operation])
    struck: list[Struck] = field(default_factory=list[Struck])
    network: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def attempts(self) -> int:
        """How many requests were sent while faults fell, and to settle what they left."""
        return sum(len(operation.attempts) for operation in self.operations.values())

    def begin(self, operation: Operation) -> Operation:
        """Enter a payment before anything of it is sent."""
        self.operations[operation.payment] = operation
        return operation
