"""What is made to stay is no garbage: how the collector is spared looking at it. Nothing else."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def to_be_kept() -> Iterator[None]:
    """Look for no garbage meanwhile, and never again among what there is at the end."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
