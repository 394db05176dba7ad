"""The WSGI middleware under gunicorn with threads, around Flask and Django."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from replayfloor.core.problem import ProblemKind
from server.backends import Ledger, empty
from server.served_wsgi import BODY_BYTES_MAX, LEASE_S
from server.wire import Answer
from support.services import Services
from support.services.server import LOOPBACK, free_port

TESTS = Path(__file__).parents[1]
MANY = 32
START_S = STOP_S = 30.0
FRESH, REPLAY = (201, None, False), (201, None, True)
IN_FLIGHT = (409, ProblemKind.IN_FLIGHT, False)
both_effects = pytest.mark.parametrize("path", ["/atomic", "/external"])


@dataclass(frozen=True)
class Site:
    """A server of the application, with more than one worker."""

    port: int
    folder: Path
    ledger: Ledger

    def connect(self) -> http.client.HTTPConnection:
        """Return a connection that is kept alive."""
        return http.client.HTTPConnection(LOOPBACK, self.port, timeout=20)

    def pay(self, payment: str, path: str = "/external", **headers: str) -> Answer:
        """Send one payment, under a key of the same name."""
        with contextlib.closing(self.connect()) as connection:
            return post(connection, payment, path, None, **headers)

    def executed(self, payment: str) -> int:
        """Return how often a payment was executed."""
        return Counter(self.ledger.rows())[payment]

    def worker_of(self, payment: str) -> int:
        """Wait until a handler of a payment pauses, and return its process."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            with contextlib.suppress(FileNotFoundError, ValueError):
                return int((self.folder / payment).read_text())
            time.sleep(0.005)
        raise AssertionError("no handler came so far")


def post(
    connection: http.client.HTTPConnection,
    payment: str,
    path: str = "/external",
    body: bytes | Iterator[bytes] | None = None,
    **headers: str,
) -> Answer:
    """Send one payment over a connection, and read its answer to the end."""
    content = json.dumps({"payment": payment}).encode() if body is None else body
    sent = {"Idempotency-Key": f'"{payment}"', "Content-Type": "application/json"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("POST", path, content, sent)
    response = connection.getresponse()
    read = tuple((k.encode("latin-1"), v.encode("latin-1")) for k, v in response.getheaders())
    return Answer(response.status, read, response.read())


@pytest.fixture(scope="module", params=["flask_app", "django_app"])
def site(
    request: pytest.FixtureRequest,
    services: Services,
    migrated_url: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Site]:
    """One gunicorn for all tests; each has keys and payments of its own."""
    empty(migrated_url)
    folder = tmp_path_factory.mktemp("gunicorn")
    site = Site(free_port(), folder, Ledger(migrated_url))
    arguments = [
        "gunicorn", f"server.served_wsgi:{request.param}()", "--bind", f"{LOOPBACK}:{site.port}",
        "--worker-class", "gthread", "--workers", "2", "--threads", str(MANY),
        "--preload", "--keep-alive", "10", "--graceful-timeout", "1", "--log-level", "warning",
    ]  # fmt: skip
    environment = os.environ | {
        "PYTHONPATH": str(TESTS),
        "HOME": str(folder),
        "SERVED_RECEIPTS": migrated_url,
        "SERVED_LOCK": services.redis.database(),
        "SERVED_FOLDER": str(folder),
    }
    with (folder / "log").open("wb") as log:
        program = [sys.executable, "-m", *arguments]
        server = subprocess.Popen(program, cwd=TESTS, env=environment, stdout=log, stderr=log)
        services.site.watchdog.add(server.pid)
        try:
            _wait_until_served(site, server)
            yield site
        finally:
            server.terminate()
            server.wait(STOP_S)
            services.site.watchdog.drop(server.pid)


def _wait_until_served(site: Site, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(OSError):
            site.pay("warm")
            return
        time.sleep(0.02)
    raise RuntimeError((site.folder / "log").read_text())


@both_effects
def test_of_many_duplicates_at_once_one_is_executed(site: Site, path: str) -> None:
    payment = "many" + path[1:]

    with ThreadPoolExecutor(MANY) as threads:
        futures = [threads.submit(site.pay, payment, path, X_Pause_S="0.2") for _ in range(MANY)]
        answers = [future.result() for future in futures]
    again = site.pay(payment, path)

    assert Counter(answer.brief for answer in answers)[FRESH] == 1
    assert {answer.brief for answer in answers} <= {FRESH, REPLAY, IN_FLIGHT}
    assert again.brief == REPLAY
    assert site.executed(payment) == 1


@pytest.mark.parametrize(
    ("path", "after"),
    [("/atomic", (201, None)), ("/external", (409, ProblemKind.OUTCOME_UNKNOWN))],
)
def test_a_worker_that_is_killed_in_its_handler_leaves_no_doubt(
    site: Site, path: str, after: object
) -> None:
    payment = "killed" + path[1:]

    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(site.pay, payment, path, X_Pause_S="30")
        os.kill(site.worker_of(payment), signal.SIGKILL)
        with pytest.raises((OSError, http.client.HTTPException)):
            first.result()
    answers = [_soon(site, payment, path)]
    deadline = time.monotonic() + 10 * LEASE_S
    while answers[-1].brief == IN_FLIGHT and time.monotonic() < deadline:
        time.sleep(LEASE_S / 4)
        answers.append(_soon(site, payment, path))

    assert {each.brief for each in answers[:-1]} <= {IN_FLIGHT}
    assert (answers[-1].status, answers[-1].problem) == after
    assert site.executed(payment) == 1


def _soon(site: Site, payment: str, path: str) -> Answer:
    """Send it again; a connection that the dead worker had taken is refused or cut."""
    for _ in range(50):
        with contextlib.suppress(OSError, http.client.HTTPException):
            return site.pay(payment, path)
        time.sleep(0.02)
    raise AssertionError("nobody answers")


def test_a_connection_that_is_kept_alive_stays_in_step(site: Site) -> None:
    """Replays and refusals are answered without the application having read the body."""
    large = b"x" * (BODY_BYTES_MAX + 1)
    with contextlib.closing(site.connect()) as connection:
        first = post(connection, "step-1")
        answers = [
            post(connection, "step-1"),
            post(connection, "step-1", body=b'{"payment": "another"}'),
            post(connection, "step-2", body=large),
            post(connection, "step-2", body=iter([large, large])),
            post(connection, "step-3", Idempotency_Key="malformed"),
            post(connection, "step-4", body=iter([b'{"payment": ', b'"step-4"}'])),
            post(connection, "step-4"),
            post(connection, "step-1"),
        ]

    assert first.brief == FRESH
    assert [(each.status, each.problem) for each in answers] == [
        (201, None),
        (422, ProblemKind.KEY_REUSED),
        (413, ProblemKind.BODY_TOO_LARGE),
        (413, ProblemKind.BODY_TOO_LARGE),
        (400, ProblemKind.INVALID_KEY),
        (201, None),
        (201, None),
        (201, None),
    ]
    assert answers[0].body == answers[-1].body == first.body
    assert answers[5].body == answers[6].body
    assert [site.executed(f"step-{n}") for n in (1, 2, 3, 4)] == [1, 0, 0, 1]


def test_two_owners_of_one_key_do_not_meet(site: Site) -> None:
    answers = [site.pay("owned", X_User=user) for user in ("one", "two", "one")]

    assert [each.brief for each in answers] == [FRESH, FRESH, REPLAY]
    assert answers[0].body == answers[2].body != answers[1].body
    assert site.executed("owned") == 2
