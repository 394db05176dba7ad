"""What the README says: its snippets run, its lengths are kept, its tables are complete."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from replayfloor.core.problem import Problem, ProblemKind
from support.services.server import free_port
from webhooks.signing import stripe

PROJECT = Path(__file__).resolve().parent.parent
README = (PROJECT / "README.md").read_text(encoding="utf-8")
SNIPPET_LINES_MAX = 18
START_S = 30.0


def snippet(title: str) -> str:
    """Return the Python code under a heading."""
    section = README.split(f"\n## {title}\n")[1].split("\n## ")[0]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found.group(1)


UVICORN = ["uvicorn", "readme_server:app", "--port", "{port}"]
GUNICORN = ["gunicorn", "readme_server:app", "--threads", "4", "--bind", "127.0.0.1:{port}"]


@pytest.fixture(params=["Server", "Flask and Django"])
def server_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A server of the README, in a folder of its own with the table it writes to."""
    (tmp_path / "readme_server.py").write_text(snippet(request.param), encoding="utf-8")
    with closing(sqlite3.connect(tmp_path / "payments.db", isolation_level=None)) as database:
        database.execute("create table ledger (amount integer)")
    port = free_port()
    server = GUNICORN if request.param == "Flask and Django" else UVICORN
    command = [sys.executable, "-m", *(part.format(port=port) for part in server)]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + START_S
    try:
        while True:
            try:
                httpx.get(url)
                break
            except httpx.HTTPError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait(15)


def test_the_retention_that_is_derived_is_the_one_that_is_shown() -> None:
    done = subprocess.run(
        [sys.executable, "-c", snippet("Retention")],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert done.stdout == "72 h + 12 h = 84 h 302400.0\n"


def test_the_snippets_run_and_a_client_started_twice_charges_once(
    server_url: str, tmp_path: Path
) -> None:
    client = snippet("Client").replace("http://127.0.0.1:8000", server_url)
    assert client != snippet("Client")
    for _ in range(2):
        subprocess.run([sys.executable, "-c", client], cwd=tmp_path, check=True, timeout=60)

    with closing(sqlite3.connect(tmp_path / "payments.db", isolation_level=None)) as database:
        assert database.execute("select amount from ledger").fetchall() == [(4200,)]


@pytest.mark.parametrize("server_url", ["Webhooks"], indirect=True)
def test_the_snippet_of_webhooks_applies_an_event_once(server_url: str, tmp_path: Path) -> None:
    told = {"id": "evt_1", "created": int(time.time()), "data": {"object": {"amount": 4200}}}
    body = json.dumps(told).encode()
    for attempt in range(2):
        headers = dict(stripe(body, "whsec_...", at_s=int(time.time()) + attempt))
        answer = httpx.post(f"{server_url}/hooks/stripe", content=body, headers=headers)
        assert answer.status_code == 200

    with closing(sqlite3.connect(tmp_path / "payments.db", isolation_level=None)) as database:
        assert database.execute("select amount from ledger").fetchall() == [(4200,)]


@pytest.mark.parametrize("title", ["Server", "Flask and Django", "Client", "Webhooks"])
def test_a_snippet_is_short(title: str) -> None:
    assert len(snippet(title).splitlines()) <= SNIPPET_LINES_MAX


@pytest.mark.parametrize("kind", list(ProblemKind))
def test_every_refusal_is_in_the_table_with_its_status(kind: ProblemKind) -> None:
    status = Problem(kind, "").status

    assert re.search(rf"^\| {status} `{kind.value}`", README, re.MULTILINE), kind


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\bmake ([a-z-]+)", README))))
def test_every_make_target_it_names_exists(target: str) -> None:
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")

    assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE)


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`replayfloor ([a-z]+)", README))))
def test_every_command_it_names_exists(command: str) -> None:
    arguments = [sys.executable, "-m", "replayfloor.cli", command, "--help"]
    done = subprocess.run(arguments, capture_output=True, check=False, timeout=60)

    assert done.returncode == 0, done.stderr
