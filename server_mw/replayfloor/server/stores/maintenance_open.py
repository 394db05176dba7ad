"""The maintenance of whatever store a URL names. No SQL here."""

from __future__ import annotations

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.stores import POSTGRES_MISSING
from replayfloor.server.stores.maintenance import Keeping, Run, Status, Step

SQLITE = "sqlite:"


def maintain_once(
    url: str, keeping: Keeping, *, by: str, every_s: float = 0.0, accept_shorter: bool = False
) -> Run:
    """Make partitions ahead, and drop or delete what has expired; see the stores' own `maintain`.

    Raises ConfigurationError, SchemaMissing, StoreUnavailable.
    """
    if url.startswith(SQLITE):
        from replayfloor.server.stores import maintenance_sqlite
        from replayfloor.server.stores.sqlite_work import path_of

        return maintenance_sqlite.maintain(path_of(url), keeping, by=by)
    try:
        from replayfloor.server.stores import maintenance_postgres
    except ImportError as error:
        raise ConfigurationError(POSTGRES_MISSING) from error
    return maintenance_postgres.maintain(
        url, keeping, by=by, every_s=every_s, accept_shorter=accept_shorter
    )


def plan_of(url: str, keeping: Keeping) -> list[Step]:
    """Return what `maintain_once` would do; changes nothing. Raises as it does."""
    if url.startswith(SQLITE):
        from replayfloor.server.stores import maintenance_sqlite
        from replayfloor.server.stores.sqlite_work import path_of

        return maintenance_sqlite.planned(path_of(url), keeping)
    try:
        from replayfloor.server.stores import maintenance_postgres
    except ImportError as error:
        raise ConfigurationError(POSTGRES_MISSING) from error
    return maintenance_postgres.planned(url, keeping)


def status_of(url: str) -> Status:
    """Return what there is. Raises as `maintain_once` does."""
    if url.startswith(SQLITE):
        from replayfloor.server.stores import maintenance_sqlite
        from replayfloor.server.stores.sqlite_work import path_of

        return maintenance_sqlite.status(path_of(url))
    try:
        from replayfloor.server.stores import maintenance_postgres
    except ImportError as error:
        raise ConfigurationError(POSTGRES_MISSING) from error
    return maintenance_postgres.status(url)
