"""Django's connections: made as DATABASES says, and kept and closed as without us."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, cast

import pytest
from django import VERSION
from django.db import (
    close_old_connections,
    connection,
    connections,
)
from django.http import HttpRequest, HttpResponse
from psycopg import IsolationLevel

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.adapters.django import DjangoReceipts
from server.adapters_common import (
    FRESH,
    REPLAY,
    UNAVAILABLE,
    ledger_of,
)
from server.backends import Ledger
from server.django_projects import (
    check_as_before,
    closes_its_connection,
    fails,
    is_closed,
    kill,
    project,
    session_of_the_view,
    write,
)
from server.wsgi_client import environ, serve

if TYPE_CHECKING:
    from server.adapters_django import Site


KEPT: dict[str, object] = {"CONN_MAX_AGE": None}
CHECKED: dict[str, object] = {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True}


@pytest.fixture
def postgres(emptied_url: str) -> Iterator[Site]:
    """The project on Postgres."""
    with project(Ledger(emptied_url)) as made:
        yield made


# -- between requests -----------------------------------------------------------------------------


def answers_503(_request: HttpRequest) -> HttpResponse:
    write()
    return HttpResponse(status=503)


VIEWS = [write, fails, answers_503]


@pytest.mark.parametrize("view", [*VIEWS, closes_its_connection])
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
