"""One run: the facts first, then every check. It drives flows and is told how to perform effects.

No HTTP and no clock here: both are behind `perform`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replayfloor.conform.facts import Facts, Trial, find_facts
from replayfloor.conform.target import Target
from replayfloor.conform.verdicts import (
    CannotRun,
    Check,
    Outcome,
    Result,
    Verdict,
)
from replayfloor.core.drivers import Perform, run


@dataclass(frozen=True, slots=True)
class Report:
    """What a run came to."""

    facts: Facts
    results: tuple[Result, ...]

    def ids(self, verdict: Verdict) -> list[str]:
        """Return the ids of the checks that ended so."""
        return [each.check.id for each in self.results if each.outcome.verdict is verdict]

    @property
    def exit_code(self) -> int:
        """0 if nothing failed, 1 if something did, 2 if some checks were not run."""
        if self.ids(Verdict.FAIL):
            return 1
        return 2 if self.ids(Verdict.NOT_RUN) else 0


def run_checks(target: Target, checks: Sequence[Check], perform: Perform) -> Report:
    """Run checks against a target.

    Raises CannotRun if the operation cannot be carried out at all. A server that goes away later,
    or a limit that is reached, leaves the rest as not run.
    """
    facts = run(find_facts(target), perform)
    trial = Trial(target, facts)
    results: list[Result] = []
    why = ""
    for check in checks:
        if not why:
            try:
                results.append(Result(check, run(check.run(trial), perform)))
                continue
            except CannotRun as error:
                why = str(error)
        results.append(Result(check, Outcome(Verdict.NOT_RUN, why)))
    return Report(facts, tuple(results))
