"""Databases for the tests of the command line, filled without a server; and how to run it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_bytes

import psycopg
import pytest
from typer.testing import CliRunner

from replayfloor.cli import command
from replayfloor.core.claims import Claim, Claimed, Fence, Finish
from replayfloor.core.fingerprint import Fingerprint, ReceiptId, receipt_id
from replayfloor.core.message import Headers, Response
from replayfloor.core.receipt import keep
from replayfloor.server.stores import Receipts, open_receipts
from replayfloor.server.stores.records import Records, open_records

REQUEST = Fingerprint(b"one request.....")
LONG_MS = 60_000
SHORT_MS = 1
AFTER_SHORT_S = 0.03

OK: Headers = ((b"content-type", b"application/json"), (b"location", b"/payments/1"))


@dataclass
class Database:
    """One database of receipts, of either kind."""

    url: str
    store: Receipts = field(repr=False)

    @property
    def records(self) -> Records:
        """The records of it."""
        return open_records(self.url)

    def in_flight(self, id_: ReceiptId | None = None) -> ReceiptId:
        """Make a claim whose lease lasts."""
        return self._claim(id_ or ReceiptId(token_bytes(16)), LONG_MS)[0]

    def orphan(self, id_: ReceiptId | None = None) -> ReceiptId:
        """Make an orphan."""
        made, _fence = self._claim(id_ or ReceiptId(token_bytes(16)), SHORT_MS)
        time.sleep(AFTER_SHORT_S)
        return made

    def finished(
        self,
        id_: ReceiptId | None = None,
        *,
        status: int = 201,
        headers: Headers = OK,
        body: bytes = b'{"id": "p1"}',
    ) -> ReceiptId:
        """Make a receipt."""
        made, fence = self._claim(id_ or ReceiptId(token_bytes(16)), LONG_MS)
        receipt = keep(REQUEST, Response(status, headers, body))
        assert self.store.finish(Finish(made, fence, receipt))
        return made

    def _claim(self, id_: ReceiptId, lease_ms: int) -> tuple[ReceiptId, Fence]:
        fence = Fence(token_bytes(16))
        assert self.store.claim(Claim(id_, REQUEST, fence, lease_ms)) == Claimed()
        return id_, fence

    def corrupt(self, id_: ReceiptId) -> None:
        """Damage the stored answer of a receipt."""
        if self.url.startswith("sqlite"):
            path = self.url.removeprefix("sqlite:///")
            with closing(sqlite3.connect(path, isolation_level=None)) as database:
                query = "update replayfloor_receipts set response = x'00' where id = ?"
                database.execute(query, (id_,))
        else:
            with psycopg.connect(self.url, autocommit=True) as connection:
                query = "update replayfloor.receipts set response = '\\x00' where id = %s"
                connection.execute(query, (id_.hex(),))


@contextmanager
def opened(url: str) -> Iterator[Database]:
    """Open a database; it has been migrated."""
    store = open_receipts(url)
    store.open()
    try:
        yield Database(url, store)
    finally:
        store.close()


@contextmanager
def of_kind(kind: str, request: pytest.FixtureRequest) -> Iterator[Database]:
    """Open an empty database: "sqlite" or "postgres"."""
    if kind == "sqlite":
        folder: Path = request.getfixturevalue("tmp_path")
        url = f"sqlite:///{folder}/receipts.db"
    else:
        url = request.getfixturevalue("emptied_url")
    with opened(url) as made:
        yield made


def id_of(key: str, principal: str | None = None) -> ReceiptId:
    """Return the id of a key in the default namespace."""
    return receipt_id("default", principal, key)


@dataclass(frozen=True)
class Done:
    """What a command did: its exit code, and its whole output."""

    code: int
    text: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines on stdout."""
        return self.text.splitlines()


def run(*arguments: str, stdin: str | bytes | None = None) -> Done:
    """Run a command in this process."""
    done = CliRunner().invoke(command(), arguments, input=stdin)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Done(done.exit_code, done.stdout, done.stderr)
