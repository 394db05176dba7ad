"""`replayfloor receipts list`, `show`, `audit`: what a person sees, and what a program reads."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from replayfloor.core.fingerprint import ReceiptId
from server.cli_databases import Database, id_of, of_kind, run

NOBODY = "postgresql://u:s3cret@127.0.0.1:1/d"  # nothing listens on port 1


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """An empty database of either kind."""
    with of_kind(request.param, request) as made:
        yield made


@pytest.fixture
def sqlite(request: pytest.FixtureRequest) -> Iterator[Database]:
    """An empty file."""
    with of_kind("sqlite", request) as made:
        yield made


def test_receipts_orphans_and_claims_are_listed(database: Database) -> None:
    finished, orphan, busy = database.finished(), database.orphan(), database.in_flight()

    receipts = run("receipts", "list", database.url)
    orphans = run("receipts", "list", database.url, "--orphans")
    claims = run("receipts", "list", database.url, "--claims")

    assert [done.code for done in (receipts, orphans, claims)] == [0, 0, 0]
    assert receipts.lines[0].split()[:3] == ["ID", "FINISHED", "STATUS"]
    assert [line.split()[0] for line in receipts.lines[1:]] == [finished.hex()]
    assert "201" in receipts.lines[1]
    assert [line.split()[0] for line in orphans.lines[1:]] == [orphan.hex()]
    assert {line.split()[0] for line in claims.lines[1:]} == {orphan.hex(), busy.hex()}
    assert "in flight" in claims.text
    assert "orphaned" in claims.text


def test_an_empty_list_says_so_to_a_person_and_nothing_to_a_program(sqlite: Database) -> None:
    assert run("receipts", "list", sqlite.url, "--orphans").text == "None.\n"
    assert run("receipts", "list", sqlite.url, "--orphans", "--json").text == ""


def test_a_list_is_one_json_object_a_line(database: Database) -> None:
    finished, orphan = database.finished(), database.orphan()

    (receipt,) = run("receipts", "list", database.url, "--json").lines
    (claim,) = run("receipts", "list", database.url, "--orphans", "--json").lines

    read, unknown = json.loads(receipt), json.loads(claim)
    assert (read["id"], read["state"], read["status"]) == (finished.hex(), "finished", 201)
    assert (unknown["id"], unknown["state"]) == (orphan.hex(), "orphaned")
    assert unknown["claimed_at"].endswith("+00:00")


def test_a_list_is_no_longer_than_asked_for(sqlite: Database) -> None:
    for _ in range(3):
        sqlite.orphan()

    assert len(run("receipts", "list", sqlite.url, "--orphans", "--limit", "2").lines) == 3


def test_an_orphan_is_shown_with_what_to_do(database: Database) -> None:
    id_ = database.orphan()

    done = run("receipts", "show", database.url, id_.hex()[:10])

    assert done.code == 0
    assert id_.hex() in done.text
    assert "the outcome is unknown" in done.text
    assert "replayfloor receipts resolve" in done.text


def test_a_receipt_is_shown_without_its_body_unless_it_is_asked_for(database: Database) -> None:
    id_ = database.finished(body=b"the customer's data")

    plain, full = (
        run("receipts", "show", database.url, id_.hex(), *extra) for extra in ([], ["--body"])
    )

    assert "status       201" in plain.text
    assert "location: /payments/1" in plain.text
    assert "19 bytes" in plain.text
    assert "customer's data" not in plain.text
    assert "the customer's data" in full.lines


def test_a_customers_key_finds_its_receipt_also_with_its_quotes(database: Database) -> None:
    id_ = database.finished(id_of("invoice-1", "acme"))
    scope = ("--principal", "acme", "--namespace", "default")

    found = [
        run("receipts", "show", database.url, "--key", key, *scope)
        for key in ("invoice-1", '"invoice-1"')
    ]
    elsewhere = run("receipts", "show", database.url, "--key", "invoice-1")

    assert [done.code for done in found] == [0, 0]
    assert all(id_.hex() in done.text for done in found)
    assert elsewhere.code == 1
    assert "never used" in elsewhere.err


def test_what_is_stored_cannot_write_to_the_terminal(sqlite: Database) -> None:
    evil = b"\x1b[2Jcleared\x07\r\n[red]:warning: \xc2\x9b31m \xe2\x80\xae"
    id_ = sqlite.finished(body=evil, headers=((b"x-note", b"\x1b]0;title\x07 \xff"),))
    sqlite.records.note(id_, "eve\x1b[31m", "act\nion", "de\x00tail\u202e")

    shown = run("receipts", "show", sqlite.url, id_.hex(), "--body")
    listed = run("receipts", "audit", sqlite.url)
    as_json = run("receipts", "show", sqlite.url, id_.hex(), "--json", "--body")

    for done in (shown, listed, as_json):
        assert done.code == 0
        assert all(c.isprintable() or c == "\n" for c in done.text), done.text
    assert "\\x1b[2Jcleared\\x07" in shown.text
    assert "[red]:warning:" in shown.text
    assert "act\\nion" in listed.text
    assert base64.b64decode(json.loads(as_json.text)["body_base64"]) == evil


def test_a_header_that_may_hold_a_secret_is_not_shown(sqlite: Database) -> None:
    secrets = ((b"x-api-token", b"s3cret"), (b"authorization-info", b"s3cret"), (b"etag", b"7"))
    id_ = sqlite.finished(headers=secrets)

    texts = [
        run("receipts", "show", sqlite.url, id_.hex(), *form).text for form in ([], ["--json"])
    ]

    for text in texts:
        assert "s3cret" not in text
        assert "x-api-token" in text
        assert "etag" in text


def test_what_was_done_by_hand_is_shown_also_after_the_receipt_is_gone(sqlite: Database) -> None:
    id_ = sqlite.finished()
    sqlite.records.evict(id_, "ann", "ticket 5")

    done = run("receipts", "show", sqlite.url, id_.hex())

    assert done.code == 1
    assert "ticket 5" in done.text
    assert "no receipt" in done.err


def test_a_damaged_receipt_says_so(database: Database) -> None:
    id_ = database.finished()
    database.corrupt(id_)

    done = run("receipts", "show", database.url, id_.hex())

    assert done.code == 1
    assert "truncated or altered" in done.err


def test_a_command_that_cannot_be_carried_out_ends_with_2(sqlite: Database) -> None:
    for start in ("abcdef01", "abcdef02"):
        sqlite.orphan(ReceiptId(bytes.fromhex(start[:7] + start[7] + "0" * 24)))
    sqlite.orphan(ReceiptId(bytes.fromhex("abcdef01" + "1" * 24)))

    ambiguous = run("receipts", "show", sqlite.url, "abcdef01")
    too_short = run("receipts", "show", sqlite.url, "abc")
    neither = run("receipts", "show", sqlite.url)
    both = run("receipts", "show", sqlite.url, "abcdef02", "--key", "k")
    bad_key = run("receipts", "show", sqlite.url, "--key", '"unclosed')
    no_url = run("receipts", "list", "mysql://host")
    two_lists = run("receipts", "list", sqlite.url, "--orphans", "--claims")

    wrong = (ambiguous, too_short, neither, both, bad_key, no_url, two_lists)
    assert [each.code for each in wrong] == [2] * len(wrong)
    assert "several ids" in ambiguous.err


def test_a_database_that_is_away_ends_with_1_and_no_password_is_told(tmp_path: Path) -> None:
    away = run("receipts", "list", NOBODY)
    missing = run("receipts", "list", f"sqlite:///{tmp_path}/no.db")

    assert (away.code, missing.code) == (1, 1)
    assert "s3cret" not in away.err + away.text
    assert away.text == missing.text == ""
