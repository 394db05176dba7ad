"""What of a request counts, over WSGI: key lines, paths, mount points, owners."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from replayfloor.core.problem import ProblemKind
from replayfloor.server import Route
from server.wsgi_client import Worker, environ, serve
from server.wsgi_server import Environ, StartResponse

FRESH, REPLAY = (201, None, False), (201, None, True)
REUSED = (422, ProblemKind.KEY_REUSED, False)
MISSING = (400, ProblemKind.MISSING_KEY, False)


@pytest.mark.parametrize(
    "key",
    ['"a","a"', '"a", "b"', "", "a", '"a', '"caf\xe9"', '"caf\xc3\xa9"', '"' + "x" * 256 + '"'],
)
def test_lines_that_a_server_has_joined_and_other_malformed_keys_are_refused(
    worker: Worker, key: str
) -> None:
    """CGI has one variable for a field: servers join its lines with commas (RFC 9110, 5.3)."""
    answer = serve(worker.protect(worker.answering()), environ(key=key))

    assert answer.brief == (400, ProblemKind.INVALID_KEY, False)
    assert worker.rows == 0


def test_a_route_is_found_by_its_path_in_any_script(worker: Worker) -> None:
    routes = [Route("POST", "/café/{name}", required=True)]
    app = worker.protect(worker.answering(), routes=routes)

    assert serve(app, environ(key=None, path="/café/straße")).brief == MISSING
    assert serve(app, environ(key=None, path="/cafe/straße")).brief == FRESH


def test_a_path_that_is_no_utf8_is_an_answer_and_no_error(worker: Worker) -> None:
    app = worker.protect(worker.answering(), routes=[Route("POST", "/pay", required=True)])

    answers = [serve(app, environ(PATH_INFO="/pay\xff\xfe")).brief for _ in range(2)]
    other = serve(app, environ(PATH_INFO="/pay\xff\xfd"))

    assert answers == [FRESH, REPLAY]
    assert other.brief == REUSED


def test_a_route_is_found_below_the_mount_point(worker: Worker) -> None:
    app = worker.protect(worker.answering(), routes=[Route("POST", "/pay", required=True)])

    assert serve(app, environ(key=None, SCRIPT_NAME="/api", PATH_INFO="/pay")).brief == MISSING
    assert serve(app, environ(key=None, PATH_INFO="/api/pay")).brief == FRESH


def test_where_an_application_is_mounted_makes_another_request(worker: Worker) -> None:
    app = worker.protect(worker.answering())

    mounts = ("/v1", "/v2", "/v1")
    answers = [serve(app, environ(SCRIPT_NAME=mount)).brief for mount in mounts]

    assert answers == [FRESH, REUSED, REPLAY]


def test_a_mount_point_and_the_same_path_without_one_are_the_same_request(worker: Worker) -> None:
    """A retry may come over a server that is mounted otherwise: the client sent the same target."""
    app = worker.protect(worker.answering())

    first = serve(app, environ(SCRIPT_NAME="/api", PATH_INFO="/pay"))
    again = serve(app, environ(PATH_INFO="/api/pay"))

    assert (first.brief, again.brief) == (FRESH, REPLAY)


def test_the_query_counts_byte_for_byte(worker: Worker) -> None:
    app = worker.protect(worker.answering())

    answers = [serve(app, environ(QUERY_STRING=query)).brief for query in ("a=%C3%A9", "a=%c3%a9")]

    assert answers == [FRESH, REUSED]


def test_the_principal_is_asked_with_the_environ_and_only_for_a_key(worker: Worker) -> None:
    def owner(request: Environ) -> str:
        return str(request["REMOTE_USER"])

    app = worker.protect(worker.answering(), principal=owner)

    users = ("one", "two", "one")
    answers = [serve(app, environ(REMOTE_USER=user)).brief for user in users]

    assert answers == [FRESH, FRESH, REPLAY]
    assert serve(app, environ(key=None)).brief == FRESH


def test_the_claim_is_in_the_environ(worker: Worker) -> None:
    found: list[object] = []

    def app(request: Environ, start_response: StartResponse) -> Iterable[bytes]:
        found.append(request["replayfloor.claim"])
        return worker.answering()(request, start_response)

    serve(worker.protect(app))

    (claim,) = found
    assert len(getattr(claim, "id", "")) == 32
    assert (getattr(claim, "taken_over", None), getattr(claim, "lost", None)) == (False, False)
