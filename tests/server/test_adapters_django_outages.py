"""Django on a Postgres that goes away: nothing is written twice, or without a receipt."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from django.db import (
    Error,
    connection,
    transaction,
)
from django.db.backends.signals import connection_created
from django.http import HttpRequest

from replayfloor.core.claims import Finish
from replayfloor.core.errors import StoreUnavailable
from replayfloor.server.adapters.django import DjangoReceipts
from replayfloor.testing.contract import claim, new_fence, new_id, receipt
from server.adapters_common import (
    FAILS_AT_COMMIT,
    FRESH,
    LOSES_ITS_CONNECTION_AT_COMMIT,
    REPLAY,
    UNAVAILABLE,
)
from server.backends import Ledger
from server.django_projects import (
    check_as_before,
    check_nothing_happened,
    closes_its_connection,
    is_closed,
    kill,
    project,
    session_of_the_view,
    write,
)
from server.wsgi_client import serve
from support.services import Postgres
from support.tcp_proxy import TcpProxy, tcp_proxy

if TYPE_CHECKING:
    from server.adapters_django import Site


@pytest.fixture
def postgres(emptied_url: str) -> Iterator[Site]:
    """The project on Postgres."""
    with project(Ledger(emptied_url)) as made:
        yield made


@pytest.mark.parametrize("overlooked", [True, False])
def test_a_connection_that_is_lost_under_the_view_is_undone(
    postgres: Site, overlooked: bool
) -> None:
    def view(_request: HttpRequest) -> None:
        write()
        kill(postgres, session_of_the_view())
        with contextlib.suppress(*([Error] if overlooked else [])):
            write()

    answer = serve(postgres.protect(view))

    assert (answer.status, answer.problem) == (UNAVAILABLE[:2] if overlooked else (500, None))
    assert is_closed()
    check_as_before(postgres)
    check_nothing_happened(postgres)


def test_a_connection_that_is_lost_before_the_finish_is_a_store_that_is_unavailable(
    postgres: Site,
) -> None:
    def view(_request: HttpRequest) -> None:
        write()
        kill(postgres, session_of_the_view())

    assert serve(postgres.protect(view)).brief == UNAVAILABLE
    check_as_before(postgres)
    check_nothing_happened(postgres)


def test_a_connection_that_the_view_closed_is_a_store_that_is_unavailable(postgres: Site) -> None:
    assert serve(postgres.protect(closes_its_connection)).brief == UNAVAILABLE
    check_as_before(postgres)
    check_nothing_happened(postgres)


def running(*script: str) -> Callable[[HttpRequest], None]:
    """Return a view that writes a row and runs these statements."""

    def view(_request: HttpRequest) -> None:
        write()
        with connection.cursor() as cursor:
            for statement in script:
                cursor.execute(statement)

    return view


def test_a_commit_that_a_constraint_refuses_is_undone(postgres: Site) -> None:
    answer = serve(postgres.protect(running(*FAILS_AT_COMMIT)))

    assert answer.status == 500
    assert isinstance(answer.raised, Error)
    check_as_before(postgres)
    check_nothing_happened(postgres)


def test_a_commit_that_loses_its_connection_is_found_out_about(postgres: Site) -> None:
    assert serve(postgres.protect(running(*LOSES_ITS_CONNECTION_AT_COMMIT))).brief == UNAVAILABLE
    check_as_before(postgres)
    check_nothing_happened(postgres)


@pytest.mark.parametrize("lost", ["before", "during"])
def test_whether_a_commit_was_sent_is_told(postgres: Site, lost: str) -> None:
    """Once it was, nobody can tell what became of it; before that, nothing did."""
    receipts = DjangoReceipts()
    taken = claim(new_id(), new_fence())
    receipts.claim(taken)
    transaction = receipts.begin()
    if lost == "during":
        running(*LOSES_ITS_CONNECTION_AT_COMMIT)(HttpRequest())
    else:
        kill(postgres, session_of_the_view())
    with pytest.raises(StoreUnavailable) as raised:
        transaction.commit(Finish(taken.id, taken.fence, receipt()))
    receipts.close()

    assert raised.value.performed is (None if lost == "during" else False)
    check_as_before(postgres)


@pytest.fixture
def proxy(postgres_server: Postgres) -> Iterator[TcpProxy]:
    """What stands between Django and Postgres, and not between the receipts and Postgres."""
    with tcp_proxy(postgres_server.port) as made:
        yield made


@pytest.fixture
def behind(emptied_url: str, proxy: TcpProxy, postgres_server: Postgres) -> Iterator[Site]:
    """The project, whose connections are behind the proxy."""
    url = emptied_url.replace(f":{postgres_server.port}/", f":{proxy.port}/")
    with project(Ledger(emptied_url), url, CONN_MAX_AGE=None) as made:
        yield made
        proxy.heal()


def test_a_commit_whose_answer_was_lost_is_found_to_have_happened(
    behind: Site, proxy: TcpProxy
) -> None:
    hooks: list[str] = []

    def view(_request: HttpRequest) -> None:
        write()
        transaction.on_commit(lambda: hooks.append("run"))

    app = behind.protect(view, behind.ledger.url)
    proxy.lose_answer(b"COMMIT")
    answers = [serve(app).brief for _ in range(2)]

    assert proxy.lost
    assert answers == [FRESH, REPLAY]
    assert hooks == []  # Django does not know that it has happened
    assert behind.ledger.rows() == ["atomic"]
    check_as_before(behind)


def test_a_finish_whose_answer_was_lost_is_undone(behind: Site, proxy: TcpProxy) -> None:
    app = behind.protect(write, behind.ledger.url)
    proxy.lose_answer(b"finish_v2")
    first = serve(app)

    assert proxy.lost
    assert first.brief == UNAVAILABLE
    assert behind.ledger.rows() == []
    check_as_before(behind)
    assert serve(app).brief == FRESH


def test_a_database_that_django_cannot_reach_is_a_store_that_is_unavailable(
    behind: Site, proxy: TcpProxy
) -> None:
    app = behind.protect(write, behind.ledger.url)
    proxy.cut()
    down = [serve(app).brief for _ in range(2)]
    proxy.heal()

    assert down == [UNAVAILABLE] * 2
    assert serve(app).brief == FRESH
    assert behind.ledger.rows() == ["atomic"]


def test_a_rollback_without_a_connection_does_not_make_a_new_one(postgres: Site) -> None:
    """Django would, only to leave it idle: and wait for a database that is away."""
    made: list[object] = []

    def note(**signal: object) -> None:
        made.append(signal["connection"])

    def view(_request: HttpRequest) -> None:
        write()
        kill(postgres, session_of_the_view())
        raise RuntimeError("undo this")

    connection_created.connect(note)
    try:
        assert serve(postgres.protect(view)).status == 500
    finally:
        connection_created.disconnect(note)

    assert len(made) == 1
    assert is_closed()
    check_nothing_happened(postgres)
