"""The clocks of the machine, read once per look. What follows from a look is in `elapsed`.

CLOCK_BOOTTIME goes on while the machine is suspended, which CLOCK_MONOTONIC does not on Linux: a
laptop that slept through a provider's retention has to notice. It compares only within one boot,
which the kernel names (proc(5), /proc/sys/kernel/random/boot_id).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Final, TypeAlias

from replayfloor.client.effects import Moment

Clock: TypeAlias = Callable[[], int | Moment]
"""The wall clock in ns since 1970 (UTC), or both clocks."""

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_wall_ns: Final = time.time_ns
_BOOT_CLOCK: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)


def system_clock() -> Moment:
    """Return what the machine's clocks show."""
    # In one piece: a call looks half a dozen times.
    if _BOOT_CLOCK is not None:
        return Moment(_wall_ns(), time.clock_gettime_ns(_BOOT_CLOCK), boot_id())
    return Moment(_wall_ns(), time.monotonic_ns(), boot_id())


@cache
def boot_id() -> str:
    """Return the name of the boot that `boot_ns` counts from.

    Where the kernel names none, or has no such clock, it is random: then two moments compare only
    within one process (and the children it forks).
    """
    if _BOOT_CLOCK is not None:
        try:
            return _BOOT_ID.read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            pass
    return str(uuid.uuid4())


def look(clock: Clock) -> Moment:
    """Return what a clock shows; one that knows the wall clock alone has no boot."""
    shown = clock()
    return shown if isinstance(shown, Moment) else Moment(shown)


def looking_at(clock: Clock) -> Callable[[], Moment]:
    """Return what looks at a clock; that of the machine needs nobody in between."""
    return system_clock if clock is system_clock else partial(look, clock)
