"""One JSON line of `replayfloor.client.telemetry` as a sighting of its operation. Pure.

A line is data from outside: a disk may have torn it, and a log of something else may stand in the
same file. What is no event of ours is corrupt, and what a later version writes is refused rather
than guessed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Final, cast

from replayfloor.client.events import Ending
from replayfloor.client.tail.sightings import Sighting, Word
from replayfloor.core.errors import UsageError
from replayfloor.core.outcome import Outcome

VERSION: Final = 1
"""Of the lines; a reader of version 1 ignores the names that it does not know."""

_NS_PER_S: Final = 1_000_000_000
_BEGINS: Final = frozenset({"AttemptStarted", "AttemptLeft"})
_RESTS: Final = "OperationEnded"
_EVENTS: Final = _BEGINS | {
    _RESTS,
    "AttemptEnded",
    "WaitStarted",
    "DeadlineFence",
    "ClockWentBack",
    "BudgetExhausted",
    "JournalFailed",
}

_OUTCOMES: Final = {outcome.name: int(outcome) for outcome in Outcome}
_WORDS: Final = {
    Ending.UNKNOWN.value: int(Word.UNKNOWN),
    Ending.KEPT.value: int(Word.ENDED),
    Ending.CLOSED.value: int(Word.ENDED),
}
"""Endings that say more than the outcome does."""

_MOMENT_MAX_NS: Final = 2**62
"""In the year 2116; the sums and differences of two such moments fit 64 bits."""

_SECONDS_MAX: Final = _MOMENT_MAX_NS / _NS_PER_S
_ATTEMPTS_MAX: Final = 2**31


class LineCorrupt(ValueError):
    """The line is no event: torn, or of something else."""


def of_line(line: bytes) -> Sighting | None:
    """Return what a line tells; None if it tells nothing of an attempt.

    Raises LineCorrupt, and UsageError for a version that this release does not know.
    """
    fields = _fields(line)
    event = _text(fields, "event")
    attempt = _whole(fields, "attempt", _ATTEMPTS_MAX)
    # Without an attempt there is no first one to count from: the journal could not be written.
    if event not in _EVENTS or attempt == 0:
        return None
    at_ns = _whole(fields, "at_ns", _MOMENT_MAX_NS)
    elapsed_ns = int(_seconds(fields, "elapsed_s") * _NS_PER_S)
    retention_s = None if fields.get("retention_s") is None else _seconds(fields, "retention_s")
    begins, rests = event in _BEGINS, event == _RESTS
    return Sighting(
        namespace=_text(fields, "namespace"),
        operation_id=_text(fields, "operation_id"),
        provider=_text(fields, "provider"),
        seen_at_ns=at_ns,
        # Never later than the first attempt: the elapsed time is at least what the wall shows.
        first_attempt_at_ns=at_ns - elapsed_ns,
        sent_ns=elapsed_ns if begins else 0,
        elapsed_ns=elapsed_ns,
        attempts=attempt,
        outcome=_outcome(fields),
        word=_WORDS.get(_text(fields, "ending"), 0) if rests else 0,
        begun_at_ns=at_ns if begins else 0,
        rested_at_ns=at_ns if rests else 0,
        retention_s=retention_s or None,
        send_deadline_ns=None,
    )


def _fields(line: bytes) -> Mapping[str, object]:
    try:
        loaded: object = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise LineCorrupt("no JSON") from error
    if not isinstance(loaded, dict):
        raise LineCorrupt("no JSON object")
    fields = cast("dict[str, object]", loaded)
    version = fields.get("v")
    if type(version) is not int:
        raise LineCorrupt("no version")
    if version != VERSION:
        raise UsageError(
            f"a line has version {version}, and this release reads version {VERSION} of the "
            "telemetry's lines: use the release that wrote it, or a newer one"
        )
    return fields


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise LineCorrupt(f"{name} is no text")
    # JSON can spell half a surrogate pair, which no file and no database takes.
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode("utf-8")


def _whole(fields: Mapping[str, object], name: str, most: int) -> int:
    value = fields.get(name)
    if type(value) is not int or not 0 <= value <= most:
        raise LineCorrupt(f"{name} is no such number")
    return value


def _seconds(fields: Mapping[str, object], name: str) -> float:
    value = fields.get(name)
    if type(value) is not float and type(value) is not int:
        raise LineCorrupt(f"{name} is no number")
    if not 0 <= value <= _SECONDS_MAX or not math.isfinite(value):
        raise LineCorrupt(f"{name} is no such time")
    return float(value)


def _outcome(fields: Mapping[str, object]) -> int:
    try:
        return _OUTCOMES[_text(fields, "outcome")]
    except KeyError:
        raise LineCorrupt("outcome has no such name") from None
