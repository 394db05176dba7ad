"""What a request costs as load, workers, table and time grow. See benchmarks/README.md.

`python -m benchmarks.scale`, from the project's folder: measures, writes the figures as JSON and
the plots as PNG. With the default sizes it takes about an hour and 10 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, TypeAlias

from benchmarks.contenders import Bench, open_bench
from benchmarks.processes import BenchmarkFailed
from benchmarks.scale_load import Point, by_concurrency, by_workers, memory
from benchmarks.scale_plots import draw
from benchmarks.scale_size import by_size

PLOTS: Final = Path(__file__).parent / "plots"

Part: TypeAlias = Callable[[Bench, "Options"], list[Point]]


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says."""

    parts: list[str]
    concurrency: list[int]
    workers: list[int]
    sizes: list[int]
    keys: int
    seconds: float
    rounds: int
    json: Path
    plots: Path


PARTS: Final[dict[str, Part]] = {
    "concurrency": lambda bench, to: by_concurrency(bench, to.concurrency, to.rounds, to.seconds),
    "workers": lambda bench, to: by_workers(bench, to.workers, to.rounds, to.seconds),
    "size": lambda _bench, to: by_size(to.sizes, to.rounds),
    "memory": lambda bench, to: memory(bench, to.keys),
}


def options_of(arguments: Sequence[str] | None) -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--parts", nargs="+", choices=list(PARTS), default=list(PARTS), help="(all)")
    add(
        "--concurrency", nargs="+", type=int, default=[1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
        help="connections (%(default)s)",
    )  # fmt: skip
    add("--workers", nargs="+", type=int, default=[1, 2], help="(%(default)s)")
    add(
        "--sizes", nargs="+", type=int, default=[10_000, 100_000, 1_000_000, 20_000_000],
        help="receipts in the table (%(default)s)",
    )  # fmt: skip
    add("--keys", type=int, default=1_000_000, help="different keys, for memory (%(default)s)")
    add("--seconds", type=float, default=3.0, help="measured in each turn (%(default)s)")
    add("--rounds", type=int, default=5, help="turns of each contender (%(default)s)")
    add("--json", type=Path, default=Path("build/scale.json"), help="the figures (%(default)s)")
    add("--plots", type=Path, default=PLOTS, help="folder of the plots (%(default)s)")
    return Options(**vars(parser.parse_args(arguments)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, draw; return the exit status.

    A run with some of the parts keeps the figures of the others from the JSON that is there.
    """
    options = options_of(arguments)
    found = json.loads(options.json.read_text()) if options.json.exists() else {}
    try:
        with open_bench() as bench:
            for part in options.parts:
                print(f"scale: {part}", file=sys.stderr, flush=True)
                points = PARTS[part](bench, options)
                found[part] = {
                    "about": bench.about(),
                    "points": [asdict(point) for point in points],
                }
    except BenchmarkFailed as failed:
        print(failed, file=sys.stderr)
        return 2
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    for part in options.parts:
        for point in found[part]["points"]:
            print(", ".join(f"{name} {value}" for name, value in point.items()))
    options.plots.mkdir(parents=True, exist_ok=True)
    for part, result in found.items():
        draw(part, [Point(**point) for point in result["points"]], options.plots / f"{part}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
