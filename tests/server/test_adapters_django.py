"""Django's views: what they write and the receipt are one commit, whatever they do."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.transaction import TransactionManagementError
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from psycopg import sql

from replayfloor.core.errors import UsageError
from replayfloor.core.problem import ProblemKind
from replayfloor.server import ActiveClaim
from replayfloor.server.adapters.django import DjangoReceipts, DjangoTransaction
from replayfloor.server.stores import Connection
from server.backends import Ledger, sqlite_url
from server.django_projects import project
from server.wire import Answer
from server.wsgi_client import environ, serve
from server.wsgi_server import WSGIApp

if TYPE_CHECKING:
    from server.adapters_django import Site

FRESH = (201, None, False)
REPLAY = (201, None, True)
IN_FLIGHT = (409, ProblemKind.IN_FLIGHT, False)
AT_ONCE = 16

atomic = cast("Callable[[], AbstractContextManager[object]]", transaction.atomic)  # it is untyped


def ledger_of(kind: str, request: pytest.FixtureRequest) -> Ledger:
    """Return an empty ledger in a database of a kind."""
    if kind == "postgres":
        return Ledger(request.getfixturevalue("emptied_url"))
    folder: Path = request.getfixturevalue("tmp_path")
    ledger = Ledger(sqlite_url(folder / "receipts.db"))
    ledger.create()
    return ledger


@pytest.fixture(params=["sqlite", "postgres"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """The project on each kind of database."""
    with project(ledger_of(request.param, request)) as made:
        yield made


@pytest.fixture
def postgres(emptied_url: str) -> Iterator[Site]:
    """The project on Postgres."""
    with project(Ledger(emptied_url)) as made:
        yield made


@pytest.fixture
def sqlite(request: pytest.FixtureRequest) -> Iterator[Site]:
    """The project on a SQLite file."""
    with project(ledger_of("sqlite", request)) as made:
        yield made


def write(_request: HttpRequest | None = None, entry: str = "atomic") -> None:
    from server.adapters_django import write as write_a_row

    write_a_row(_request, entry)


def claim_of(request: HttpRequest) -> ActiveClaim:
    return cast("ActiveClaim", request.META["replayfloor.claim"])


def check_nothing_happened(site: Site) -> None:
    """Nothing was written, and the key is free: the next request is executed."""
    assert site.ledger.rows() == []
    assert serve(site.protect(write)).brief == FRESH
    assert site.ledger.rows() == ["atomic"]


def begun() -> DjangoTransaction:
    """Begin a transaction as the middleware does."""
    receipts = DjangoReceipts()
    receipts.open()
    receipts.close()
    return receipts.begin()


def at_once(app: WSGIApp, keys: Iterable[str]) -> list[Answer]:
    """Send a request for each key, each in a thread of its own."""
    keys = list(keys)
    with ThreadPoolExecutor(len(keys)) as threads:
        return list(threads.map(lambda key: serve(app, environ(key=key)), keys))


# -- as intended ----------------------------------------------------------------------------------


def test_what_a_view_writes_and_the_receipt_are_one_commit(site: Site) -> None:
    def view(request: HttpRequest) -> None:
        write(entry="orm")
        with connection.cursor() as cursor:
            cursor.execute("insert into ledger values (%s)", ["cursor"])
        claim_of(request).connection.execute("insert into ledger values (%s)", ("claim",))
        assert site.ledger.rows() == []

    app = site.protect(view)

    assert [serve(app).brief for _ in range(2)] == [FRESH, REPLAY]
    assert site.ledger.rows() == ["orm", "cursor", "claim"]


def test_what_a_view_writes_past_django_goes_with_it(site: Site) -> None:
    def view(_request: HttpRequest) -> None:
        connection.ensure_connection()
        connection.connection.execute("insert into ledger values ('past')")
        write()

    app = site.protect(view)

    assert [serve(app).brief for _ in range(2)] == [FRESH, REPLAY]
    assert site.ledger.rows() == ["past", "atomic"]


def test_a_view_that_fails_is_undone(site: Site) -> None:
    def view(_request: HttpRequest) -> None:
        write()
        raise RuntimeError("afterwards")

    assert serve(site.protect(view)).status == 500
    check_nothing_happened(site)


@pytest.mark.parametrize("status", [503, 500])
def test_an_answer_that_frees_the_key_undoes_what_was_written(site: Site, status: int) -> None:
    def view(_request: HttpRequest) -> HttpResponse:
        write()
        return HttpResponse(status=status)

    assert serve(site.protect(view)).status == status
    check_nothing_happened(site)


def test_blocks_inside_of_the_view_are_savepoints(site: Site) -> None:
    def view(_request: HttpRequest) -> None:
        with atomic():
            write(entry="kept")
        assert site.ledger.rows() == []
        with contextlib.suppress(RuntimeError), atomic():
            write(entry="undone")
            raise RuntimeError("undo")

    app = site.protect(view)

    assert [serve(app).brief for _ in range(2)] == [FRESH, REPLAY]
    assert site.ledger.rows() == ["kept"]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_atomic_requests_are_a_block_inside_of_the_receipts(
    kind: str, request: pytest.FixtureRequest
) -> None:
    def refused(_request: HttpRequest) -> HttpResponse:
        write(entry="undone")
        transaction.set_rollback(True)  # as REST framework does for the answer to an error
        return HttpResponse(status=402)

    with project(ledger_of(kind, request), ATOMIC_REQUESTS=True) as site:
        app = site.protect(write)
        first = [serve(app).brief for _ in range(2)]
        app = site.protect(refused)
        second = [serve(app, environ(key='"k-2"')).brief for _ in range(2)]

        assert first == [FRESH, REPLAY]
        assert second == [(402, None, False), (402, None, True)]
        assert site.ledger.rows() == ["atomic"]


def test_of_many_duplicates_at_once_one_is_executed(site: Site) -> None:
    app = site.protect(write)
    answers = at_once(app, ['"k-1"'] * AT_ONCE)

    assert sum(each.brief == FRESH for each in answers) == 1
    assert {each.brief for each in answers} <= {FRESH, IN_FLIGHT, REPLAY}
    assert serve(app).brief == REPLAY
    assert site.ledger.rows() == ["atomic"]


def test_views_that_read_first_do_not_fail_each_other(site: Site) -> None:
    """In SQLite a lock for reading does not get any further once another has written."""

    def view(request: HttpRequest) -> None:
        claim_of(request).connection.execute("select count(*) from ledger").fetchone()
        write()

    answers = at_once(site.protect(view), [f'"k-{n}"' for n in range(AT_ONCE)])

    assert {each.brief for each in answers} == {FRESH}
    assert len(site.ledger.rows()) == AT_ONCE


# -- hooks ----------------------------------------------------------------------------------------


def test_hooks_run_after_the_receipt_is_committed(site: Site) -> None:
    seen: list[object] = []
    other = site.protect(write)

    def hook() -> None:
        seen.append(site.ledger.rows())
        write(entry="hook")
        seen.append(site.ledger.rows())

    def view(_request: HttpRequest) -> None:
        write()
        transaction.on_commit(hook)
        with atomic():
            transaction.on_commit(lambda: seen.append(at_once(other, ['"k-1"'])[0].brief))
        assert seen == []

    assert serve(site.protect(view)).brief == FRESH
    assert seen == [["atomic"], ["atomic", "hook"], REPLAY]


def test_hooks_do_not_run_for_what_is_undone(site: Site) -> None:
    seen: list[int] = []

    def view(request: HttpRequest) -> HttpResponse:
        status = int(str(request.GET["status"]))
        transaction.on_commit(lambda: seen.append(status))
        if status == 409:
            lose_claims(site)
        return HttpResponse(status=201 if status == 409 else status)

    app = site.protect(view)
    for status in (500, 503, 409):
        sent = environ(key=f'"k-{status}"', QUERY_STRING=f"status={status}")
        assert serve(app, sent).status == status
    assert seen == []
    assert serve(app, environ(QUERY_STRING="status=201")).brief == FRESH
    assert seen == [201]


def test_a_hook_that_fails_costs_the_answer_and_not_the_receipt(site: Site) -> None:
    def fail() -> None:
        raise RuntimeError("no mail today")

    def view(_request: HttpRequest) -> None:
        write()
        transaction.on_commit(fail)

    app = site.protect(view)
    first = serve(app)

    assert isinstance(first.raised, RuntimeError)
    assert serve(app).brief == REPLAY
    assert site.ledger.rows() == ["atomic"]


# -- what a view must not do ----------------------------------------------------------------------


def in_words(statement: object) -> Callable[[HttpRequest], None]:
    """Return what a view does to run a statement on Django's connection."""

    def run(_request: HttpRequest) -> None:
        with connection.cursor() as cursor:
            cursor.execute(statement)

    return run


ENDS: dict[str, Callable[[HttpRequest], object]] = {
    "commit": lambda _request: transaction.commit(),
    "rollback": lambda _request: transaction.rollback(),
    "autocommit": lambda _request: transaction.set_autocommit(True),
    "words": in_words("/* by hand */ COMMIT"),
    "undoing words": in_words("rollback"),
    "claim": lambda request: claim_of(request).connection.execute("commit"),
    "set_rollback": lambda _request: transaction.set_rollback(True),
    "close": lambda _request: connection.close(),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_view_cannot_end_the_transaction_without_the_receipt(site: Site, end: str) -> None:
    def view(request: HttpRequest) -> None:
        write()
        ENDS[end](request)

    answer = serve(site.protect(view))

    assert answer.status in (500, 503)
    check_nothing_happened(site)


@pytest.mark.parametrize("end", ENDS)
def test_a_view_that_overlooks_the_refusal_is_not_believed_halfway(site: Site, end: str) -> None:
    """Write and receipt come together, or neither does."""

    def view(request: HttpRequest) -> None:
        write()
        with contextlib.suppress(UsageError, TransactionManagementError):
            ENDS[end](request)

    app = site.protect(view)
    first = serve(app)

    written = site.ledger.rows() == ["atomic"]
    assert (first.status == 201) == written
    if written:
        assert serve(app).brief == REPLAY
    else:
        check_nothing_happened(site)


def test_a_view_that_connects_anew_writes_nothing_outside_of_the_transaction(site: Site) -> None:
    def view(_request: HttpRequest) -> None:
        write()
        connection.close()
        connection.connect()
        write(entry="outside")

    assert serve(site.protect(view)).status == 500
    check_nothing_happened(site)


def test_a_composed_statement_is_looked_at_too(postgres: Site) -> None:
    def view(_request: HttpRequest) -> None:
        write()
        with connection.cursor() as cursor:
            cursor.execute(sql.SQL("commit; {}").format(sql.SQL("select 1")))

    assert serve(postgres.protect(view)).status == 500
    check_nothing_happened(postgres)


def test_a_block_that_is_still_open_when_the_answer_is_settled_is_undone(site: Site) -> None:
    """The end of the receipt's block would be taken for that of the view's."""

    def view(_request: HttpRequest) -> HttpResponse:
        def chunks() -> Iterator[bytes]:
            with atomic():
                write()
                yield b"x" * 100
                yield b"x" * 100

        return cast("HttpResponse", StreamingHttpResponse(chunks(), status=201))

    answer = serve(site.protect(view, response_bytes_max=150))

    assert isinstance(answer.raised, UsageError)
    check_nothing_happened(site)


def test_a_rollback_under_an_open_block_ends_the_transaction_at_once(site: Site) -> None:
    """Whoever has the block open may take their time to leave it."""
    own = begun()
    block = atomic()
    block.__enter__()
    write()
    own.rollback()

    assert connection.closed_in_transaction
    site.ledger.write()  # which needs SQLite's lock
    site.ledger.run("delete from ledger")
    if not site.is_sqlite:
        query = "select 1 from pg_stat_activity where state like 'idle in transaction%'"
        assert site.ledger.run(query) == []
    block.__exit__(None, None, None)
    assert connection.connection is None
    check_nothing_happened(site)


def test_a_claims_connection_is_refused_once_the_answer_is_settled(site: Site) -> None:
    kept: list[Connection] = []
    claims: list[ActiveClaim] = []

    def view(request: HttpRequest) -> None:
        claims.append(claim_of(request))
        kept.append(claim_of(request).connection)

    serve(site.protect(view))

    with pytest.raises(UsageError, match="ended"):
        _ = claims[0].connection
    with pytest.raises(UsageError, match="ended"):
        kept[0].execute("insert into ledger values ('late')")
    assert site.ledger.rows() == []


def test_a_thread_of_the_view_cannot_write_through_the_claim(site: Site) -> None:
    """It would write on a connection of its own, outside of the transaction."""
    errors: list[Exception] = []

    def view(request: HttpRequest) -> None:
        write()
        own = claim_of(request).connection

        def beside() -> None:
            try:
                own.execute("insert into ledger values ('beside')")
            except Exception as error:  # noqa: BLE001 - looked at below
                errors.append(error)

        thread = threading.Thread(target=beside)
        thread.start()
        thread.join()

    assert serve(site.protect(view)).brief == FRESH
    assert "thread" in str(errors[0])
    assert site.ledger.rows() == ["atomic"]


def test_a_transaction_is_not_ended_in_another_thread(site: Site) -> None:
    errors: list[Exception] = []
    own = begun()

    def elsewhere() -> None:
        try:
            own.rollback()
        except UsageError as error:
            errors.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    write()
    own.rollback()

    assert "thread" in str(errors[0])
    assert site.ledger.rows() == []


def test_an_atomic_route_is_refused_inside_of_another_transaction(site: Site) -> None:
    with atomic():
        answer = serve(site.protect(write))

    assert isinstance(answer.raised, UsageError)
    check_nothing_happened(site)


# -- what the database refuses --------------------------------------------------------------------


def test_an_error_that_the_view_overlooks_has_no_receipt(site: Site) -> None:
    def view(_request: HttpRequest) -> None:
        in_words("create unique index only_one on ledger (entry)")(_request)
        write()
        with pytest.raises(IntegrityError):
            write()

    answer = serve(site.protect(view))

    assert isinstance(answer.raised, TransactionManagementError)
    check_nothing_happened(site)


def test_an_error_of_a_cursor_that_the_view_overlooks_has_no_receipt(site: Site) -> None:
    def view(request: HttpRequest) -> None:
        write()
        in_words("create temp table once (n integer primary key)")(request)
        in_words("insert into once values (1)")(request)
        with pytest.raises(IntegrityError):
            in_words("insert into once values (1)")(request)

    app = site.protect(view)
    first = serve(app)

    if site.is_sqlite:  # where a statement that failed leaves the others alone
        assert (first.brief, serve(app).brief) == (FRESH, REPLAY)
        assert site.ledger.rows() == ["atomic"]
    else:
        assert first.status == 500
        check_nothing_happened(site)


def test_a_claim_that_was_lost_meanwhile_undoes_what_was_written(site: Site) -> None:
    def view(_request: HttpRequest) -> None:
        lose_claims(site)
        write()

    assert serve(site.protect(view)).brief == IN_FLIGHT
    assert site.ledger.rows() == []


def lose_claims(site: Site) -> None:
    """Give every claim to somebody else."""
    site.ledger.run(
        "update replayfloor_claims set fence = randomblob(16)"
        if site.is_sqlite
        else "update replayfloor.claims set fence = gen_random_uuid()"
    )


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_transaction_that_sqlite_ended_itself_is_not_gone_on_with(
    sqlite: Site, goes_on: bool
) -> None:
    """`or rollback` (as a full disk does) ends it; what follows would be committed one by one."""

    def view(request: HttpRequest) -> None:
        in_words("create table once (n integer primary key)")(request)
        in_words("insert into once values (1)")(request)
        write()
        with contextlib.suppress(IntegrityError):
            in_words("insert or rollback into once values (1)")(request)
        if goes_on:
            write(entry="afterwards")

    assert serve(sqlite.protect(view)).status == 500
    check_nothing_happened(sqlite)
