"""The protocol's statements on psycopg's own layer of libpq: values, rows, and a blocking wait.

Cursors adapt parameters of any type, which takes several times as long as everything else here.
The protocol knows its few types. No statement is prepared (see postgres_options.py), so it works
behind PgBouncer too.
"""

from __future__ import annotations

import re
import select
from collections.abc import Callable, Mapping
from functools import cache
from math import ceil, inf
from time import monotonic
from typing import Final, LiteralString, TypeAlias
from uuid import UUID

import psycopg
from psycopg import errors, generators, pq, waiting
from psycopg.abc import PQGen
from psycopg.pq.abc import PGconn, PGresult

from replayfloor.core.claims import Claim, Finish
from replayfloor.core.receipt import encode_receipt
from replayfloor.server.stores.postgres_connection import BoundedConnection
from replayfloor.server.stores.postgres_link import seconds_left, silence_is_unavailable
from replayfloor.server.stores.postgres_values import Values
from replayfloor.server.stores.protocols import Row

Written: TypeAlias = Mapping[str, bytes | None]
"""Parameters as Postgres reads them, by the names in the statement."""

AT_ONCE_S: Final = 10.0
"""The longest first wait, after which psycopg's goes on. More than an operation takes; a bound for
what is given to the system, which counts milliseconds in 31 bits."""

CANCEL_S: Final = 5.0
"""How long the end of an interrupted statement is waited for; psycopg's own value."""

_PARAMETER: Final = re.compile(r"%\((\w+)\)s")


@cache
def numbered(statement: LiteralString) -> tuple[bytes, tuple[str, ...]]:
    """Return a statement with `$1` for the first `%(name)s`, and the names in their order.

    The text stays as literal as it was: no value gets into it.
    """
    names = tuple(dict.fromkeys(_PARAMETER.findall(statement)))
    text = _PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", statement)
    return text.encode(), names


def result_of(
    connection: BoundedConnection,
    statement: LiteralString,
    written: Written,
    deadline: float,
) -> PGresult:
    """Return the rows of a statement. Raises StoreUnavailable, and what the server has refused.

    Parameters are as Postgres reads them; their types are those of the function that is called.
    """
    connection.deadline = deadline
    try:
        send(connection.pgconn, statement, written)
        (result,) = _results(connection, deadline)
        if result.status != pq.ExecStatus.TUPLES_OK:
            raise errors.error_from_result(result)
    except psycopg.Error:
        with silence_is_unavailable(connection):
            raise
    finally:
        connection.deadline = inf
    return result


def _results(connection: BoundedConnection, deadline: float) -> list[PGresult]:
    """Read what was asked for, after one wait if all of it has come by then, as it nearly always
    has; psycopg's own waits, which are ready for more, take as long as sending and reading."""
    pgconn = connection.pgconn
    reading: PQGen[list[PGresult]] = generators.execute(pgconn)
    try:
        if next(reading) == waiting.WAIT_R:
            poller = select.poll()
            poller.register(pgconn.socket, select.POLLIN)
            if poller.poll(ceil(min(seconds_left(deadline), AT_ONCE_S) * 1000)):
                reading.send(waiting.READY_R)
    except StopIteration as stop:
        results: list[PGresult] = stop.value
        return results
    except (KeyboardInterrupt, SystemExit):
        _end(connection)
        raise
    return connection.wait(reading)


def _end(connection: BoundedConnection) -> None:
    """End the statement before who is interrupted goes on, and undoes what it does; as psycopg."""
    connection.deadline = monotonic() + CANCEL_S
    try:
        connection.cancel_safe(timeout=CANCEL_S)
        connection.wait(generators.execute(connection.pgconn))
    except psycopg.Error:
        connection.close()


def send(pgconn: PGconn, statement: LiteralString, written: Written) -> None:
    """Begin to send a statement."""
    query, names = numbered(statement)
    pgconn.send_query_params(query, [written[name] for name in names])


def asked(pgconn: PGconn, statement: LiteralString, written: Written) -> PQGen[list[PGresult]]:
    """Send a statement and return its results; what it waits for is what psycopg's waits take."""
    send(pgconn, statement, written)
    results: list[PGresult] = yield from generators.execute(pgconn)
    return results


def claim_written(claim: Claim) -> dict[str, bytes | None]:
    """Return the parameters of claim.sql."""
    retention_ms = claim.retention_ms
    return {
        "id": claim.id.hex().encode(),
        "fingerprint": claim.fingerprint.hex().encode(),
        "fence": claim.fence.hex().encode(),
        "lease_ms": b"%d" % claim.lease_ms,
        "takeover": _truth_written(is_so=claim.takeover),
        "retention_ms": None if retention_ms is None else b"%d" % retention_ms,
        "reuse": claim.reuse.value.encode(),
        "proofs": _truth_written(is_so=claim.proofs),
    }


def finish_written(finish: Finish) -> dict[str, bytes | None]:
    """Return the parameters of finish.sql."""
    receipt = finish.receipt
    return {
        "id": finish.id.hex().encode(),
        "fence": finish.fence.hex().encode(),
        "fingerprint": receipt.fingerprint.hex().encode(),
        "status": b"%d" % receipt.response.status,
        "response": b"\\x" + encode_receipt(receipt).hex().encode(),
    }


def arrays_written(parameters: Values) -> dict[str, bytes | None]:
    """Return the parameters of a statement for several entries: arrays, as text, and truths."""
    return {
        name: value.encode() if isinstance(value, str) else _truth_written(is_so=bool(value))
        for name, value in parameters.items()
    }


def _truth_written(*, is_so: bool) -> bytes:
    return b"t" if is_so else b"f"


def is_plainly_claimed(result: PGresult) -> bool:
    """Say whether claim.sql has answered what it answers to a first request."""
    return result.get_value(0, 0) == b"claimed" and result.get_value(0, 4) == b"f"


def rows_of(result: PGresult) -> list[Row]:
    """Return the rows with the values that psycopg's cursors would give."""
    if not result.ntuples:
        return []
    columns = [(at, _READ.get(result.ftype(at), _text)) for at in range(result.nfields)]
    return [
        tuple(
            [
                None if (data := result.get_value(row, at)) is None else read(data)
                for at, read in columns
            ]
        )
        for row in range(result.ntuples)
    ]


def _text(data: bytes) -> str:
    return data.decode()


def _truth(data: bytes) -> bool:
    return data == b"t"


def _uuid(data: bytes) -> UUID:
    return UUID(data.decode())


def _bytes(data: bytes) -> bytes:
    return pq.Escaping().unescape_bytea(data)


_READ: Final[Mapping[int, Callable[[bytes], object]]] = {
    16: _truth,
    17: _bytes,
    20: int,
    21: int,
    23: int,
    2950: _uuid,
}
"""How the types of the protocol's columns are read, by their numbers in pg_type; others as text."""
