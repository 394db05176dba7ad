"""`replayfloor inbox …`: what a person sees, decides, and what becomes of it."""

from __future__ import annotations

import json

import pytest

from replayfloor.core.claims import Fence
from replayfloor.server.stores.inbox_blocking import PostgresInbox
from replayfloor.server.stores.inbox_records import InboxStats, inbox_stats
from replayfloor.server.webhooks.inbox.effects import Bury, Later
from replayfloor.testing.inbox_subject import LONG_MS, new_fence
from server.cli_databases import run
from webhooks.inbox_crews import item
from webhooks.inboxes import Database

NOBODY = "postgresql://u:s3cret@127.0.0.1:1/d"  # nothing listens on port 1


@pytest.fixture
def database(inbox_url: str) -> Database:
    """An inbox with events that wait, one in work, and one that is dead."""
    database = Database(inbox_url)
    names = ("dead", "later", "running", "waiting")
    database.put(*map(item, names))
    inbox = PostgresInbox(inbox_url, namespace="default", workers=1)
    taken = [inbox.take(new_fence(), LONG_MS) for _ in range(3)]
    first, second = taken[0], taken[1]
    assert first is not None
    assert second is not None
    inbox.bury(Bury(first.id, Fence(first.fence), "status 500 after \x1b[31mError"))
    inbox.later(Later(second.id, second.fence, LONG_MS, "KeyError"))
    inbox.close()
    return database


def id_of(database: Database, event_id: str) -> str:
    """Return the hex id of an event."""
    query = "select replace(id::text, '-', '') from replayfloor.inbox where event_id = %s"
    ((found,),) = database.run(query, event_id)
    return str(found)


def test_the_list_begins_with_the_numbers_of_all(database: Database) -> None:
    done = run("inbox", "list", database.url)

    assert done.code == 0
    assert done.lines[0].startswith("waiting 2, running 1, dead 1; the oldest for 0:00:")
    assert done.lines[1].split()[:5] == ["ID", "STATE", "SOURCE", "AGE", "ATTEMPTS"]
    rows = [line.split() for line in done.lines[2:]]
    assert [(row[1], row[2], row[4], row[5]) for row in rows] == [
        ("dead", "shop", "1", "dead"),
        ("waiting", "shop", "1", "later"),
        ("running", "shop", "1", "running"),
        ("waiting", "shop", "0", "waiting"),
    ]
    assert "\x1b" not in done.text
    assert inbox_stats(database.url).waiting == 2


def test_only_the_dead_or_those_of_a_source_are_listed(database: Database) -> None:
    dead = run("inbox", "list", database.url, "--dead", "--json").lines
    others = run("inbox", "list", database.url, "--source", "nobody")

    assert [json.loads(line)["event_id"] for line in dead] == ["dead"]
    assert json.loads(dead[0])["last_error"].startswith("status 500")
    assert others.lines[-1] == "None."


def test_an_event_is_shown_with_its_request_and_without_its_secrets(database: Database) -> None:
    id_ = id_of(database, "dead")
    done = run("inbox", "show", database.url, id_[:8])
    whole = run("inbox", "show", database.url, id_, "--body")

    assert done.code == 0
    assert f"id           {id_}" in done.lines
    assert "request      POST /hooks/café?a=%20&a=2" in done.lines
    assert '{"id": "dead"}' not in done.text
    assert '{"id": "dead"}' in whole.text
    assert json.loads(run("inbox", "show", database.url, id_, "--json").text)["state"] == "dead"


def test_what_is_not_there_is_said_so(database: Database) -> None:
    for command in (("show",), ("retry", "--yes"), ("drop", "--reason", "r", "--yes")):
        done = run("inbox", command[0], database.url, "0" * 32, *command[1:])

        assert (done.code, done.text) == (1, "")
        assert "no such event" in done.err


def test_a_dead_event_is_due_again_and_it_is_noted_who_wanted_it(database: Database) -> None:
    id_ = id_of(database, "dead")
    done = run("inbox", "retry", database.url, id_, "--note", "n", "--by", "me", "--yes")

    assert done.code == 0
    assert "was not applied" in done.text
    assert database.left()["dead"][:2] == ("waiting", 0)
    ((action, by, detail),) = database.run("select action, by_whom, detail from replayfloor.audit")
    assert (action, by) == ("inbox retry", "me")
    assert str(detail).startswith("shop; dead; status 500")


def test_an_event_that_waits_for_its_next_attempt_is_due_at_once(database: Database) -> None:
    run("inbox", "retry", database.url, id_of(database, "later"), "--yes")
    query = "select due_at <= now() from replayfloor.inbox where event_id = 'later'"

    assert database.run(query) == [(True,)]


def test_all_dead_events_of_a_source_are_due_again(database: Database) -> None:
    none = run("inbox", "retry", database.url, "--dead", "--source", "nobody", "--yes")
    done = run("inbox", "retry", database.url, "--dead", "--source", "shop", "--yes")

    assert none.lines[-1] == "0 are due now."
    assert done.lines[-1] == "1 are due now."
    assert inbox_stats(database.url).dead == 0


def test_a_person_who_says_no_changes_nothing(database: Database) -> None:
    done = run("inbox", "retry", database.url, id_of(database, "dead"), stdin="n\n")

    assert done.code == 1
    assert inbox_stats(database.url).dead == 1


def test_a_dropped_event_is_gone_and_the_reason_stays(database: Database) -> None:
    id_ = id_of(database, "dead")
    unsure = run("inbox", "drop", database.url, id_, "--reason", "refunded by hand")
    before = inbox_stats(database.url).dead
    done = run("inbox", "drop", database.url, id_, "--reason", "refunded by hand", "--yes")

    assert (unsure.code, before) == (2, 1)
    assert done.code == 0
    assert "dead" not in database.left()
    ((action, detail),) = database.run("select action, detail from replayfloor.audit")
    assert action == "inbox drop"
    assert str(detail).endswith("refunded by hand")


def test_an_event_that_is_in_work_is_left_alone(database: Database) -> None:
    id_ = id_of(database, "running")
    for command in (("retry", "--yes"), ("drop", "--reason", "r", "--yes")):
        done = run("inbox", command[0], database.url, id_, *command[1:])

        assert done.code == 1
        assert "a worker has it" in done.err
    assert database.left()["running"] == ("waiting", 1, "")
    assert database.run("select action from replayfloor.audit") == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("list", "sqlite:///r.db"), 2),
        (("list", "mysql://h/d"), 2),
        (("retry", NOBODY), 2),
        (("retry", NOBODY, "0" * 32, "--dead", "--source", "s"), 2),
        (("retry", NOBODY, "--dead"), 2),
        (("show", NOBODY, "xyz"), 2),
        (("drop", NOBODY, "0" * 32, "--reason", " "), 2),
        (("stats", NOBODY), 1),
    ],
)
def test_failures_are_exit_codes_by_fault(arguments: tuple[str, ...], code: int) -> None:
    done = run("inbox", *arguments)

    assert done.code == code
    assert "s3cret" not in done.err
    assert done.err


def test_the_numbers_of_an_empty_inbox(inbox_url: str) -> None:
    done = run("inbox", "stats", inbox_url, "--json")

    assert json.loads(done.text) == {"waiting": 0, "running": 0, "dead": 0, "oldest_s": None}
    assert inbox_stats(inbox_url) == InboxStats(0, 0, 0, None)
    assert run("inbox", "stats", inbox_url).lines == ["waiting 0, running 0, dead 0"]
