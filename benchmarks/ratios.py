"""From the outcomes of rounds to ratios and verdicts. Arithmetic only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median

from benchmarks.load_plan import Outcome
from benchmarks.scenarios import JUDGED_AT, Scenario


@dataclass(frozen=True, slots=True)
class Measured:
    """One path at one number of connections: the outcomes of each contender, round by round."""

    scenario: Scenario
    connections: int
    outcomes: dict[str, list[Outcome]]

    def throughput(self, contender: str) -> float:
        """Return the median of a contender's requests in a second."""
        return median(outcome.per_second for outcome in self.outcomes[contender])

    def cpu_us(self, contender: str) -> float:
        """Return the median of a contender's microseconds of worker CPU for a request."""
        return median(outcome.worker_cpu_us for outcome in self.outcomes[contender])

    def p99_ms(self, contender: str) -> float:
        """Return the median of a contender's 99th percentiles of the time to an answer."""
        return median(outcome.p99_ms for outcome in self.outcomes[contender])

    def ratio(self, to: str) -> float | None:
        """Return ours to another's throughput: the median of the ratios within a round.

        Of a client it is the time of a call, ours to the other's.
        """
        return self._ratio(to, lambda outcome: outcome.per_second)

    def cpu_ratio(self, to: str) -> float | None:
        """Return the same for requests to a second of worker CPU; it hears less of a busy machine.

        As in the throughput, more is better: a worker that has a core of its own, and no round trip
        to wait for, has this ratio of throughput.
        """
        return self._ratio(to, lambda outcome: 1 / outcome.worker_cpu_us)

    def _ratio(self, other: str, of: Callable[[Outcome], float]) -> float | None:
        if other not in self.outcomes or not self.outcomes[other]:
            return None
        rounds = zip(self.outcomes["ours"], self.outcomes[other], strict=True)
        if self.scenario.kind == "client":
            return median(of(theirs) / of(mine) for mine, theirs in rounds)
        return median(of(mine) / of(theirs) for mine, theirs in rounds)

    def as_json(self) -> dict[str, object]:
        """Return every outcome, and what follows."""
        return {
            "path": self.scenario.name,
            "connections": self.connections,
            "goal": self.scenario.goal,
            "floor_goal": self.scenario.floor_goal,
            "ratio": self.ratio("bare"),
            "floor_ratio": self.ratio("floor"),
            "cpu_ratio": self.cpu_ratio("bare"),
            "floor_cpu_ratio": self.cpu_ratio("floor"),
            "outcomes": {
                name: [asdict(outcome) for outcome in outcomes]
                for name, outcomes in self.outcomes.items()
            },
        }


def judged(measured: Sequence[Measured], one: Measured) -> bool:
    """Say whether a row's goal to bare is judged: at JUDGED_AT, or the most that were measured."""
    counts = [each.connections for each in measured if each.scenario == one.scenario]
    return one.connections == (JUDGED_AT if JUDGED_AT in counts else max(counts))
