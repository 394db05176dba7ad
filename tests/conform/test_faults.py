"""Each check fails on a server with one fault; `test_without_faults` holds the other half."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from conform.faulty import FaultyServer
from conform.serving import asking, served
from conform.shop import make_shop, target
from replayfloor.conform import CHECKS, Verdict, run_checks, select
from replayfloor.conform.effects import Exchange, Sending
from replayfloor.conform.facts import Facts, Trial
from replayfloor.conform.shell import Shell
from replayfloor.conform.target import FIELD
from replayfloor.core.drivers import Perform, run
from replayfloor.core.effects import Effect

FAIL, NOTE = Verdict.FAIL, Verdict.NOTE
FAULTS = [
    ("missing-422", "H-1", FAIL),
    ("opaque", "K-1", FAIL),
    ("opaque", "SF-6", FAIL),
    ("opaque", "K-3", FAIL),
    ("uuid-only", "EX-2", NOTE),
    ("lower-cased", "U7-7", FAIL),
    ("by-body", "B-29", FAIL),
    ("get-too", "H9-5", FAIL),
    ("key-and-body", "A19", FAIL),
    ("key-and-body", "H-2", FAIL),
    ("empty-is-none", "A12", FAIL),
    ("first-line", "K-5", FAIL),
    ("malformed-is-none", "A2", FAIL),
    ("empty-is-none", "A2", FAIL),
    ("long-500", "B-34", FAIL),
    ("malformed-is-none", "B-34", FAIL),
    ("forgets", "E-2", FAIL),
    ("as-text", "B-23", FAIL),
    ("marks-first", "A5", FAIL),
    ("unmarked", "A5", NOTE),
    ("no-headers", "B-20", FAIL),
    ("dict-headers", "B-21", FAIL),
    ("cookies", "A16", NOTE),
    ("date", "H9-8", FAIL),
    ("late", "B-22", FAIL),
    ("no-body", "H-2", FAIL),
    ("poisoned", "B-26", FAIL),
    ("refused-once", "H-5", FAIL),
    ("no-query", "B-30", FAIL),
    ("no-path", "A8", FAIL),
    ("409-first", "A10", FAIL),
    ("one-scope", "S-3", FAIL),
    ("no-chunks", "F-2", FAIL),
    ("check-then-act", "B-01", FAIL),
    ("check-then-act", "B-51", FAIL),
    ("423", "E-3", FAIL),
    ("loser-500", "B-09", FAIL),
    ("no-retry-after", "RA-1", FAIL),
    ("marks-refusals", "H9-6", FAIL),
    ("no-empty", "B-19", FAIL),
    ("only-2xx", "B-18", FAIL),
    ("only-2xx", "A4", FAIL),
    ("first-chunk", "B-38", FAIL),
    ("no-large", "B-24", FAIL),
    ("stuck", "B-08", FAIL),
    ("frees-on-disconnect", "B-12", FAIL),
    ("half-a-body", "H9-10", FAIL),
    ("plain", "P-1", FAIL),
    ("one-type", "P-2", FAIL),
    ("wrong-status", "P-3", FAIL),
    ("no-link", "H-1b", FAIL),
    ("no-preflight", "B-35", FAIL),
    ("hidden-refusals", "B-36", FAIL),
    ("hidden-mark", "B-36", NOTE),
]
FACTS = Facts(telling=True, marks=True)
NEEDS_A_PROXY = {"K-6"}
"""uvicorn writes every name in lower case, so no application under it can break this one."""


@pytest.fixture(scope="module")
def server() -> FaultyServer:
    return FaultyServer(make_shop())


@pytest.fixture(scope="module")
def address(server: FaultyServer) -> Iterator[str]:
    with served(server) as url:
        yield url


@pytest.fixture
def shell(server: FaultyServer, address: str) -> Iterator[Shell]:
    with asking(address) as asked:
        yield asked
    server.faults = frozenset()
    server.records.clear()


@pytest.mark.parametrize(("fault", "check", "verdict"), FAULTS)
def test_a_fault_is_found_by_its_check(
    server: FaultyServer, shell: Shell, fault: str, check: str, verdict: Verdict
) -> None:
    (chosen,) = (each for each in CHECKS if each.id == check)
    server.faults = frozenset({fault})

    outcome = run(chosen.run(Trial(target(), FACTS)), shell)

    assert outcome.verdict is verdict, outcome.seen


def test_a_name_whose_letter_case_counts_is_found(shell: Shell) -> None:
    report = run_checks(target(), select(["K-6"]), case_sensitive(shell))

    assert report.ids(Verdict.FAIL) == ["K-6"]


def case_sensitive(shell: Shell) -> Perform:
    """Stand before a server as if it knew the field by one spelling only."""

    def perform(effect: Effect[object]) -> object:
        if isinstance(effect, Exchange):
            return shell(Exchange(tuple(map(known, effect.sendings))))
        return shell(effect)

    return perform


def known(sending: Sending) -> Sending:
    lines = tuple(
        line for line in sending.lines if line[0] == FIELD or line[0].lower() != FIELD.lower()
    )
    return replace(sending, lines=lines)


def test_every_check_has_a_fault_that_it_finds() -> None:
    found = {check for _, check, _ in FAULTS} | NEEDS_A_PROXY

    assert [each.id for each in CHECKS if each.id not in found] == []


def test_no_id_is_that_of_two_checks() -> None:
    ids = [each.id for each in CHECKS]

    assert len(ids) == len(set(ids))
