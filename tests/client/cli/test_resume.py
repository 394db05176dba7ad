"""`replayfloor client resume` from the command line: the same key, once, or nothing at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from client.cli.commands import (
    BODY,
    DAY_S,
    SHOP,
    TYPE,
    Place,
    body_file,
    finish,
    lose_answer,
    pay,
    resume,
    run,
    shop_options,
    start_and_kill,
    write_module,
)
from client.clients import named
from client.loopback import DROP, Loopback, Reply, closed_port
from replayfloor.client import OperationClosed, OutcomePending
from replayfloor.core.journal import OperationState


def test_what_a_killed_process_left_is_sent_once_more_with_its_key(
    place: Place, loopback: Loopback, tmp_path: Path
) -> None:
    key = start_and_kill(place, loopback, "invoice-1", age_s=3600)
    before = place.entry("invoice-1")

    done = resume(place, *shop_options(tmp_path))

    assert done.code == 0
    assert loopback.keys() == [key]
    assert loopback.bodies() == [BODY]
    assert done.lines[:2] == ["status 201", '{"id": 1}']
    assert "YES. The provider answered with status 201" in done.text
    after = place.entry("invoice-1")
    assert (after.state, after.attempts) == (OperationState.DONE, 2)
    assert (after.key, after.send_deadline_ns) == (before.key, before.send_deadline_ns)


def test_a_lease_of_a_process_that_died_just_now_is_waited_for(
    place: Place, loopback: Loopback, tmp_path: Path
) -> None:
    start_and_kill(place, loopback, "invoice-1", lease_s=1)

    done = resume(place, *shop_options(tmp_path))

    assert done.code == 0
    assert "another call is sending it, or died lately" in done.err
    assert len(loopback.received) == 1


@pytest.mark.parametrize(
    ("changed", "differs"),
    [
        (("--body", "{other}", "--content-type", TYPE), "body"),
        (("--body", "{body}", "--content-type", "text/plain"), "content type"),
        (("--body", "{body}"), "content type"),
        (("--body", "{body}", "--content-type", TYPE, "--query", "a=1"), "query"),
    ],
)
def test_another_request_is_not_sent_and_it_is_told_how_it_differs(
    changed: tuple[str, ...], differs: str, place: Place, loopback: Loopback, tmp_path: Path
) -> None:
    lose_answer(place, loopback, "invoice-1")
    (tmp_path / "other.json").write_bytes(b'{"amount": 9999}')
    files = {"{body}": body_file(tmp_path), "{other}": str(tmp_path / "other.json")}

    done = resume(place, "--quoted", *(files.get(word, word) for word in changed))

    assert done.code == 1
    assert loopback.received == []
    assert f"It differs in: {differs}" in done.err
    assert place.entry("invoice-1").attempts == 1


def test_a_form_with_another_boundary_differs_in_the_query_alone(
    place: Place, loopback: Loopback, tmp_path: Path
) -> None:
    loopback.script(DROP)
    form = {"file": b"pay"}
    with place.client() as client, pytest.raises(OutcomePending):
        client.post(loopback.url(), files=form, extensions=named("invoice-1"))
    again = httpx.Request("POST", loopback.url(), files=form)
    options = ("--body", body_file(tmp_path, again.read()), "--quoted", "--query", "a=1")

    done = resume(place, *options, "--content-type", again.headers["content-type"])

    assert done.code == 1
    assert "It differs in: query\n" in done.err
    assert len(loopback.received) == 1


def test_after_its_deadline_nothing_is_sent_and_nothing_ever_will_be(
    place: Place, loopback: Loopback, tmp_path: Path
) -> None:
    start_and_kill(place, loopback, "invoice-1", age_s=DAY_S * 0.98 + 1)
    assert run("pending", place.url, "--resumable").text == "None.\n"

    done = resume(place, *shop_options(tmp_path))

    assert done.code == 1
    assert loopback.received == []
    assert "Do not retry with the old key or a new one" in done.err
    assert "NOT KNOWN" in done.text
    assert place.state("invoice-1") is OperationState.UNKNOWN_FINAL


def test_shortly_before_its_deadline_it_is_sent(
    place: Place, loopback: Loopback, tmp_path: Path
) -> None:
    lose_answer(place, loopback, "invoice-1", age_s=DAY_S * 0.98 - 30)

    assert resume(place, *shop_options(tmp_path)).code == 0
    assert len(loopback.received) == 1


def test_the_deadline_of_the_entry_counts_and_not_that_of_the_profile_named_now(
    place: Place, loopback: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    careful = replace(SHOP, margin_s=DAY_S / 2)
    lose_answer(place, loopback, "invoice-1", profile=careful, age_s=DAY_S * 0.6)
    module = write_module(tmp_path, monkeypatch, "name='shop', retention_s=2592000.0, margin_s=0.0")

    done = resume(
        place, "--body", body_file(tmp_path), "--content-type", TYPE, "--profile", f"{module}:SHOP"
    )

    assert done.code == 1
    assert loopback.received == []


def test_an_answer_that_shortens_the_retention_keeps_the_margin_of_the_entry(
    place: Place, loopback: Loopback, tmp_path: Path
) -> None:
    careful = replace(SHOP, margin_s=DAY_S / 2)
    lose_answer(place, loopback, "invoice-1", profile=careful)
    loopback.script(Reply(401, (("Idempotency-Key-Lifetime", "86000"),)))

    resume(place, *shop_options(tmp_path))

    entry = place.entry("invoice-1")
    window_s = (entry.send_deadline_ns - entry.first_attempt_at_ns) / 1e9
    assert entry.retention_s == 86_000
    assert window_s == pytest.approx(86_000 - DAY_S / 2)


def test_what_is_closed_is_not_sent_by_the_command_nor_by_the_application(
    place: Place, loopback: Loopback, tmp_path: Path
) -> None:
    lose_answer(place, loopback, "invoice-1")
    closed = run("close", place.url, "invoice-1", "--not-executed", "--note", "ticket 7")

    done = resume(place, *shop_options(tmp_path))
    with place.client() as client, pytest.raises(OperationClosed, match="ticket 7"):
        pay(client, loopback.url(), "invoice-1")

    assert (closed.code, done.code) == (0, 1)
    assert "settled it (ticket 7)" in done.err
    assert loopback.received == []


def test_an_id_that_the_journal_does_not_know_is_not_begun(
    place: Place, loopback: Loopback, tmp_path: Path
) -> None:
    lose_answer(place, loopback, "invoice-2")

    done = resume(place, *shop_options(tmp_path))

    assert done.code == 1
    assert loopback.received == []
    assert [each["operation_id"] for each in run("pending", place.url, "--json").objects] == [
        "invoice-2"
    ]


def test_what_was_answered_is_not_sent_again(
    place: Place, loopback: Loopback, tmp_path: Path
) -> None:
    finish(place, loopback, "invoice-1")

    done = resume(place, *shop_options(tmp_path))

    assert done.code == 1
    assert "answered with status 201" in done.err
    assert loopback.received == []


def test_a_refusal_is_shown_with_its_body_and_leaves_the_operation_open(
    place: Place, loopback: Loopback, tmp_path: Path
) -> None:
    lose_answer(place, loopback, "invoice-1")
    loopback.script(Reply(401, body=b'{"error": "who\x1b[2J"}\nare you?'))

    done = resume(place, *shop_options(tmp_path))

    assert done.code == 1
    assert done.lines[:3] == ["status 401", '{"error": "who\\x1b[2J"}', "are you?"]
    assert "NOT KNOWN" in done.text
    assert place.state("invoice-1") is OperationState.OPEN
    assert len(loopback.received) == 1


def test_a_server_that_is_away_leaves_the_operation_open(place: Place, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{closed_port()}/charges"
    with place.client() as client, pytest.raises(Exception, match="refused"):
        pay(client, url, "invoice-1")

    done = resume(place, *shop_options(tmp_path), "--attempts", "1")

    assert done.code == 1
    assert "refused" in done.err
    assert "NO. No attempt left this machine" in done.text
