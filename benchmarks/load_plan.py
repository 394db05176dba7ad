"""What the load generator is told, and what it tells: plain values, JSON over a pipe.

Both processes import this; nothing here sends or measures.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Final, Literal, TypeAlias, cast

KeyKind: TypeAlias = Literal["fresh", "pool", "none"]
"""Where keys come from: a new one for each request; a pool that `seed` names, again and again; no
key at all."""

WARM_UP_S: Final = 0.5
"""Load before anything is counted: connections are made, statements prepared, plans kept."""

BODY: Final = json.dumps(
    {
        "id": "payment-20260115-000000042",
        "amount_minor": 4200,
        "currency": "EUR",
        "account": "acct_8f14e45fceea167a9c2b6d3e5f7a112",
        "reference": "invoice 2026/0042, second half, due on the last day of the month",
    },
    separators=(",", ":"),
).encode()
"""The request: 200 bytes of JSON."""
assert len(BODY) == 200


@dataclass(frozen=True, slots=True)
class Expected:
    """What every answer has to be. `present` and `absent` are parts of a head in lower case."""

    status: int
    present: str = ""
    absent: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """One run of load.

    Attributes:
        port: of the worker, on the loopback.
        connections: requests under way at any time, each on a connection that is kept.
        seconds: how long is measured, after `warm_up_s`.
        requests: for `pool` alone: end after so many; 0 for as long as `seconds` says.
        keys, seed, pool: see KeyKind; `pool` is how many keys there are.
        bare_keys: keys without the double quotes of a structured field.
        pids: the worker's processes, whose CPU time is read at both ends of the measured time.
        path, header, body: what is sent, and under which name the key.
    """

    port: int
    connections: int
    expected: Expected
    keys: KeyKind
    seconds: float = 0.0
    warm_up_s: float = WARM_UP_S
    requests: int = 0
    seed: str = ""
    pool: int = 1
    bare_keys: bool = False
    pids: tuple[int, ...] = ()
    path: str = "/payments"
    header: str = "Idempotency-Key"

    def as_json(self) -> str:
        """Return one line."""
        return json.dumps(asdict(self))

    @classmethod
    def of_json(cls, line: str) -> Plan:
        """Read one line."""
        found = json.loads(line)
        found["expected"] = Expected(**found["expected"])
        found["pids"] = tuple(found["pids"])
        return cls(**found)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of load found.

    Attributes:
        requests: answered within the measured time.
        seconds: that time.
        worker_cpu_s: CPU time of the worker's processes in it, threads included.
        own_cpu_s: the load generator's.
        p50_ms, p99_ms: of the times from the request to its whole answer.
        wrong: the first answer that was not the expected one, or an empty string.
    """

    requests: int
    seconds: float
    worker_cpu_s: float
    own_cpu_s: float
    p50_ms: float
    p99_ms: float
    wrong: str = ""

    @property
    def per_second(self) -> float:
        """Requests answered in a second."""
        return self.requests / self.seconds

    @property
    def worker_cpu_us(self) -> float:
        """Microseconds of the worker's CPU for a request."""
        return self.worker_cpu_s / max(1, self.requests) * 1e6

    @property
    def own_cpu_us(self) -> float:
        """Microseconds of the load generator's CPU for a request."""
        return self.own_cpu_s / max(1, self.requests) * 1e6

    def as_json(self) -> str:
        """Return one line."""
        return json.dumps(asdict(self))

    @classmethod
    def of_json(cls, line: str) -> Outcome:
        """Read one line."""
        return cls(**cast("dict[str, float]", json.loads(line)))  # type: ignore[arg-type]


def key_of(seed: str, number: int) -> str:
    """Return a key of the pool: a UUID of version 4 as far as its form goes."""
    return uuid4_of(hashlib.md5(f"{seed}/{number}".encode(), usedforsecurity=False).hexdigest())


def uuid4_of(digits: str) -> str:
    """Return 32 hexadecimal digits in the form of a UUID of version 4."""
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"
