"""`replayfloor inbox work`: an application's inbox in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from anyio import to_thread

from replayfloor.core.errors import UsageError
from replayfloor.server.webhooks.inbox.standalone import find_middleware, run_inbox
from server.cli_databases import run
from webhooks import inbox_apps
from webhooks.inbox_crews import item
from webhooks.inboxes import Database, until

pytestmark = pytest.mark.anyio

TESTS = Path(__file__).resolve().parent.parent


@pytest.fixture
def database(inbox_url: str) -> Database:
    """An inbox with one event."""
    database = Database(inbox_url)
    database.put(item("evt_1"))
    return database


@contextmanager
def working(database: Database, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command in a process."""
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [sys.executable, "-m", "replayfloor.cli", "inbox", "work", name, "--workers", "2"],
        env={**os.environ, "PYTHONPATH": path, "INBOX_URL": database.url},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["starlette_app", "wrapped_app", "wsgi_app", "flask_like"])
async def test_an_applications_inbox_is_applied_until_sigterm(
    database: Database, name: str
) -> None:
    with working(database, f"webhooks.inbox_apps:{name}") as process:
        await until(lambda: database.applied() == ["evt_1"], 60)
        process.send_signal(signal.SIGTERM)
        assert await to_thread.run_sync(process.wait, 30) == 0
    asgi = name in ("starlette_app", "wrapped_app")

    assert database.runs() == ["from the lifespan" if asgi else "threads"]


def test_the_middleware_is_found_however_deep_it_is() -> None:
    for app in (inbox_apps.wrapped_app, inbox_apps.wsgi_app, inbox_apps.flask_like):
        assert find_middleware(app) is not None
    assert find_middleware(object()) is None


def test_what_is_no_application_of_ours_is_refused() -> None:
    async def bare(_scope: object, _receive: object, _send: object) -> None:
        return

    for app in (bare, 5):
        with pytest.raises(UsageError):
            run_inbox(app)
    assert run("inbox", "work", "webhooks.inbox_apps:nothing").code == 2
