"""`replayfloor receipts resolve` and `evict`, to the end: what the customer's retry gets then."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from anyio import to_thread

from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.server.reconcile import StillUnknown, reconcile
from replayfloor.server.stores.records import ReceiptRecord
from replayfloor.server.stores.records_postgres import PostgresRecords
from replayfloor.server.stores.records_sqlite import SQLiteRecords
from server.apps import LedgerApp
from server.backends import Backend
from server.cli_databases import Database, Done, of_kind, run
from server.reconciling import (
    FRESH,
    REPLAY,
    UNKNOWN,
    die_before_the_effect,
    lose_receipt,
    records_of,
    worker,
)
from server.wire import send

RESOLVE = ("receipts", "resolve")
EVICT = ("receipts", "evict")
APPLIED = ("--applied", "--status", "201", "--header", "Location: /p/1", "--header", "X-A: b")


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """An empty database of either kind."""
    with of_kind(request.param, request) as made:
        yield made


@pytest.fixture
def sqlite(request: pytest.FixtureRequest) -> Iterator[Database]:
    """An empty file."""
    with of_kind("sqlite", request) as made:
        yield made


async def command(*arguments: str) -> Done:
    """Run a command beside the event loop of a test."""
    return await to_thread.run_sync(partial(run, *arguments))


@pytest.mark.anyio
async def test_a_payment_resolved_as_applied_is_replayed_as_the_person_said(
    asgi: Backend, tmp_path: Path
) -> None:
    await lose_receipt(asgi)
    app, body = worker(asgi), tmp_path / "answer.json"
    body.write_bytes(b'{"id": "p1", "note": "\xff"}')
    (orphan,) = records_of(asgi).orphans(10)
    before = await send(app)

    done = await command(
        *RESOLVE, asgi.receipts_url, orphan.id.hex(), *APPLIED, "--body-file", str(body), "--yes"
    )
    after = [await send(app) for _ in range(2)]

    assert before.brief == UNKNOWN
    assert done.code == 0
    assert "never executed again" in done.text
    for answer in after:
        assert answer.brief == REPLAY
        assert answer.body == body.read_bytes()
        assert (answer.first(b"location"), answer.first(b"x-a")) == (b"/p/1", b"b")
    assert asgi.ledger.rows() == ["external"]


@pytest.mark.anyio
async def test_a_payment_resolved_as_not_applied_is_executed_once_by_the_retry(
    asgi: Backend,
) -> None:
    await die_before_the_effect(asgi)
    app = worker(asgi)
    (orphan,) = records_of(asgi).orphans(10)

    done = await command(*RESOLVE, asgi.receipts_url, orphan.id.hex(), "--not-applied", "--yes")
    after = [await send(app) for _ in range(2)]

    assert done.code == 0
    assert "EXECUTES THE OPERATION" in done.text
    assert [each.brief for each in after] == [FRESH, REPLAY]
    assert asgi.ledger.rows() == ["external"]


@pytest.mark.anyio
async def test_an_evicted_payment_is_executed_again_by_the_retry(asgi: Backend) -> None:
    app = asgi.protect(LedgerApp(asgi), lock="local")
    await send(app)
    (receipt,) = records_of(asgi).receipts(10)

    done = await command(*EVICT, asgi.receipts_url, receipt.id.hex(), "--yes")
    again = await send(app)

    assert done.code == 0
    assert "EXECUTES THE OPERATION AGAIN" in done.text
    assert again.brief == FRESH
    assert asgi.ledger.rows() == ["external", "external"]


def test_who_settled_what_and_how_they_knew_is_in_the_audit_trail_and_the_log(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    orphan, finished = database.orphan(), database.finished()
    by = ("--by", "ann", "--yes", "--note", "provider shows charge ch_1")

    run(*RESOLVE, database.url, orphan.hex(), *APPLIED, *by)
    run(*EVICT, database.url, finished.hex(), *by)

    (resolved,), (evicted,) = (database.records.audit(10, id_) for id_ in (orphan, finished))
    assert (resolved.action, evicted.action) == ("resolve applied", "evict")
    for line in (resolved, evicted):
        assert line.by.startswith("ann")
        assert "provider shows charge ch_1" in line.detail
        assert "status 201" in line.detail
    assert "SHA-256" in resolved.detail
    assert f"resolve applied receipt={orphan.hex()} by ann" in caplog.text
    assert f"evict receipt={finished.hex()} by ann" in caplog.text


def test_without_a_name_the_machines_user_is_noted(sqlite: Database) -> None:
    id_ = sqlite.finished()

    run(*EVICT, sqlite.url, id_.hex(), "--yes")

    assert "@" in sqlite.records.audit(1, id_)[0].by


@pytest.mark.parametrize("how", [APPLIED, ("--not-applied",)], ids=["applied", "not applied"])
def test_who_says_no_changes_nothing(database: Database, how: tuple[str, ...]) -> None:
    id_ = database.orphan()

    refused = run(*RESOLVE, database.url, id_.hex(), *how, stdin="n\n")
    unanswered = run(*RESOLVE, database.url, id_.hex(), *how, stdin="")
    agreed = run(*RESOLVE, database.url, id_.hex(), *how, stdin="y\n")

    assert [refused.code, unanswered.code, agreed.code] == [1, 1, 0]
    assert database.records.orphans(10) == []
    assert len(database.records.audit(10, id_)) == 1


@pytest.mark.parametrize("how", [APPLIED, ("--not-applied",)], ids=["applied", "not applied"])
@pytest.mark.parametrize(
    ("state", "said"),
    [("in_flight", "in flight"), ("finished", "nothing to resolve"), ("", "no such claim")],
)
def test_only_an_orphan_is_resolved(
    database: Database, state: str, said: str, how: tuple[str, ...]
) -> None:
    id_ = getattr(database, state)() if state else ReceiptId(b"\x07" * 16)
    before = database.records.find(id_.hex())

    done = run(*RESOLVE, database.url, id_.hex(), *how, "--yes")

    assert done.code == 1
    assert said in done.err
    assert database.records.find(id_.hex()) == before
    assert database.records.audit(10, id_) == []


@pytest.mark.parametrize(
    ("state", "said"), [("in_flight", "in flight"), ("orphan", "resolve"), ("", "no such")]
)
def test_only_a_finished_key_is_evicted(database: Database, state: str, said: str) -> None:
    id_ = getattr(database, state)() if state else ReceiptId(b"\x07" * 16)

    done = run(*EVICT, database.url, id_.hex(), "--yes")

    assert done.code == 1
    assert said in done.err
    assert len(database.records.claims(10)) == bool(state)


def test_a_receipt_is_not_evicted_without_a_yes(sqlite: Database) -> None:
    id_ = sqlite.finished()

    assert run(*EVICT, sqlite.url, id_.hex(), stdin="n\n").code == 1
    assert isinstance(sqlite.records.find(id_.hex()), ReceiptRecord)


def test_a_damaged_receipt_is_evicted_by_its_whole_id(database: Database) -> None:
    id_ = database.finished()
    database.corrupt(id_)

    short = run(*EVICT, database.url, id_.hex()[:8], "--yes")
    whole = run(*EVICT, database.url, id_.hex(), "--yes")

    assert (short.code, whole.code) == (2, 0)
    assert "all 32 digits" in short.err
    assert database.records.find(id_.hex()) is None


def test_an_orphan_whose_owner_finishes_while_the_person_thinks_is_left_alone(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = sqlite.orphan()

    def resolved_by_another(_question: str, *, yes: bool) -> None:
        assert yes
        monkeypatch.undo()
        run(*RESOLVE, sqlite.url, id_.hex(), "--applied", "--status", "200", "--yes")

    monkeypatch.setattr("replayfloor.server.cli_settle.confirm", resolved_by_another)
    done = run(*RESOLVE, sqlite.url, id_.hex(), "--not-applied", "--yes")

    found = sqlite.records.find(id_.hex())
    assert done.code == 1
    assert "somebody else" in done.err
    assert isinstance(found, ReceiptRecord)
    assert found.status == 200
    actions = [line.action for line in sqlite.records.audit(10, id_)]
    assert actions == ["took no effect", "resolve not-applied", "resolve applied"]


def test_the_body_may_come_from_a_pipe(sqlite: Database) -> None:
    id_ = sqlite.orphan()
    arguments = (*RESOLVE, sqlite.url, id_.hex(), *APPLIED, "--body-file", "-")

    unsure = run(*arguments, stdin=b"\x00\xff")
    sure = run(*arguments, "--yes", stdin=b"\x00\xff")

    found = sqlite.records.find(id_.hex())
    assert (unsure.code, sure.code) == (2, 0)
    assert isinstance(found, ReceiptRecord)
    assert found.receipt is not None
    assert found.receipt.response.body == b"\x00\xff"


def test_of_a_sensitive_answer_only_status_and_location_are_stored(sqlite: Database) -> None:
    id_ = sqlite.orphan()

    run(*RESOLVE, sqlite.url, id_.hex(), *APPLIED, "--sensitive", "--yes")

    found = sqlite.records.find(id_.hex())
    assert isinstance(found, ReceiptRecord)
    assert found.receipt is not None
    assert found.receipt.tombstone
    assert found.receipt.response.headers == ((b"location", b"/p/1"),)


@pytest.mark.parametrize(
    "wrong",
    [
        (),
        ("--applied",),
        ("--not-applied", "--status", "201"),
        ("--applied", "--header", "A: b"),
        ("--applied", "--status", "99"),
        ("--applied", "--status", "600"),
        ("--applied", "--status", "201", "--header", "no colon"),
        ("--applied", "--status", "201", "--header", "A: b\r\nSet-Cookie: x"),
        ("--applied", "--status", "201", "--header", "A b: c"),
        ("--applied", "--status", "201", "--body-file", "/no/such/file"),
        ("--applied", "--status", "201", "--cipher", "no_such_module:cipher"),
    ],
    ids=lambda wrong: " ".join(wrong) or "nothing said",
)
def test_a_resolution_that_makes_no_sense_is_refused_before_anything_is_looked_up(
    sqlite: Database, wrong: tuple[str, ...]
) -> None:
    id_ = sqlite.orphan()

    done = run(*RESOLVE, sqlite.url, id_.hex(), *wrong, "--yes")

    assert done.code == 2
    assert len(sqlite.records.orphans(10)) == 1
    assert sqlite.records.audit(10) == []


def test_a_settlement_that_cannot_be_noted_is_not_made(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = database.orphan()

    def full(*_arguments: object) -> None:
        raise StoreUnavailable("disk full", performed=False)

    for kind in (PostgresRecords, SQLiteRecords):
        monkeypatch.setattr(kind, "note", full)
    done = run(*RESOLVE, database.url, id_.hex(), "--not-applied", "--yes")

    assert done.code == 1
    assert len(database.records.orphans(10)) == 1


def test_an_orphan_given_back_by_a_reconciler_can_be_resolved_at_once(sqlite: Database) -> None:
    id_ = sqlite.orphan()
    reconcile(sqlite.records, sqlite.store, lambda _orphan: StillUnknown(), older_than_s=0)
    time.sleep(0.01)

    assert run(*RESOLVE, sqlite.url, id_.hex(), *APPLIED, "--yes").code == 0
