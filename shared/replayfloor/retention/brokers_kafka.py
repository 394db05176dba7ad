"""Apache Kafka: how far back a consumer may be handed records again, by its configuration. Pure.

What was not committed is read again when the consumer is taken for gone. When its committed
offsets are lost, auto.offset.reset decides: with `earliest` everything is handed out that the topic
still has, and that is as far back as it goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

from replayfloor.core.errors import ConfigurationError
from replayfloor.retention.brokers import Setting, Window, check_moves_back, whole_number
from replayfloor.retention.durations import in_words, parse_duration
from replayfloor.retention.errors import PolicyError

MAX_POLL_INTERVAL_MS: Final = 300_000
SESSION_TIMEOUT_MS: Final = 45_000
AUTO_COMMIT_INTERVAL_MS: Final = 5000
"""Defaults of the consumer, which hold where a configuration is silent."""

SEGMENT_MS: Final = 7 * 86_400_000
"""Default of a topic: a segment is closed after a week, and is deleted as a whole."""

CHECK_INTERVAL_MS: Final = 300_000
"""Default of a broker (log.retention.check.interval.ms): how often it looks what may be deleted."""

_MS_PER_S: Final = 1000.0
_UNLIMITED: Final = -1
_EARLIEST: Final = frozenset({"earliest", "smallest", "beginning"})
_LATEST: Final = frozenset({"latest", "largest", "end", "none", "error"})
_BY_DURATION: Final = "by_duration:"
_RETENTION: Final = (
    ("retention.ms", 1), ("log.retention.ms", 1), ("log.retention.minutes", 60_000),
    ("log.retention.hours", 3_600_000),
)  # fmt: skip


def read_properties(text: str) -> dict[str, str]:
    """Return what a file of Java properties says, such as consumer.properties."""
    found: dict[str, str] = {}
    for line in text.replace("\\\n", "").splitlines():
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        at = min((at for at in map(stripped.find, "=:") if at >= 0), default=len(stripped))
        found[stripped[:at].strip()] = stripped[at + 1 :].strip()
    return found


def kafka_window(
    properties: Mapping[str, object],
    *,
    read_on: date,
    source: str = "by value",
    topic: str = "topic",
    moves_back: int = 0,
) -> Window:
    """Return how far back a consumer may be handed records again.

    Args:
        properties: the consumer's configuration, and the topic's settings beside it.
        read_on: today, which stands beside the figure.
        source: where they stand, such as the names of the files.
        topic: for messages.
        moves_back: 1 or more if somebody resets the offsets by hand, which hands out all that the
            topic still has.

    Raises ConfigurationError for a value that is not understood.
    """
    check_moves_back(moves_back)
    given = _Given(properties)
    uncommitted_s, names, settings = _uncommitted(given)
    reset = str(properties.get("auto.offset.reset", "latest")).strip().lower()
    offsets = given.optional_s("offsets.retention.minutes", 60_000)
    kept_for = "" if offsets is None else f", such as {in_words(offsets)} after the group is empty"
    settings.append(Setting("auto.offset.reset", reset, f"once offsets are lost{kept_for}"))
    reasons = [f"what was not committed is read again after {in_words(uncommitted_s)}"]
    back_s: float | None = 0.0
    driver = names
    unbounded: tuple[str, ...] = ()
    if reset.startswith(_BY_DURATION):
        back_s, driver = _by_duration(reset), "auto.offset.reset"
        reasons.append(f"once offsets are lost, the records of {in_words(back_s)} are handed out")
    elif reset not in _EARLIEST | _LATEST:
        raise ConfigurationError(f"auto.offset.reset is {reset!r}: earliest, latest or none")
    if reset in _EARLIEST or moves_back:
        kept = _kept(given)
        settings += kept.settings
        reasons += kept.reasons
        back_s, driver, unbounded = kept.seconds, kept.driver, kept.unbounded
        why = "auto.offset.reset" if reset in _EARLIEST else "a reset by hand"
        reasons.append(f"once offsets are lost, all that the topic has is handed out, by {why}")
    else:
        reasons.append(
            "a reset of the offsets by hand would hand out all that the topic has: it is not "
            "counted (moves_back = 0)"
        )
    if back_s is not None and back_s < uncommitted_s:
        back_s, driver = uncommitted_s, names
    return Window(
        broker="Kafka",
        queue=topic,
        seconds=back_s,
        driver="" if back_s is None else driver,
        settings=tuple(settings),
        reasons=tuple(reasons),
        unbounded=unbounded,
        while_consumed_s=uncommitted_s,
        source=source,
        read_on=read_on,
    )


def _uncommitted(given: _Given) -> tuple[float, str, list[Setting]]:
    """Return after how long what was not committed is read again, by what, and the settings."""
    every = (
        ("max.poll.interval.ms", MAX_POLL_INTERVAL_MS, "without a poll, the partition moves"),
        ("session.timeout.ms", SESSION_TIMEOUT_MS, "without a heartbeat, the partition moves"),
        ("auto.commit.interval.ms", AUTO_COMMIT_INTERVAL_MS, "between two commits by itself"),
    )
    settings: list[Setting] = []
    longest_s, driver = 0.0, ""
    for name, default_ms, does in every:
        length_s = given.seconds(name, default_ms)
        told = "" if name in given.properties else ", by default"
        settings.append(Setting(name, in_words(length_s), f"{does}{told}"))
        if length_s > longest_s:
            longest_s, driver = length_s, name
    return longest_s, driver, settings


@dataclass(frozen=True, slots=True)
class _Kept:
    """How long a topic has a record; `seconds` is None if there is no end, or it is not told."""

    seconds: float | None
    driver: str
    settings: tuple[Setting, ...] = ()
    reasons: tuple[str, ...] = ()
    unbounded: tuple[str, ...] = ()


def _kept(given: _Given) -> _Kept:
    name, factor = next(
        ((name, factor) for name, factor in _RETENTION if name in given.properties), ("", 1)
    )
    policy = str(given.properties.get("cleanup.policy", "delete")).replace(" ", "")
    if "delete" not in policy.split(","):
        setting = Setting("cleanup.policy", policy, "keeps the last record of each key")
        return _Kept(
            None, "", (setting,), unbounded=("the topic is compacted and deletes nothing",)
        )
    if not name:
        return _Kept(
            None,
            "",
            unbounded=(
                "the configuration does not say how long the topic keeps records: add its "
                "retention.ms (kafka-configs --describe --topic …)",
            ),
        )
    if whole_number(name, given.properties[name], least=_UNLIMITED) == _UNLIMITED:
        setting = Setting(name, "-1", "keeps records for ever")
        return _Kept(None, "", (setting,), unbounded=(f"{name} is -1: records are kept for ever",))
    return _deleted(given, name, given.seconds(name, 0, factor))


def _deleted(given: _Given, name: str, kept_s: float) -> _Kept:
    segment_s = given.seconds("segment.ms", SEGMENT_MS)
    check_s = given.seconds("log.retention.check.interval.ms", CHECK_INTERVAL_MS)
    told = "" if "segment.ms" in given.properties else ", by default"
    return _Kept(
        kept_s + segment_s + check_s,
        f"{name} and segment.ms",
        (
            Setting(name, in_words(kept_s), "after the newest record of its segment"),
            Setting("segment.ms", in_words(segment_s), f"is how old a segment becomes{told}"),
        ),
        (
            f"records are deleted by whole segments: one may outlive {in_words(kept_s)} by the "
            f"{in_words(segment_s)} that its segment was open for, and {in_words(check_s)} until "
            "the broker looks",
        ),
    )


def _by_duration(reset: str) -> float:
    try:
        return parse_duration(reset.removeprefix(_BY_DURATION).upper())
    except PolicyError as error:
        raise ConfigurationError(f"auto.offset.reset: {error}") from error


@dataclass(frozen=True, slots=True)
class _Given:
    properties: Mapping[str, object]

    def seconds(self, name: str, default_ms: int, factor: int = 1) -> float:
        """Return a length of time in seconds; `factor` is how many ms its unit has."""
        found = self.optional_s(name, factor)
        return default_ms / _MS_PER_S if found is None else found

    def optional_s(self, name: str, factor: int = 1) -> float | None:
        """Return the same, or None if the configuration does not say."""
        if name not in self.properties:
            return None
        return whole_number(name, self.properties[name]) * factor / _MS_PER_S
