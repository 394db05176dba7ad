"""Searches a target for inputs that break its promise: `python -m fuzz.run --seconds 60 key`.

Run with `tests` on PYTHONPATH. The fuzzer (atheris, and libFuzzer within it) takes over the
process that it runs in, and so it gets one of its own; it begins with the target's corpus.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fuzz.corpus import FOLDER, read_corpus, write_inputs

TARGETS: Final = tuple(sorted(path.stem for path in FOLDER.glob("*.txt")))

MEMORY_MB: Final = 2048
"""A process that takes more has a leak or an allocation that an input decides over: an idle one
with everything imported takes about 130 MB. What is looked at is the peak, and a process inherits
that of whoever has started it: a test process may have had 600 MB."""

INPUT_S: Final = 10
"""One input must not take longer: the largest take milliseconds, and on a loaded machine 1 s."""

INPUT_BYTES: Final = 4096
"""Longer inputs find the same branches, later."""

NO_RUN_LIMIT: Final = -1


@dataclass(frozen=True, slots=True)
class Found:
    """How a search ended.

    `broken` is True if an input broke the promise, `report` is the fuzzer's output, with that
    input as a bytes literal; `interesting` are the inputs that reached something new.
    """

    broken: bool
    report: str
    interesting: list[bytes]


def search(target: str, *, seconds: int, runs: int = NO_RUN_LIMIT, seed: int = 1) -> Found:
    """Search one target, until `seconds` or `runs` inputs are over, whichever comes first.

    The same seed and number of inputs make the same search.
    """
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        begun, found = Path(folder, "corpus"), Path(folder, "found")
        write_inputs(read_corpus(target), begun)
        found.mkdir()
        command = [
            *(sys.executable, "-m", "fuzz.within", target, str(found), str(begun)),
            *(f"-max_total_time={seconds}", f"-runs={runs}", f"-seed={seed}"),
            *(f"-rss_limit_mb={MEMORY_MB}", f"-timeout={INPUT_S}", f"-max_len={INPUT_BYTES}"),
            *(f"-artifact_prefix={folder}/", "-print_final_stats=1"),
        ]
        ended = subprocess.run(command, capture_output=True, text=True, errors="replace")
        inputs = sorted((path.read_bytes() for path in found.iterdir()), key=len)
    return Found(ended.returncode != 0, ended.stdout + ended.stderr, inputs)


def main() -> int:
    """Search the targets that the command line names; return 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="fuzz.run", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--found", type=int, default=0, help="print so many inputs it found")
    parser.add_argument("targets", nargs="+", choices=TARGETS)
    given = parser.parse_args()
    broken = False
    for target in given.targets:
        result = search(target, seconds=given.seconds, seed=given.seed)
        broken = broken or result.broken
        sys.stdout.write(f"== {target}\n{result.report}\n")
        sys.stdout.writelines(f"{each!r}\n" for each in result.interesting[: given.found])
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
