"""Django's views that go wrong: then there is no receipt, and what they wrote is undone."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, cast

import pytest
from django.db import (
    IntegrityError,
    connection,
    transaction,
)
from django.db.transaction import TransactionManagementError
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from psycopg import sql

from replayfloor.core.errors import UsageError
from replayfloor.server import ActiveClaim
from replayfloor.server.adapters.django import DjangoReceipts, DjangoTransaction
from replayfloor.server.stores import Connection
from server.adapters_common import (
    FRESH,
    IN_A_TRANSACTION,
    IN_FLIGHT,
    REPLAY,
    ledger_of,
    lose_claims,
)
from server.backends import Ledger
from server.django_projects import (
    atomic,
    check_nothing_happened,
    claim_of,
    project,
    write,
)
from server.wsgi_client import serve

if TYPE_CHECKING:
    from server.adapters_django import Site


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


def begun() -> DjangoTransaction:
    """Begin a transaction as the middleware does."""
    receipts = DjangoReceipts()
    receipts.open()
    receipts.close()
    return receipts.begin()


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
        assert site.ledger.run(IN_A_TRANSACTION) == []
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
        lose_claims(site.ledger)
        write()

    assert serve(site.protect(view)).brief == IN_FLIGHT
    assert site.ledger.rows() == []


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
