"""`replayfloor client close`: a person's word ends an operation, and nothing is sent after it."""

from __future__ import annotations

import pytest

from client.cli.commands import (
    DAY_S,
    Place,
    finish,
    lose_answer,
    pay,
    run,
    start_and_kill,
)
from client.loopback import Loopback
from replayfloor.client import OperationClosed, OutcomeUnknown, Profile
from replayfloor.core.journal import NOTE_LENGTH_MAX, OperationState, Settlement


def close(place: Place, *options: str) -> int:
    """Close the operation of these tests as executed; return the exit code."""
    return run(
        "close", place.url, "invoice-1", "--executed", "--note", "charge ch_1", *options
    ).code


@pytest.mark.parametrize(
    ("option", "settlement", "told"),
    [
        ("--executed", Settlement.EXECUTED, "somebody found out that it was executed"),
        ("--not-executed", Settlement.NOT_EXECUTED, "somebody found out that it was not executed"),
    ],
)
def test_after_it_the_application_is_told_and_nothing_is_sent(
    option: str, settlement: Settlement, told: str, place: Place, loopback: Loopback
) -> None:
    lose_answer(place, loopback, "invoice-1")

    done = run("close", place.url, "invoice-1", option, "--note", "ticket 7: looked it up")
    for _ in range(2):
        with place.client() as client, pytest.raises(OperationClosed, match=told):
            pay(client, loopback.url(), "invoice-1")

    assert done.code == 0
    assert done.err == ""
    assert ("new id" in done.text) == (settlement is Settlement.NOT_EXECUTED)
    assert loopback.received == []
    entry = place.entry("invoice-1")
    assert (entry.state, entry.settlement) == (OperationState.SETTLED, settlement)
    assert entry.note == "ticket 7: looked it up"
    assert run("pending", place.url).text == "None.\n"


def test_show_repeats_who_said_what(place: Place, loopback: Loopback) -> None:
    lose_answer(place, loopback, "invoice-1")
    close(place)

    shown = run("show", place.url, "invoice-1")

    assert "YES. A person found out, and settled it: charge ch_1" in shown.text
    assert run("show", place.url, "invoice-1", "--json").object["executed"] is True


def test_what_is_finally_unknown_can_be_settled(place: Place, loopback: Loopback) -> None:
    lose_answer(place, loopback, "invoice-1", age_s=2 * DAY_S)
    with place.client() as client, pytest.raises(OutcomeUnknown):
        pay(client, loopback.url(), "invoice-1")
    assert run("pending", place.url, "--check").code == 1

    assert close(place) == 0

    assert run("pending", place.url, "--check").code == 0


def test_what_a_live_call_sends_is_not_settled_unless_it_is_forced(
    place: Place, loopback: Loopback
) -> None:
    start_and_kill(place, loopback, "invoice-1", lease_s=60)

    refused = run("close", place.url, "invoice-1", "--not-executed", "--note", "n")
    still = place.state("invoice-1")
    forced = run("close", place.url, "invoice-1", "--not-executed", "--note", "n", "--force")

    assert (refused.code, still) == (1, OperationState.OPEN)
    assert "its lease lasts until" in refused.err
    assert (forced.code, place.state("invoice-1")) == (0, OperationState.SETTLED)


def test_an_answer_counts_more_than_a_word(place: Place, loopback: Loopback) -> None:
    finish(place, loopback, "invoice-1")
    before = place.entry("invoice-1")

    done = run("close", place.url, "invoice-1", "--not-executed", "--note", "n")

    assert done.code == 1
    assert "answered with status 201" in done.err
    assert place.entry("invoice-1") == before


def test_a_word_that_was_wrong_can_be_corrected_and_the_former_one_is_told(
    place: Place, loopback: Loopback
) -> None:
    lose_answer(place, loopback, "invoice-1")
    close(place)

    done = run("close", place.url, "invoice-1", "--not-executed", "--note", "it was another one")

    assert done.code == 0
    assert "It was settled before, as executed: charge ch_1" in done.text
    assert place.entry("invoice-1").settlement is Settlement.NOT_EXECUTED


def test_only_the_operation_of_the_namespace_is_settled(place: Place, loopback: Loopback) -> None:
    for name in ("shop", "bank"):
        lose_answer(place, loopback, "invoice-1", profile=Profile(name=name, retention_s=DAY_S))

    assert close(place) == 2
    assert close(place, "--namespace", "bank") == 0

    assert place.state("invoice-1", "bank") is OperationState.SETTLED
    assert place.state("invoice-1", "shop") is OperationState.OPEN


@pytest.mark.parametrize(
    "wrong",
    [
        ("--note", "n"),
        ("--executed",),
        ("--executed", "--note", ""),
        ("--executed", "--note", "  "),
        ("--executed", "--note", "n" * (NOTE_LENGTH_MAX + 1)),
    ],
    ids=lambda words: " ".join(words)[:30],
)
def test_a_settlement_that_does_not_say_what_or_why_is_refused(
    wrong: tuple[str, ...], place: Place, loopback: Loopback
) -> None:
    lose_answer(place, loopback, "invoice-1")

    assert run("close", place.url, "invoice-1", *wrong).code == 2

    assert place.state("invoice-1") is OperationState.OPEN


def test_what_the_journal_does_not_know_is_not_settled(place: Place, loopback: Loopback) -> None:
    lose_answer(place, loopback, "invoice-2")

    assert close(place) == 1

    assert place.state("invoice-2") is OperationState.OPEN
