"""Django's views: what they write and the receipt are one commit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from django.db import (
    connection,
    transaction,
)
from django.http import HttpRequest, HttpResponse

from server.adapters_common import (
    AT_ONCE,
    FRESH,
    IN_FLIGHT,
    REPLAY,
    ledger_of,
    lose_claims,
)
from server.django_projects import (
    at_once,
    atomic,
    check_nothing_happened,
    claim_of,
    project,
    write,
)
from server.wsgi_client import environ, serve

if TYPE_CHECKING:
    from server.adapters_django import Site


@pytest.fixture(params=["sqlite", "postgres"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """The project on each kind of database."""
    with project(ledger_of(request.param, request)) as made:
        yield made


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
            lose_claims(site.ledger)
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
