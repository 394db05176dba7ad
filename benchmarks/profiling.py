"""Records what a worker does while it is under load, with py-spy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.load_plan import WARM_UP_S

FORMATS: Final = ("speedscope", "flamegraph", "raw")
ENDINGS: Final = {"speedscope": "json", "flamegraph": "svg", "raw": "txt"}
SAMPLES_A_SECOND: Final = 500


@dataclass(frozen=True, slots=True)
class Profile:
    """Where profiles go, and in which of FORMATS."""

    folder: Path
    format: str


@contextmanager
def profiled(
    profile: Profile | None, pids: Sequence[int], label: str, seconds: float
) -> Generator[None]:
    """Record the last of the processes for as long as the load lasts; nothing without a profile.

    The samples stop the worker each for a moment, so a profiled turn is slower than others.
    """
    if profile is None:
        yield
        return
    profile.folder.mkdir(parents=True, exist_ok=True)
    target = profile.folder / f"{label}.{ENDINGS[profile.format]}"
    recorder = subprocess.Popen(
        [
            str(Path(sys.executable).with_name("py-spy")), "record", "--pid", str(pids[-1]),
            "--duration", str(max(1, round(seconds + WARM_UP_S))), "--format", profile.format,
            "--rate", str(SAMPLES_A_SECOND), "--nonblocking", "--output", str(target),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield
    finally:
        recorder.wait()
