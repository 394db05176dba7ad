"""Django's connections: kept and closed as without us, and given up when the database goes away."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, cast

import pytest
from django import VERSION
from django.db import Error, close_old_connections, connection, connections, transaction
from django.db.backends.signals import connection_created
from django.http import HttpRequest, HttpResponse
from psycopg import IsolationLevel

from replayfloor.core.claims import Finish
from replayfloor.core.errors import ConfigurationError, StoreUnavailable
from replayfloor.core.problem import ProblemKind
from replayfloor.server.adapters.django import DjangoReceipts
from replayfloor.testing.contract import claim, new_fence, new_id, receipt
from server.backends import Ledger
from server.django_projects import project
from server.test_adapters_django import FRESH, REPLAY, check_nothing_happened, ledger_of, write
from server.wsgi_client import environ, serve
from support.services import Postgres
from support.tcp_proxy import TcpProxy, tcp_proxy

if TYPE_CHECKING:
    from server.adapters_django import Site

UNAVAILABLE = (503, ProblemKind.STORE_UNAVAILABLE, False)
KEPT: dict[str, object] = {"CONN_MAX_AGE": None}
CHECKED: dict[str, object] = {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True}


@pytest.fixture
def postgres(emptied_url: str) -> Iterator[Site]:
    """The project on Postgres."""
    with project(Ledger(emptied_url)) as made:
        yield made


def session_of_the_view() -> int:
    """Return what names Django's connection on the server."""
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        return int(cursor.fetchone()[0])


def kill(site: Site, session: int) -> None:
    """End a session on the server."""
    site.ledger.run("select pg_terminate_backend(%s, 5000)", (session,))


def is_closed() -> bool:
    """Say whether Django has closed its connection."""
    return connections["default"].connection is None


def check_as_before(site: Site) -> None:
    """Nothing of ours is left on Django's connection, and no transaction on the server's side."""
    own = connections["default"]
    assert "close_if_unusable_or_obsolete" not in vars(own)
    assert own.execute_wrappers == []
    assert not own.in_atomic_block
    assert own.connection is None or own.get_autocommit()
    query = "select 1 from pg_stat_activity where state like 'idle in transaction%'"
    assert site.ledger.run(query) == []


# -- between requests -----------------------------------------------------------------------------


def fails(_request: HttpRequest) -> None:
    write()
    raise RuntimeError("afterwards")


def answers_503(_request: HttpRequest) -> HttpResponse:
    write()
    return HttpResponse(status=503)


def closes_it(_request: HttpRequest) -> None:
    write()
    connection.close()


VIEWS = [write, fails, answers_503]


@pytest.mark.parametrize("view", [*VIEWS, closes_it])
def test_a_connection_of_one_request_is_closed_after_it(
    postgres: Site, view: Callable[[HttpRequest], HttpResponse | None]
) -> None:
    serve(postgres.protect(view))

    assert is_closed()
    check_as_before(postgres)


@pytest.mark.parametrize("view", VIEWS)
def test_a_connection_that_is_kept_serves_the_next_request(
    emptied_url: str, view: Callable[[HttpRequest], HttpResponse | None]
) -> None:
    sessions: list[int] = []

    def noted(request: HttpRequest) -> HttpResponse | None:
        sessions.append(session_of_the_view())
        return view(request)

    with project(Ledger(emptied_url), **KEPT) as site:
        app = site.protect(noted)
        for number in range(2):
            serve(app, environ(key=f'"k-{number}"'))
            assert not is_closed()
            check_as_before(site)

    assert sessions[0] == sessions[1]


def test_a_connection_is_not_kept_beyond_its_age(emptied_url: str) -> None:
    sessions: list[int] = []

    def view(_request: HttpRequest) -> None:
        sessions.append(session_of_the_view())

    with project(Ledger(emptied_url), CONN_MAX_AGE=60) as site:
        app = site.protect(view)
        for number in range(3):
            serve(app, environ(key=f'"k-{number}"'))
            if number == 1:
                connections["default"].close_at = 0.0  # as if the time had passed

    assert sessions[0] == sessions[1] != sessions[2]


def test_a_replay_leaves_djangos_connection_alone(emptied_url: str) -> None:
    with project(Ledger(emptied_url), **KEPT) as site:
        app = site.protect(write)
        assert serve(app).brief == FRESH
        connections["default"].close()
        assert serve(app).brief == REPLAY
        assert is_closed()


def test_looking_after_connections_during_a_view_does_not_close_its_own(postgres: Site) -> None:
    """Django does it when a request begins, and so do long-running views."""

    def view(_request: HttpRequest) -> None:
        assert connection.in_atomic_block
        session = session_of_the_view()
        write()
        close_old_connections()
        assert session_of_the_view() == session

    assert serve(postgres.protect(view)).brief == FRESH
    assert postgres.ledger.rows() == ["atomic"]


def test_a_kept_connection_that_the_server_closed_is_noticed_by_the_health_check(
    emptied_url: str,
) -> None:
    sessions: list[int] = []

    def view(_request: HttpRequest) -> None:
        sessions.append(session_of_the_view())
        write()

    with project(Ledger(emptied_url), **CHECKED) as site:
        app = site.protect(view)
        assert serve(app).brief == FRESH
        kill(site, sessions[0])
        assert serve(app, environ(key='"k-2"')).brief == FRESH
        assert site.ledger.rows() == ["atomic", "atomic"]

    assert sessions[0] != sessions[1]


def test_a_kept_connection_that_nobody_checks_costs_one_request_as_in_django(
    emptied_url: str,
) -> None:
    sessions: list[int] = []

    def view(_request: HttpRequest) -> None:
        sessions.append(session_of_the_view())
        write()

    with project(Ledger(emptied_url), **KEPT) as site:
        app = site.protect(view)
        assert serve(app).brief == FRESH
        kill(site, sessions[0])
        assert serve(app, environ(key='"k-2"')).status == 500
        assert serve(app, environ(key='"k-2"')).brief == FRESH
        assert site.ledger.rows() == ["atomic", "atomic"]


POOL = {"OPTIONS": {"pool": {"min_size": 1, "max_size": 2}}}
OPTIONS = [
    {"OPTIONS": {"server_side_binding": True}},
    pytest.param(
        POOL,
        marks=pytest.mark.skipif(
            cast("tuple[int, ...]", VERSION) < (5, 1), reason="Django 5.1 has it"
        ),
    ),
    {"OPTIONS": {"application_name": "shop", "connect_timeout": 3}},
    {"CONN_MAX_AGE": 60, "DISABLE_SERVER_SIDE_CURSORS": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_ways_in_which_django_connects(emptied_url: str, options: dict[str, object]) -> None:
    with project(Ledger(emptied_url), **options) as site:
        app = site.protect(write)
        assert [serve(app).brief for _ in range(2)] == [FRESH, REPLAY]
        assert serve(site.protect(fails), environ(key='"k-2"')).status == 500
        assert site.ledger.rows() == ["atomic"]
        check_as_before(site)
        if hasattr(connections["default"], "close_pool"):
            connections["default"].close_pool()


# -- a database that goes away --------------------------------------------------------------------


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
    assert serve(postgres.protect(closes_it)).brief == UNAVAILABLE
    check_as_before(postgres)
    check_nothing_happened(postgres)


def running(script: str) -> Callable[[HttpRequest], None]:
    """Return a view that writes a row and runs these statements."""

    def view(_request: HttpRequest) -> None:
        write()
        with connection.cursor() as cursor:
            cursor.execute(script)

    return view


FAILS_AT_COMMIT = """
create temp table late (n int unique deferrable initially deferred) on commit drop;
insert into late values (1), (1)
"""
LOSES_ITS_CONNECTION_AT_COMMIT = """
create temp table last (n int) on commit drop;
create function pg_temp.gone() returns trigger language plpgsql as
  $$ begin perform pg_terminate_backend(pg_backend_pid()); return null; end $$;
create constraint trigger gone after insert on last deferrable initially deferred
  for each row execute function pg_temp.gone();
insert into last values (1)
"""


def test_a_commit_that_a_constraint_refuses_is_undone(postgres: Site) -> None:
    answer = serve(postgres.protect(running(FAILS_AT_COMMIT)))

    assert answer.status == 500
    assert isinstance(answer.raised, Error)
    check_as_before(postgres)
    check_nothing_happened(postgres)


def test_a_commit_that_loses_its_connection_is_found_out_about(postgres: Site) -> None:
    assert serve(postgres.protect(running(LOSES_ITS_CONNECTION_AT_COMMIT))).brief == UNAVAILABLE
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
        running(LOSES_ITS_CONNECTION_AT_COMMIT)(HttpRequest())
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
    with project(Ledger(emptied_url), url, **KEPT) as made:
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
    proxy.lose_answer(b"finish_v1")
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


# -- what DATABASES says --------------------------------------------------------------------------


def test_a_conflict_of_transactions_at_the_finish_may_be_tried_again(emptied_url: str) -> None:
    """Above READ COMMITTED the claim must not change after the view's first statement."""
    level = {"isolation_level": IsolationLevel.SERIALIZABLE}
    with project(Ledger(emptied_url), OPTIONS=level) as site:

        def view(_request: HttpRequest) -> None:
            write()
            site.ledger.run("update replayfloor.claims set lease_until = lease_until + '1 s'")

        assert serve(site.protect(view)).brief == UNAVAILABLE
        assert site.ledger.rows() == []


WRONG: list[tuple[dict[str, object], str]] = [
    ({"AUTOCOMMIT": False}, "AUTOCOMMIT"),
    ({"NAME": ":memory:"}, "file"),
    ({"NAME": "file:shared?mode=memory&cache=shared"}, "file"),
    ({"ENGINE": "django.db.backends.dummy"}, "Postgres or a SQLite file"),
]


@pytest.mark.parametrize(("entry", "advice"), WRONG)
def test_a_database_that_cannot_hold_receipts_is_refused(
    request: pytest.FixtureRequest, entry: dict[str, object], advice: str
) -> None:
    with (
        project(ledger_of("sqlite", request), **entry),
        pytest.raises(ConfigurationError, match=advice),
    ):
        DjangoReceipts()


def test_a_file_of_that_name_is_not_taken_for_memory(request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue("tmp_path") / "memory:"
    folder.mkdir()
    ledger = Ledger(f"sqlite:///{folder}/memory.db")
    ledger.create()
    with project(ledger) as site:
        app = site.protect(write)
        assert [serve(app).brief for _ in range(2)] == [FRESH, REPLAY]
