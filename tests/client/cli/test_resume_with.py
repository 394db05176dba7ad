"""`replayfloor client resume --with`: a function of the user sends, and each result is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from client.cli.commands import Place, finish, lose_answer, run, start_and_kill
from client.loopback import Loopback, Reply
from replayfloor.core.journal import OperationState

OPS = """
import httpx
from replayfloor.client import AsyncIdempotentTransport, IdempotentTransport, Profile

SHOP = Profile(name="shop", retention_s=86_400.0)
JOURNAL = {journal!r}
TYPE = {{"Content-Type": "application/json"}}
number = 7

def options(operation):
    return dict(
        content=b'{{"amount": 4200}}',
        headers=TYPE,
        extensions={{"idempotency": {{"operation_id": operation.operation_id}}}},
    )

def resend(operation):
    transport = IdempotentTransport(profile=SHOP, journal=JOURNAL)
    with httpx.Client(transport=transport) as client:
        client.post(operation.url, **options(operation))

async def resend_async(operation):
    transport = AsyncIdempotentTransport(profile=SHOP, journal=JOURNAL)
    async with httpx.AsyncClient(transport=transport) as client:
        await client.post(operation.url, **options(operation))

def raise_for_the_first(operation):
    if operation.operation_id == "first":
        raise RuntimeError("no body of first\\x1b[2J")
    resend(operation)

def do_nothing(operation):
    return "done!"

class Resender:
    def __call__(self, operation):
        resend(operation)

thing = Resender()
"""

names = iter(range(1000))


@pytest.fixture
def ops(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in the current folder that holds functions."""
    name = f"client_ops_{next(names)}"
    (tmp_path / f"{name}.py").write_text(OPS.format(journal=place.url))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return name


@pytest.mark.parametrize("function", ["resend", "resend_async", "thing"])
def test_each_resumable_operation_is_sent_once_with_its_own_key(
    function: str, place: Place, loopback: Loopback, ops: str
) -> None:
    lose_answer(place, loopback, "over", age_s=30 * 3600)
    for name in ("first", "second"):
        lose_answer(place, loopback, name)
    finish(place, loopback, "done")

    done = run("resume", place.url, "--with", f"{ops}:{function}")

    assert done.code == 0
    assert sorted(done.lines) == [
        "2 have an end now, 0 are still open.",
        "first: done, status 201",
        "second: done, status 201",
    ]
    assert loopback.keys() == [f'"{place.entry(name).key}"' for name in ("first", "second")]
    assert place.state("over") is OperationState.OPEN


def test_a_function_that_raises_stops_nobody_else_and_is_told(
    place: Place, loopback: Loopback, ops: str
) -> None:
    for name in ("first", "second"):
        lose_answer(place, loopback, name)

    done = run("resume", place.url, "--with", f"{ops}:raise_for_the_first")

    assert done.code == 1
    assert done.lines == ["second: done, status 201", "1 have an end now, 1 are still open."]
    assert "first: open; RuntimeError: no body of first\\x1b[2J" in done.err
    assert "\x1b" not in done.err
    assert len(loopback.received) == 1


def test_what_counts_is_the_journal_and_not_what_the_function_says(
    place: Place, loopback: Loopback, ops: str
) -> None:
    lose_answer(place, loopback, "first")

    done = run("resume", place.url, "--with", f"{ops}:do_nothing")

    assert done.code == 1
    assert done.lines == ["0 have an end now, 1 are still open."]
    assert place.state("first") is OperationState.OPEN


def test_only_the_operations_that_are_named_are_sent(
    place: Place, loopback: Loopback, ops: str
) -> None:
    for name in ("first", "second", "third"):
        lose_answer(place, loopback, name)

    done = run("resume", place.url, "first", "third", "--with", f"{ops}:resend")

    assert done.code == 0
    assert [place.state(name) for name in ("first", "second", "third")] == ["done", "open", "done"]


def test_what_may_not_be_sent_is_not_given_to_the_function(
    place: Place, loopback: Loopback, ops: str
) -> None:
    lose_answer(place, loopback, "over", age_s=30 * 3600)
    finish(place, loopback, "done")

    over = run("resume", place.url, "over", "--with", f"{ops}:resend")
    done = run("resume", place.url, "done", "--with", f"{ops}:resend")
    missing = run("resume", place.url, "no-such", "--with", f"{ops}:resend")

    assert (over.code, done.code, missing.code) == (1, 0, 1)
    assert "over: not sent: do not send it again" in over.err
    assert "done: not sent: it has an end already" in done.err
    assert loopback.received == []


def test_a_live_lease_is_left_alone_unless_it_is_named(
    place: Place, loopback: Loopback, ops: str
) -> None:
    start_and_kill(place, loopback, "first", lease_s=1)

    alone = run("resume", place.url, "--with", f"{ops}:resend")
    sent_before = len(loopback.received)
    named = run("resume", place.url, "first", "--with", f"{ops}:resend")

    assert (alone.code, sent_before) == (1, 0)
    assert "first: left alone: wait" in alone.err
    assert named.code == 0
    assert len(loopback.received) == 1


def test_an_answer_that_ends_nothing_leaves_it_open(
    place: Place, loopback: Loopback, ops: str
) -> None:
    lose_answer(place, loopback, "first")
    loopback.script(Reply(401))

    done = run("resume", place.url, "--with", f"{ops}:resend")

    assert done.code == 1
    assert "first: open" in done.err
