"""The connection string of a database that another library knows how to connect to. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.stores import POSTGRES_MISSING


def conninfo(options: Mapping[str, object]) -> str:
    """Return what libpq understands of a driver's options, as a connection string.

    Several hosts and ports may be lists. What is None, and what only the driver itself knows, is
    left out. Raises ConfigurationError if psycopg is not installed.
    """
    try:
        from psycopg.conninfo import make_conninfo
        from psycopg.pq import Conninfo
    except ImportError as error:
        raise ConfigurationError(POSTGRES_MISSING) from error
    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    parts = {
        name: _text(value) for name, value in options.items() if name in known and value is not None
    }
    return make_conninfo("", **parts)


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(str(each) for each in cast("Sequence[object]", value))
    return str(value)
