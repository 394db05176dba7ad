"""A process that forks after its store was opened: gunicorn --preload does that."""

from __future__ import annotations

import subprocess
import sys

import pytest

from replayfloor.server.stores.migrate import migrate

SCRIPT = """
import os, sys
from replayfloor.core.claims import Claim
from replayfloor.core.errors import StoreUnavailable
from replayfloor.server.stores import open_receipts

CLAIMS = 200
store = open_receipts(sys.argv[1])

def claim(key, fence):
    fences = bytes(15) + bytes([fence])
    return type(store.claim(Claim(key.to_bytes(16), fences, fences, 60000))).__name__

assert claim(0, 0) == "Claimed"
if "in a transaction" in sys.argv:
    handlers = store.begin()
    handlers.connection.execute("select 1")  # on SQLite the handler is the one who writes now
child = os.fork()
if child == 0:
    # Answers that the parent never gets: to read its would show.
    try:
        done = {claim(0, 1) for _ in range(CLAIMS)} == {"InFlight"}
    except StoreUnavailable as error:
        done = "in a transaction" in sys.argv and "forked" in str(error)
        store.close()
        store = open_receipts(sys.argv[1])
        try:
            claim(0, 1)
            done = False  # SQLite would wait for the locks that it was copied with
        except StoreUnavailable as error:
            done = done and "forked" in str(error)
    store.close()
    os._exit(0 if done else 1)
if "in a transaction" in sys.argv:
    handlers.rollback()
answers = {claim(number, 0) for number in range(1, CLAIMS)}
_, status = os.waitpid(child, 0)
print(answers, status, claim(0, 0))
store.close()
"""


@pytest.fixture(params=["postgres", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a store that is ready."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path_factory.mktemp('fork') / 'receipts.db'}"
    url: str = request.getfixturevalue("postgres_url")
    migrate(url)
    return url


@pytest.mark.parametrize("when", ["idle", "in a transaction"])
def test_parent_and_child_use_connections_of_their_own(url: str, when: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "ignore::DeprecationWarning", "-c", SCRIPT, url, when],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert done.stdout == "{'Claimed'} 0 Claimed\n", done.stderr
