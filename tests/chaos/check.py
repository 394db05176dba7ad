"""Judges a run: every payment against the ledgers, the receipts and what its clients were told.

Nothing is asked of the servers here, and nothing is forgiven that `justify` gives no reason for.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from chaos.book import Answer, Book, Operation
from chaos.evidence import Evidence
from chaos.justify import why_not_kept, why_unknown
from chaos.plan import Route


class Wrong(StrEnum):
    """What a violation is."""

    DOUBLE = "executed twice"
    LOST = "acknowledged and lost"
    FALSE = "an answer that the ledger contradicts"
    DIFFERENT = "two answers to one key"
    STUCK = "no answer although everything is well again"
    UNKNOWN = "unknown without a reason"
    REFUSED = "refused or failed without a reason"
    FOREIGN = "an effect that nobody asked for"


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise; `payment` names whose."""

    wrong: Wrong
    payment: str
    detail: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run has shown. `unknown` and `not_kept` are counted by their reasons."""

    violations: tuple[Violation, ...]
    unknown: dict[str, int]
    not_kept: dict[str, int]
    acknowledged: int
    effects: int

    def count(self, *wrongs: Wrong) -> int:
        """Return how many payments have one of these violations."""
        found = {each.payment for each in self.violations if each.wrong in wrongs}
        return len(found)


def judge(book: Book, evidence: Evidence) -> Verdict:
    """Judge every payment of a run."""
    unknown, not_kept = Counter[str](), Counter[str]()
    violations = [
        Violation(Wrong.FOREIGN, payment, str(effects))
        for payment, effects in evidence.effects.items()
        if payment not in book.operations
    ]
    for operation in book.operations.values():
        case = _Case(operation, book, evidence)
        violations += [Violation(*found) for found in case.violations()]
        unknown.update(case.unknown)
        not_kept.update(case.not_kept)
    return Verdict(
        tuple(violations),
        dict(unknown),
        dict(not_kept),
        sum(bool(each.acknowledged) for each in book.operations.values()),
        sum(len(evidence.done(payment)) for payment in book.operations),
    )


Found = tuple[Wrong, str, str]


class _Case:
    """One payment; `unknown` and `not_kept` are filled while it is judged."""

    def __init__(self, operation: Operation, book: Book, evidence: Evidence) -> None:
        self.operation, self.book, self.evidence = operation, book, evidence
        self.unknown: list[str] = []
        self.not_kept: list[str] = []

    def violations(self) -> Iterator[Found]:
        """Yield what is wrong."""
        for wrong, detail in (
            *self._of_effects(),
            *self._of_acknowledged(),
            *self._of_other_answers(),
        ):
            yield wrong, self.operation.payment, detail

    def _of_effects(self) -> Iterator[tuple[Wrong, str]]:
        effects = self.evidence.done(self.operation.payment)
        if len(effects) > 1:
            yield Wrong.DOUBLE, f"{len(effects)} effects"
        if self.operation.route is Route.REPEATABLE:
            every = self.evidence.effects.get(self.operation.payment, ())
            names = {effect.name for effect in every}
            if len(names) > 1 or None in names:
                yield Wrong.DOUBLE, f"derived keys differ: {names}"
        kept = self.evidence.receipts.get(self.operation.receipt, ())
        if len(kept) > 1:
            yield Wrong.DOUBLE, f"{len(kept)} receipts"

    def _of_acknowledged(self) -> Iterator[tuple[Wrong, str]]:
        told = self.operation.acknowledged
        if not told:
            return
        effects = self.evidence.done(self.operation.payment)
        if not effects:
            yield Wrong.LOST, "no effect in the ledger"
        else:
            shown = {
                "payment": self.operation.payment,
                "charge": effects[0].charge,
                "amount": self.operation.amount,
            }
            if any(json.loads(answer.body) != shown for answer in told):
                yield Wrong.FALSE, f"the ledger says {shown}"
        if len({(answer.status, answer.body) for answer in told}) > 1:
            yield Wrong.DIFFERENT, "bodies differ"
        if self.operation.route is Route.ATOMIC and len({answer.run for answer in told}) > 1:
            yield Wrong.DIFFERENT, "answers of two executions"
        yield from self._of_what_was_kept(told[0])

    def _of_what_was_kept(self, told: Answer) -> Iterator[tuple[Wrong, str]]:
        """The receipt is there, and its repetition after the run is the same and marked as one."""
        kept = self.evidence.receipts.get(self.operation.receipt, ())
        during = [answer for answer in self.operation.answers if answer.acknowledges]
        is_kept = [(each.status, each.body) for each in kept] == [(told.status, told.body)]
        replayed = bool(self.operation.final) and all(
            answer.acknowledges and answer.replayed for answer in self.operation.final
        )
        same_run = len({answer.run for answer in self.operation.acknowledged}) == 1
        if is_kept and (replayed or not during) and same_run:
            return
        atomic = self.operation.route is Route.ATOMIC
        reason = None if atomic else why_not_kept(self.operation, self.book, self.evidence)
        if reason is None:
            yield Wrong.LOST, f"kept: {is_kept}, replayed: {replayed}, by one run: {same_run}"
        else:
            self.not_kept.append(reason)

    def _of_other_answers(self) -> Iterator[tuple[Wrong, str]]:
        answers = [*self.operation.answers, *self.operation.final]
        if not self.operation.final:
            yield Wrong.STUCK, f"after the run there was no definitive answer; before: {answers}"
        for answer in answers:
            if not answer.acknowledges and not answer.unknown:
                yield Wrong.REFUSED, f"{answer.status} {answer.kind} {answer.body[:200]!r}"
        if any(answer.unknown for answer in answers):
            external = self.operation.route is Route.EXTERNAL
            reason = why_unknown(self.operation, self.book, self.evidence) if external else None
            if reason is None:
                yield Wrong.UNKNOWN, f"route {self.operation.route}"
            else:
                self.unknown.append(reason)
