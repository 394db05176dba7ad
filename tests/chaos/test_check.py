"""The checks, on made-up runs: a good one passes, and each thing that may go wrong is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from chaos.bank import Effect
from chaos.book import Answer, Attempt, Book, Operation, Struck
from chaos.check import Verdict, Wrong, judge
from chaos.evidence import Evidence
from chaos.plan import Blow, Plan, Route, Strike
from chaos.report import Report
from chaos.trail import BEGUN, Note
from replayfloor.core.message import Response
from replayfloor.core.problem import ProblemKind
from replayfloor.server.events import EventKind

PID = 4711
BODY = json.dumps({"payment": "p", "charge": 1, "amount": 5}).encode()


class Made:
    """A run with one payment, acknowledged, in the ledger, kept and replayed: all is well."""

    def __init__(self, route: Route = Route.EXTERNAL) -> None:
        name = "derived" if route is Route.REPEATABLE else None
        self.operation = Operation("p", route, 5, {}, key="k")
        self.operation.attempts.append(Attempt(10.0, 0, 10.2, "201"))
        self.told = Answer(10.2, "c", 201, BODY, "run-1")
        self.operation.answers.append(self.told)
        self.operation.final.append(replace(self.told, at=60.0, replayed=True))
        self.book = Book()
        self.book.begin(self.operation)
        self.effect = Effect("p", 1, 5, "run-1", 10.1, name)
        begun = Note(10.05, PID, BEGUN, self.operation.receipt, "run-1")
        self.evidence = Evidence(
            effects={"p": [self.effect]},
            receipts={self.operation.receipt: [Response(201, (), BODY)]},
            claims={},
            notes={self.operation.receipt: [begun]},
        )

    def judge(self) -> Verdict:
        """Return the verdict."""
        return judge(self.book, self.evidence)

    def note(self, at: float, kind: EventKind) -> None:
        """Let the worker note an event."""
        receipt = self.operation.receipt
        self.evidence.notes[receipt].append(Note(at, PID, kind.value, receipt))

    def strike(self, blow: Blow, began: float, pid: int = PID) -> None:
        """Let a blow fall."""
        self.book.struck.append(Struck(Strike(0.0, blow, 0, 1.0), began, began + 1, (pid,)))

    def turn_unknown(self) -> None:
        """Let nobody know of the payment, but for the ledger."""
        unknown = Answer(14.0, "c", 409, b"", kind=ProblemKind.OUTCOME_UNKNOWN)
        self.operation.answers[:] = self.operation.final[:] = [unknown]
        self.evidence.receipts.clear()


def execute_twice(made: Made) -> None:
    made.evidence.effects["p"].append(replace(made.effect, charge=2, run="run-2"))


def keep_two_receipts(made: Made) -> None:
    made.evidence.receipts[made.operation.receipt] *= 2


def lose_the_effect(made: Made) -> None:
    made.evidence.effects.clear()


def lose_the_receipt(made: Made) -> None:
    made.evidence.receipts.clear()


def answer_afresh_afterwards(made: Made) -> None:
    made.operation.final[:] = [replace(made.told, at=60.0)]


def answer_with_another_charge(made: Made) -> None:
    made.evidence.effects["p"] = [replace(made.effect, charge=9)]


def answer_differently(made: Made) -> None:
    made.operation.answers.append(replace(made.told, body=BODY + b" "))


def never_answer_again(made: Made) -> None:
    made.operation.final.clear()


def refuse(made: Made) -> None:
    made.operation.answers.append(Answer(11.0, "c", 422, b"", kind=ProblemKind.KEY_REUSED))


def charge_a_stranger(made: Made) -> None:
    made.evidence.effects["stranger"] = [replace(made.effect, payment="stranger")]


def say_unknown(made: Made) -> None:
    made.turn_unknown()


TAMPERINGS: list[tuple[Callable[[Made], None], Wrong]] = [
    (execute_twice, Wrong.DOUBLE),
    (keep_two_receipts, Wrong.DOUBLE),
    (lose_the_effect, Wrong.LOST),
    (lose_the_receipt, Wrong.LOST),
    (answer_afresh_afterwards, Wrong.LOST),
    (answer_with_another_charge, Wrong.FALSE),
    (answer_differently, Wrong.DIFFERENT),
    (never_answer_again, Wrong.STUCK),
    (refuse, Wrong.REFUSED),
    (charge_a_stranger, Wrong.FOREIGN),
    (say_unknown, Wrong.UNKNOWN),
]


@pytest.mark.parametrize("route", list(Route))
def test_a_run_in_which_all_is_well_has_no_violation(route: Route) -> None:
    verdict = Made(route).judge()

    assert verdict.violations == ()
    assert (verdict.acknowledged, verdict.effects) == (1, 1)


@pytest.mark.parametrize("route", list(Route))
@pytest.mark.parametrize(("tamper", "wrong"), TAMPERINGS)
def test_what_is_wrong_is_told(tamper: Callable[[Made], None], wrong: Wrong, route: Route) -> None:
    made = Made(route)

    tamper(made)

    assert wrong in {each.wrong for each in made.judge().violations}


def test_a_repeated_call_under_one_derived_key_is_no_second_effect() -> None:
    made = Made(Route.REPEATABLE)
    made.evidence.effects["p"].append(replace(made.effect, run="run-2", repeated=True))

    assert made.judge().violations == ()


def test_two_derived_keys_are_a_double_execution() -> None:
    made = Made(Route.REPEATABLE)
    made.evidence.effects["p"].append(replace(made.effect, name="other", repeated=True))

    assert made.judge().count(Wrong.DOUBLE) == 1


@pytest.mark.parametrize("blow", [Blow.WORKER_KILLED, Blow.WORKER_STOPPED])
def test_unknown_is_right_if_its_worker_was_struck_while_it_executed(blow: Blow) -> None:
    made = Made()
    made.turn_unknown()
    made.strike(blow, began=10.07)

    verdict = made.judge()

    assert verdict.violations == ()
    assert verdict.unknown == {str(blow): 1}


def test_unknown_is_wrong_if_another_worker_was_struck() -> None:
    made = Made()
    made.turn_unknown()
    made.strike(Blow.WORKER_KILLED, began=10.07, pid=PID + 1)

    assert made.judge().count(Wrong.UNKNOWN) == 1


@pytest.mark.parametrize("began", [9.0, 10.5, 20.0])
def test_unknown_is_wrong_if_its_worker_was_struck_before_or_after(began: float) -> None:
    made = Made()
    made.turn_unknown()
    made.note(10.2, EventKind.FINISHED)
    made.strike(Blow.WORKER_KILLED, began)

    assert made.judge().count(Wrong.UNKNOWN) == 1


@pytest.mark.parametrize("route", [Route.ATOMIC, Route.REPEATABLE])
def test_unknown_is_wrong_in_routes_that_are_executed_again(route: Route) -> None:
    made = Made(route)
    made.turn_unknown()
    made.strike(Blow.WORKER_KILLED, began=10.07)

    assert made.judge().count(Wrong.UNKNOWN) == 1


def test_a_receipt_may_be_lost_if_postgres_was_away_and_the_worker_has_said_so() -> None:
    said, silent, without_blow = Made(), Made(), Made()
    for made in (said, silent, without_blow):
        lose_the_receipt(made)
    for made in (said, silent):
        made.strike(Blow.POSTMASTER_KILLED, began=9.5)
    for made in (said, without_blow):
        made.note(10.2, EventKind.RECEIPT_LOST)

    assert said.judge().violations == ()
    assert sum(said.judge().not_kept.values()) == 1
    assert silent.judge().count(Wrong.LOST) == 1
    assert without_blow.judge().count(Wrong.LOST) == 1


def test_in_an_atomic_route_no_reason_excuses_a_lost_receipt() -> None:
    made = Made(Route.ATOMIC)
    lose_the_receipt(made)
    made.strike(Blow.POSTMASTER_KILLED, began=9.5)
    made.note(10.2, EventKind.RECEIPT_LOST)

    assert made.judge().count(Wrong.LOST) == 1


def test_the_report_holds_the_whole_history_of_what_is_wrong() -> None:
    made = Made()
    execute_twice(made)
    made.strike(Blow.REDIS_FLUSHED, began=9.9)
    report = Report(Plan(seed=1, seconds=1), made.book, made.evidence, made.judge(), 0.0)

    written = json.dumps(report.as_json())

    for word in ("run-1", "run-2", "FLUSHALL", "attempt at worker 0", "execution begun", "claim:"):
        assert word in written
    assert report.as_json()["double_executions"] == 1
