"""`replayfloor client pending` and `show`: what a crash left is listed, and explained, and kept."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from client.cli.commands import (
    DAY_S,
    SHOP,
    Place,
    finish,
    lose_answer,
    pay,
    run,
    start_and_kill,
)
from client.loopback import Loopback, Reply, closed_port
from replayfloor.client import OutcomeUnknown, Profile
from replayfloor.client.profile_answers import GENERIC
from replayfloor.core.journal import OperationState


def test_what_a_killed_process_left_is_listed_with_all_that_is_known(
    place: Place, loopback: Loopback
) -> None:
    key = start_and_kill(place, loopback, "invoice-1", age_s=3600)

    done = run("pending", place.url, "--json")

    assert done.code == 0
    shown = done.object
    assert shown["operation_id"] == "invoice-1"
    assert f'"{shown["key"]}"' == key
    assert (shown["provider"], shown["namespace"]) == ("shop", "shop")
    assert (shown["method"], shown["url"]) == ("POST", loopback.url())
    assert shown["outcome"] == "unknown"
    assert (shown["state"], shown["attempts"], shown["resumable"]) == ("open", 1, True)
    assert isinstance(shown["elapsed_s"], float)
    assert 3600 <= shown["elapsed_s"] < 3700
    first = datetime.fromisoformat(str(shown["first_attempt_at"]))
    assert 3600 <= (datetime.now(UTC) - first).total_seconds() < 3700
    until = datetime.fromisoformat(str(shown["retry_until"]))
    assert (until - first).total_seconds() == pytest.approx(DAY_S * 0.98)
    assert len(loopback.received) == 0


def test_the_table_has_a_line_for_each_with_what_to_do(place: Place, loopback: Loopback) -> None:
    lose_answer(place, loopback, "old", age_s=30 * 3600)
    lose_answer(place, loopback, "young")
    finish(place, loopback, "done")
    loopback.received.clear()

    done = run("pending", place.url)

    assert done.code == 0
    header, old, young = done.lines
    assert "DEADLINE" in header
    assert old.startswith("old ")
    assert "over for" in old
    assert old.endswith("do not send it again: find out, then close")
    assert young.startswith("young ")
    assert "23 h 31 min (100%)" in young
    assert young.endswith("resume")
    assert loopback.received == []


def test_a_live_lease_is_told_and_nobody_is_advised_to_send(
    place: Place, loopback: Loopback
) -> None:
    start_and_kill(place, loopback, "invoice-1", lease_s=60)

    (_, line) = run("pending", place.url).lines
    shown = run("show", place.url, "invoice-1")

    assert "wait: it is being sent, or its process died" in line
    assert "Wait until" in shown.text
    assert "client resume" not in shown.text


def test_the_filters_choose_what_may_be_sent_and_what_may_not(
    place: Place, loopback: Loopback
) -> None:
    lose_answer(place, loopback, "over", age_s=30 * 3600)
    lose_answer(place, loopback, "young")
    with place.client() as client, pytest.raises(OutcomeUnknown):
        pay(client, loopback.url(), "over")
    assert place.state("over") is OperationState.UNKNOWN_FINAL

    def ids(*options: str) -> list[object]:
        return [
            each["operation_id"] for each in run("pending", place.url, "--json", *options).objects
        ]

    assert ids() == ids("--all") == ["over", "young"]
    assert ids("--unknown") == ["over"]
    assert ids("--resumable") == ["young"]
    assert ids("--namespace", "other") == []
    assert ids("--limit", "1") == ["over"]
    assert "1 more are not shown" in run("pending", place.url, "--limit", "1").err
    assert run("pending", place.url, "--unknown", "--resumable").code == 2


@pytest.mark.parametrize(
    ("age_s", "code"), [(0.0, 0), (0.48 * DAY_S, 0), (0.5 * DAY_S, 1), (2 * DAY_S, 1)]
)
def test_the_check_is_silent_for_what_is_young_and_fails_from_half_of_the_time_on(
    age_s: float, code: int, place: Place, loopback: Loopback
) -> None:
    finish(place, loopback, "done", age_s=2 * DAY_S)
    assert run("pending", place.url, "--check").code == 0
    lose_answer(place, loopback, "invoice-1", age_s=age_s)

    assert run("pending", place.url).code == 0
    assert run("pending", place.url, "--check").code == code
    assert run("pending", place.url, "--check", "--namespace", "other").code == 0


def test_the_check_fails_for_a_key_that_will_never_tell(place: Place, loopback: Loopback) -> None:
    lose_answer(place, loopback, "invoice-1")
    loopback.script(Reply(500, (("Idempotent-Replayed", "true"),), b""))
    burning = replace(SHOP, answers=replace(GENERIC, burnt=frozenset({500})))
    with place.client(burning) as client, pytest.raises(OutcomeUnknown):
        pay(client, loopback.url(), "invoice-1")

    assert run("pending", place.url, "--check").code == 1
    assert "the provider repeats a failure under it" in run("show", place.url, "invoice-1").text


def test_an_operation_without_a_profile_is_no_promise_to_send(
    place: Place, loopback: Loopback
) -> None:
    lose_answer(place, loopback, "invoice-1", profile=None)

    shown = run("pending", place.url, "--json").object
    told = run("show", place.url, "invoice-1")

    assert (shown["resumable"], shown["retention_s"]) == (False, None)
    assert run("pending", place.url, "--check").code == 1
    assert "not known, nor whether it looks at it" in told.text
    assert "do not send it again" in told.text.lower()


# -- show -----------------------------------------------------------------------------------------


def test_show_says_of_a_crash_that_the_outcome_is_not_known_and_how_to_go_on(
    place: Place, loopback: Loopback
) -> None:
    key = start_and_kill(place, loopback, "invoice 1", age_s=60)

    done = run("show", place.url, "invoice 1")

    assert done.code == 0
    assert key.strip('"') in done.text
    assert f"POST {loopback.url()}" in done.text
    assert "NOT KNOWN" in done.text
    assert "The end of 1 of 1 attempts is not recorded" in done.text
    assert run("show", place.url, "invoice 1", "--json").object["executed"] is None
    assert "replayfloor client resume URL 'invoice 1' --namespace shop --body" in done.text


def test_show_never_says_yes_or_no_of_what_may_have_arrived(
    place: Place, loopback: Loopback
) -> None:
    lose_answer(place, loopback, "over", age_s=30 * 3600)
    before = run("show", place.url, "over").text
    with place.client() as client, pytest.raises(OutcomeUnknown):
        pay(client, loopback.url(), "over")

    text = run("show", place.url, "over").text
    shown = run("show", place.url, "over", "--json").object

    assert "NOT KNOWN" in text
    assert "YES" not in text
    assert "NO." not in text
    assert "the provider may have forgotten it" in text
    assert "the provider may have forgotten it" in before
    assert "neither with this key nor with a new one" in text
    assert "client resume" not in text
    assert "--executed --note" in text
    assert (shown["executed"], shown["state"]) == (None, "unknown_final")


def test_show_says_no_where_nothing_was_executed(place: Place, loopback: Loopback) -> None:
    refused = f"http://127.0.0.1:{closed_port()}/charges"
    with place.client() as client:
        with pytest.raises(Exception, match="refused"):
            pay(client, refused, "unsent")
        loopback.script(Reply(401))
        assert pay(client, loopback.url(), "rejected").status_code == 401

    assert "NO. No attempt left this machine" in run("show", place.url, "unsent").text
    assert "NO. Every attempt was refused" in run("show", place.url, "rejected").text
    assert run("show", place.url, "rejected", "--json").object["executed"] is False


@pytest.mark.parametrize(
    ("status", "said", "executed"),
    [
        (201, "YES. The provider answered with status 201", True),
        (402, "ANSWERED with status 402, which is not a success", None),
        (422, "NO. It was refused with status 422", False),
    ],
)
def test_show_says_what_an_answer_tells(
    status: int, said: str, *, executed: bool | None, place: Place, loopback: Loopback
) -> None:
    loopback.script(Reply(status))
    with place.client() as client:
        assert pay(client, loopback.url(), "invoice-1").status_code == status

    assert said in run("show", place.url, "invoice-1").text
    shown = run("show", place.url, "invoice-1", "--json").object
    assert (shown["executed"], shown["final_status"], shown["state"]) == (executed, status, "done")


def test_one_id_in_several_namespaces_is_asked_for_and_not_chosen(
    place: Place, loopback: Loopback
) -> None:
    for name in ("shop", "bank", "zoo"):
        lose_answer(place, loopback, "invoice-1", profile=Profile(name=name, retention_s=DAY_S))
    lose_answer(place, loopback, "invoice-2")

    several = run("show", place.url, "invoice-1")
    chosen = run("show", place.url, "invoice-1", "--namespace", "bank", "--json")

    assert several.code == 2
    assert several.text == ""
    assert [line for line in several.err.splitlines() if line.startswith("    ")] == [
        f"    --namespace {name}" for name in ("bank", "shop", "zoo")
    ]
    assert chosen.object["namespace"] == "bank"
    assert run("show", place.url, "invoice-2").code == 0
    assert run("show", place.url, "invoice-2", "--namespace", "bank").code == 1


def test_an_id_that_was_never_used_is_not_found(place: Place, loopback: Loopback) -> None:
    finish(place, loopback, "done")

    done = run("show", place.url, "invoice-1")

    assert done.code == 1
    assert "There is no operation 'invoice-1'" in done.err


def test_what_comes_from_outside_cannot_write_to_the_terminal(
    place: Place, loopback: Loopback
) -> None:
    lose_answer(place, loopback, "evil\x1b[2Jid")

    for done in (run("pending", place.url), run("show", place.url, "evil\x1b[2Jid")):
        assert "\x1b" not in done.text
        assert "evil\\x1b[2Jid" in done.text
    assert (
        "URL $'evil\\U0000001b\\U0000005b2Jid' --namespace"
        in run("show", place.url, "evil\x1b[2Jid").text
    )
    assert "\x1b" not in run("show", place.url, "no\x1b[2Jid").err
    assert run("pending", place.url, "--json").object["operation_id"] == "evil\x1b[2Jid"


# -- the journal itself ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        ("pending",),
        ("show", "invoice-1"),
        ("close", "invoice-1", "--executed", "--note", "n"),
        ("resume", "invoice-1", "--body", "/dev/null", "--quoted"),
        ("resume", "--with", "os:getcwd"),
        ("prune",),
        ("prune", "--dry-run"),
    ],
    ids=" ".join,
)
def test_a_journal_that_is_not_there_is_not_made(command: tuple[str, ...], tmp_path: Path) -> None:
    name, *rest = command
    empty = tmp_path / "empty.db"
    empty.touch()

    missing = run(name, f"sqlite:///{tmp_path}/no.db", *rest)
    nothing = run(name, f"sqlite:///{empty}", *rest)

    assert (missing.code, nothing.code) == (1, 1)
    assert "There is no journal at" in missing.err
    assert "no journal" in nothing.err
    assert [path.name for path in tmp_path.iterdir()] == ["empty.db"]
    assert empty.stat().st_size == 0


def test_a_file_of_another_program_is_told_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path)) as theirs:
        theirs.execute("create table t (a)")
        theirs.commit()
    before = path.read_bytes()

    done = run("pending", f"sqlite:///{path}")
    text = tmp_path / "text.db"
    text.write_text("hello")
    odd = run("pending", f"sqlite:///{text}")

    assert done.code == 2
    assert "not a journal" in done.err
    assert odd.code == 1
    assert path.read_bytes() == before
    assert text.read_text() == "hello"


@pytest.mark.parametrize(
    "url", ["memory:", "mysql://u:s3cret@h/d", "outbound.db", "", "sqlite://x"]
)
def test_what_is_no_url_of_a_journal_ends_with_2_and_is_not_repeated(url: str) -> None:
    done = run("pending", url)

    assert done.code == 2
    assert done.err
    assert "s3cret" not in done.err


def test_every_line_of_json_stands_alone(place: Place, loopback: Loopback) -> None:
    for number in range(3):
        lose_answer(place, loopback, f"invoice-{number}")

    done = run("pending", place.url, "--json")

    assert [json.loads(line)["operation_id"] for line in done.lines] == [
        "invoice-0",
        "invoice-1",
        "invoice-2",
    ]
