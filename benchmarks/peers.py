"""Ours beside the peers that have a durable store, in one run. See benchmarks/README.md.

`python -m benchmarks.peers`, from the project's folder; installs each peer from PyPI, pinned, into
an environment of its own. Exit status 1 if a peer is ahead and `--strict` is given.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.app_spec import AppSpec
from benchmarks.contenders import Bench, Contestant, gunicorn, open_bench
from benchmarks.load_plan import Outcome, Plan
from benchmarks.peer_environments import python_of
from benchmarks.peer_list import PEERS, Peer
from benchmarks.peer_table import Compared, table
from benchmarks.processes import BenchmarkFailed, Worker, python_worker, worker
from benchmarks.scenarios import Load
from benchmarks.server import free_port

from replayfloor.server.stores.migrate import migrate

POOL: Final = 256
"""Keys that are replayed. Some take seconds to make a hundred of them."""

LOADS: Final[tuple[Load, ...]] = ("first", "replay", "in-flight")
FRAMEWORKS: Final = ("starlette", "flask", "django")


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says."""

    frameworks: list[str]
    loads: list[Load]
    connections: int
    seconds: float
    rounds: int
    cache: Path
    json: Path | None
    markdown: Path | None
    strict: bool


def options_of(arguments: Sequence[str] | None) -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--frameworks", nargs="+", choices=FRAMEWORKS, default=list(FRAMEWORKS), help="(all)")
    add("--loads", nargs="+", choices=LOADS, default=list(LOADS), help="(all)")
    add("--connections", type=int, default=16, help="(%(default)s)")
    add("--seconds", type=float, default=3.0, help="measured in each turn (%(default)s)")
    add("--rounds", type=int, default=5, help="turns of each contender (%(default)s)")
    add("--cache", type=Path, default=Path("build/peers"), help="environments (%(default)s)")
    add("--json", type=Path, help="write every outcome to this file")
    add("--markdown", type=Path, help="write the table to this file too")
    add("--strict", action="store_true", help="exit 1 if a peer is ahead")
    return Options(**vars(parser.parse_args(arguments)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Install, measure, report; return the exit status."""
    options = options_of(arguments)
    compared: list[Compared] = []
    try:
        with open_bench() as bench:
            about = bench.about() | {"connections": options.connections}
            for framework in options.frameworks:
                peers = [peer for peer in PEERS if peer.framework == framework]
                for load in options.loads:
                    compared += measure(bench, peers, load, options)
    except BenchmarkFailed as failed:
        print(failed, file=sys.stderr)
        return 2
    text = table(about, compared)
    print(text)
    if options.markdown is not None:
        options.markdown.write_text(text + "\n", encoding="utf-8")
    if options.json is not None:
        found = [{**asdict(one), "ratio": one.ratio} for one in compared]
        options.json.write_text(json.dumps({"about": about, "results": found}, indent=2) + "\n")
    return 1 if options.strict and any(one.is_ahead(compared) for one in compared) else 0


def measure(bench: Bench, peers: Sequence[Peer], load: Load, options: Options) -> list[Compared]:
    """Let all of one framework take turns at one kind of load."""
    with ExitStack() as stack:
        contestants = {
            peer.name: contestant(bench, peer, load, options.cache, stack) for peer in peers
        }
        outcomes: dict[str, list[Outcome]] = {name: [] for name in contestants}
        names = list(contestants)
        for turn in range(options.rounds):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                outcome = contestants[name].run(options.connections, options.seconds)
                outcomes[name].append(outcome)
                print(f"{load} {name}: {outcome.per_second:.0f}/s", file=sys.stderr, flush=True)
    return [
        Compared(peer.framework, peer.name, load, outcomes[peer.name], outcomes["bare"])
        for peer in peers
        if not peer.is_bare
    ]


def contestant(bench: Bench, peer: Peer, load: Load, cache: Path, stack: ExitStack) -> Contestant:
    """Start a contender, and bring it into the state that is measured."""
    served = stack.enter_context(started(bench, peer, load, cache))
    plan = Plan(
        served.port,
        connections=1,
        expected=peer.expected(load),
        keys="fresh" if load == "first" else "pool",
        # Most take the header as it is, and one refuses the quotes.
        bare_keys=bool(peer.requirements),
        pids=served.pids,
    )
    return bench.prepare(plan, load, served, stack, POOL)


@contextmanager
def started(bench: Bench, peer: Peer, load: Load, cache: Path) -> Generator[Worker]:
    """Start a worker of a contender, on databases of its own."""
    port = free_port()
    environment = dict(peer.environment)
    name = "_".join([peer.framework, peer.name.replace(" ", "_"), load.replace("-", "_")])
    spec = AppSpec()
    if not peer.is_bare:
        url = bench.servers.postgres.database(name.replace(".", "_"))
        redis = bench.servers.redis.database()
        environment |= {"PEER_POSTGRES": url, "PEER_REDIS": redis}
        if peer.is_ours:
            migrate(url)
            spec = AppSpec("ours", url, redis)
    environment["BENCH_APP"] = spec.as_json()
    with worker(command(peer, spec, cache, port), port, environment) as served:
        yield served


def command(peer: Peer, spec: AppSpec, cache: Path, port: int) -> list[str]:
    """Return what starts a contender's worker, the same server for all of a framework."""
    if not peer.app:
        return python_worker(spec.as_json(), port)
    python = sys.executable
    if peer.requirements:
        python = str(python_of(cache.resolve(), f"{peer.framework} {peer.name}", peer.pinned()))
    if peer.framework == "starlette":
        return [
            python, "-m", "uvicorn", peer.app, "--port", str(port), "--loop", "uvloop", "--http",
            "httptools", "--no-access-log", "--log-level", "warning", "--timeout-keep-alive", "600",
        ]  # fmt: skip
    return gunicorn(port, peer.app, python)


if __name__ == "__main__":
    sys.exit(main())
