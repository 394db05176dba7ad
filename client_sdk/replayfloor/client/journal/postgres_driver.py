"""What is said where the Postgres driver is not installed. Nothing is imported here."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from replayfloor.core.errors import ConfigurationError


@contextmanager
def driver_needed() -> Generator[None]:
    """Turn a failed import of the driver into ConfigurationError."""
    try:
        yield
    except ImportError as error:
        raise ConfigurationError(
            "a journal in Postgres needs psycopg and its pool: "
            f"pip install 'replayfloor[journal-postgres]' ({error})"
        ) from error
