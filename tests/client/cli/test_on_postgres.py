"""The commands on a journal in Postgres, which several machines share: the same, and no DDL."""

from __future__ import annotations

import sys
from pathlib import Path

import psycopg
import pytest

from client.cli.commands import (
    BODY,
    DAY_S,
    Place,
    finish,
    lose_answer,
    pay,
    run,
    shop_options,
    start_and_kill,
)
from client.loopback import Loopback
from replayfloor.client import OperationClosed
from replayfloor.core.journal import OperationState

OPS = """
import httpx
from replayfloor.client import IdempotentTransport, Profile

def resend(operation):
    transport = IdempotentTransport(
        profile=Profile(name="shop", retention_s=86_400.0), journal={journal!r}
    )
    with httpx.Client(transport=transport) as client:
        client.post(
            operation.url,
            content=b'{{"amount": 4200}}',
            headers={{"Content-Type": "application/json"}},
            extensions={{"idempotency": {{"operation_id": operation.operation_id}}}},
        )
"""


@pytest.fixture
def shared(postgres_url: str) -> Place:
    """A database without a journal."""
    return Place(postgres_url)


def schemas(place: Place) -> list[str]:
    """Return the schemas of ours in the database."""
    with psycopg.connect(place.url) as connection:
        found = connection.execute(
            "select nspname from pg_namespace where nspname like 'replayfloor%'"
        )
        return [str(name) for (name,) in found.fetchall()]


def test_what_a_killed_process_left_is_listed_explained_and_sent_once(
    shared: Place, loopback: Loopback, tmp_path: Path
) -> None:
    key = start_and_kill(shared, loopback, "invoice-1", age_s=3600)

    listed = run("pending", shared.url, "--json").object
    shown = run("show", shared.url, "invoice-1")
    done = run("resume", shared.url, "invoice-1", *shop_options(tmp_path))

    assert f'"{listed["key"]}"' == key
    assert "NOT KNOWN" in shown.text
    assert (done.code, done.lines[0]) == (0, "status 201")
    assert loopback.keys() == [key]
    assert loopback.bodies() == [BODY]
    assert shared.state("invoice-1") is OperationState.DONE


def test_another_body_and_a_passed_deadline_send_nothing(
    shared: Place, loopback: Loopback, tmp_path: Path
) -> None:
    lose_answer(shared, loopback, "young")
    lose_answer(shared, loopback, "over", age_s=2 * DAY_S)

    wrong = run("resume", shared.url, "young", *shop_options(tmp_path, b"other"))
    late = run("resume", shared.url, "over", *shop_options(tmp_path))

    assert (wrong.code, late.code) == (1, 1)
    assert "It differs in: body" in wrong.err
    assert loopback.received == []
    assert shared.state("over") is OperationState.UNKNOWN_FINAL


def test_what_is_closed_is_not_sent_and_a_live_lease_is_respected(
    shared: Place, loopback: Loopback
) -> None:
    lose_answer(shared, loopback, "invoice-1")
    start_and_kill(shared, loopback, "held", lease_s=600)
    words = ("--not-executed", "--note", "ticket 7")

    closed = run("close", shared.url, "invoice-1", *words)
    held = run("close", shared.url, "held", *words)
    with shared.client() as client, pytest.raises(OperationClosed, match="ticket 7"):
        pay(client, loopback.url(), "invoice-1")

    assert (closed.code, held.code) == (0, 1)
    assert loopback.received == []
    assert shared.state("held") is OperationState.OPEN


def test_a_function_resumes_and_what_is_old_is_pruned(
    shared: Place, loopback: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish(shared, loopback, "old", age_s=40 * DAY_S)
    lose_answer(shared, loopback, "invoice-1")
    (tmp_path / "client_ops_postgres.py").write_text(OPS.format(journal=shared.url))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    resumed = run("resume", shared.url, "--with", "client_ops_postgres:resend")
    tried = run("prune", shared.url, "--dry-run")
    pruned = run("prune", shared.url)

    assert resumed.code == 0
    assert len(loopback.received) == 1
    assert tried.text.startswith("Would remove 1 ")
    assert pruned.text.startswith("Removed 1 ")
    with shared.opened() as journal:
        assert [entry.operation_id for entry in journal.history()] == ["invoice-1"]


def test_a_look_makes_no_journal_in_a_database_and_migrate_does(shared: Place) -> None:
    looks = [
        run("pending", shared.url),
        run("show", shared.url, "invoice-1"),
        run("prune", shared.url),
        run("close", shared.url, "invoice-1", "--executed", "--note", "n"),
    ]
    assert [each.code for each in looks] == [1, 1, 1, 1]
    assert {each.err for each in looks} == {
        "There is no journal in this database. Nothing was made.\n"
    }
    assert schemas(shared) == []

    made, again = run("migrate", shared.url), run("migrate", shared.url)

    assert (made.code, again.code) == (0, 0)
    assert "was made" in made.text
    assert "nothing to do" in again.text
    assert schemas(shared) == ["replayfloor_client"]
    assert run("pending", shared.url).text == "None.\n"


@pytest.mark.parametrize("command", ["pending", "migrate"])
def test_a_database_that_is_away_is_told_without_its_password(command: str) -> None:
    done = run(command, "postgresql://u:s3cret@127.0.0.1:1/d")

    assert done.code == 1
    assert done.err
    assert "s3cret" not in done.err + done.text
    wrong = run(command, "postgresql://u:s3cret@[h/d")
    assert wrong.code == 2
    assert "s3cret" not in wrong.err + wrong.text
