"""The garbage collector of a worker that is measured: as Python has it, or as advised.

docs/operating.md says why and what it gains. It is the same for every contender of a run.
"""

from __future__ import annotations

import gc
import os
from typing import Final, Literal, TypeAlias

Collector: TypeAlias = Literal["advised", "default"]

VARIABLE: Final = "BENCH_COLLECTOR"

ALLOCATIONS: Final = 10_000
"""Between two collections of what is young: at 64 connections the requests under way hold some
8,000 objects, and 700, as Python has it, are reached every seven requests."""


def settle() -> None:
    """Do what is advised if the environment says so; called once everything is imported."""
    if os.environ.get(VARIABLE) == "advised":
        gc.collect()
        gc.freeze()
        gc.set_threshold(ALLOCATIONS, *gc.get_threshold()[1:])
