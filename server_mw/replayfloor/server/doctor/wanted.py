"""What a deployment is meant to be, as far as whoever runs the doctor has said it. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from replayfloor.retention.storage import BYTES_PER_KEY

POOL: Final = 10
"""The default of `pool_connections` and `handler_connections`. Not imported from there: what a
deployment is meant to be can be said where there is no driver for Postgres."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be compared with.

    Attributes:
        workers: processes in all, on all machines; None: nobody has said.
        pool: connections of each of a worker's two pools.
        rate_per_s: new keys a second, on average over a day; None: nobody has said.
        bytes_per_key: of one receipt, index and answer included.
        retention_s: for how long receipts are to be kept, by the policy; None: nobody has said.
        policy, digest: its name, and of its text; "" without one.
    """

    workers: int | None = None
    pool: int = POOL
    rate_per_s: float | None = None
    bytes_per_key: float = BYTES_PER_KEY
    retention_s: float | None = None
    policy: str = ""
    digest: str = ""
