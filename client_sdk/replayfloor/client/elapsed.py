"""How long ago an operation was first attempted: arithmetic on looks at the clocks. Pure.

No clock is trusted alone. The wall clock may be set, the boot's clock ends with the boot, and what
the journal knows stands still while nothing is written. Each of them is a lower bound of the time
that passed (the wall clock unless it was set forward, and then sending only stops early), so the
largest of them counts. A wall clock that went back is a lower bound of nothing: then nothing is
sent. What stays unseen is a wall clock that was set back by less than the time for which the
machine was off: it shows too little, no other clock reaches over a boot, nothing contradicts it.
"""

from __future__ import annotations

from typing import Final

from replayfloor.client.effects import Moment, Send
from replayfloor.core.journal import JournalEntry
from replayfloor.core.journal_rules import NS_PER_S

CLOCK_STEP_MAX_S: Final = 1.0
"""A step back of the wall clock that says nothing: two machines that share a journal, or one that
NTP corrects, disagree by less. The send deadline's margin is sixty times as long."""
_STEP_MAX_NS: Final = int(CLOCK_STEP_MAX_S * NS_PER_S)


def elapsed_ns(entry: JournalEntry, moment: Moment) -> int:
    """Return the ns since the first attempt, at least; never less than the journal knows."""
    passed_ns = moment.wall_ns - entry.first_attempt_at_ns
    since_ns = _since_ns(entry.boot_id, entry.first_boot_ns, moment)
    # The largest of them, and without `max`: it is asked at every look.
    if since_ns > passed_ns:
        passed_ns = since_ns
    return passed_ns if passed_ns > entry.elapsed_ns else entry.elapsed_ns


def behind_s(seen_ns: int, moment: Moment) -> float | None:
    """Return the seconds by which the wall clock went back behind `seen_ns`; None if it did not."""
    behind_ns = seen_ns - moment.wall_ns
    return behind_ns / NS_PER_S if behind_ns > _STEP_MAX_NS else None


def is_late(send: Send, moment: Moment) -> bool:
    """Return whether the send deadline has passed, by the clocks and by what the flow knew."""
    seen, deadline_ns = send.seen, send.send_deadline_ns
    known_ns = send.now_ns + _since_ns(seen.boot_id, seen.boot_ns, moment)
    return moment.wall_ns >= deadline_ns or known_ns >= deadline_ns


def _since_ns(boot_id: str, boot_ns: int, moment: Moment) -> int:
    if boot_id == "" or boot_id != moment.boot_id:
        return 0
    since_ns = moment.boot_ns - boot_ns
    return since_ns if since_ns > 0 else 0


def passed_s(since: Moment, moment: Moment) -> float:
    """Return the seconds between two looks at the clocks, the most that either clock shows."""
    boot_ns = _since_ns(since.boot_id, since.boot_ns, moment)
    return max(boot_ns, moment.wall_ns - since.wall_ns, 0) / NS_PER_S
