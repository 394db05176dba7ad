"""How many requests a worker answers, ours to the bare application. See benchmarks/README.md.

`python -m benchmarks.throughput`, from the project's folder. Exit status 1 if a goal is missed and
`--strict` is given, 2 if a path could not be measured; the others are.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from benchmarks.collector import Collector
from benchmarks.contenders import Bench, open_bench
from benchmarks.load_plan import Outcome
from benchmarks.processes import BenchmarkFailed
from benchmarks.profiling import FORMATS, Profile, profiled
from benchmarks.ratios import Measured
from benchmarks.report import report, write_json
from benchmarks.scenarios import NAMES, Scenario, named


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says."""

    scenarios: list[Scenario]
    concurrency: list[int]
    seconds: float
    rounds: int
    collector: Collector
    json: Path | None
    strict: bool
    profile: Profile | None


def options_of(arguments: Sequence[str] | None) -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--paths", nargs="+", choices=NAMES, default=list(NAMES), help="which rows; default: all")
    add("--concurrency", nargs="+", type=int, default=[1, 16, 64], help="connections (%(default)s)")
    add("--seconds", type=float, default=3.0, help="measured in each turn (%(default)s)")
    add("--rounds", type=int, default=5, help="turns of each contender (%(default)s)")
    collectors = get_args(Collector)
    add("--collector", choices=collectors, default="advised", help="of garbage (%(default)s)")
    add("--json", type=Path, help="write every outcome to this file")
    add("--strict", action="store_true", help="exit 1 if a goal is missed")
    add("--profile", choices=["py-spy"], help="record every worker in each of its turns")
    add("--profile-to", type=Path, default=Path("profiles"), help="folder (%(default)s)")
    add("--profile-format", choices=FORMATS, default="speedscope", help="(%(default)s)")
    given = parser.parse_args(arguments)
    if min(given.rounds, *given.concurrency) < 1 or given.seconds <= 0:
        parser.error("at least one round, one connection, and some time")
    return Options(
        named(given.paths),
        given.concurrency,
        given.seconds,
        given.rounds,
        given.collector,
        given.json,
        given.strict,
        Profile(given.profile_to, given.profile_format) if given.profile else None,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, report; return the exit status."""
    options = options_of(arguments)
    measured: list[Measured] = []
    failed = False
    with open_bench(options.collector) as bench:
        about = bench.about() | {"rounds": options.rounds, "seconds": options.seconds}
        for scenario in options.scenarios:
            try:
                measured += measure(bench, scenario, options)
            except BenchmarkFailed as failure:
                failed = True
                say(f"{scenario.name}: {failure}")
    missed = report(about, measured)
    if options.json is not None:
        write_json(options.json, about, measured)
    return 2 if failed else int(bool(missed) and options.strict)


def measure(bench: Bench, scenario: Scenario, options: Options) -> list[Measured]:
    """Start a scenario's contenders, and let them take turns at each number of connections."""
    found = []
    with bench.contenders(scenario) as contenders:
        for connections in scenario.concurrency(options.concurrency):
            outcomes: dict[str, list[Outcome]] = {name: [] for name in contenders}
            names = list(contenders)
            for turn in range(options.rounds):
                # Each round begins with another one: what a turn leaves to the next, pages to
                # write or connections to close, is each one's burden as often.
                first = turn % len(names)
                for name in names[first:] + names[:first]:
                    one = contenders[name]
                    label = f"{scenario.name}-{connections}-{name}-{turn + 1}"
                    with profiled(options.profile, one.pids, label, options.seconds):
                        outcome = one.run(connections, options.seconds)
                    outcomes[name].append(outcome)
                    say(
                        f"{label}: {outcome.per_second:.0f}/s, {outcome.worker_cpu_us:.0f} us of"
                        f" the worker, {outcome.own_cpu_us:.0f} us of the load generator"
                    )
            found.append(Measured(scenario, connections, outcomes))
    return found


def say(text: str) -> None:
    """Tell whoever waits how far it is."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
