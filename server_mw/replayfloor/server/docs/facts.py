"""What can be said of a set of options, in words and ranges: the same for every format. Pure.

Nothing here is written twice: the ranges come from `policy.disposition`, the limits and the key
rules from the options, so a document cannot say what the middleware does not do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from replayfloor.server.body_rules import BodyRule
from replayfloor.server.margins import skew_ms
from replayfloor.server.policy import (
    AfterExpiry,
    Disposition,
    Effects,
    Options,
    ambiguous_disposition,
    disposition,
)
from replayfloor.server.responses import STATUS_MAX, STATUS_MIN
from replayfloor.server.settings import Settings

KEY_FIELD: Final = "Idempotency-Key"
FIRST_SENT_FIELD: Final = "Repeatability-First-Sent"
REPLAYED_FIELD: Final = "Idempotent-Replayed"
LIFETIME_FIELD: Final = "Idempotency-Key-Lifetime"
UNPROTECTED_FIELD: Final = "Idempotency-Unprotected"

UNITS: Final = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000))
"""Names and milliseconds, largest first; a month or a year has no length of its own."""


# -- statuses ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Statuses:
    """What becomes of a handler's answers: ranges such as "200-306", in order.

    `raised` is the same for a handler that raises or ends without an answer.
    """

    stored: tuple[str, ...]
    freed: tuple[str, ...]
    raised: Disposition
    rolls_back: bool

    @property
    def raised_words(self) -> str:
        """Say what becomes of such a failure: "A failure without an answer …"."""
        if self.raised is Disposition.STORE:
            return "is stored as a 500 handler-failed"
        return "is rolled back, and frees the key" if self.rolls_back else "frees the key"


def statuses(options: Options) -> Statuses:
    """Return what `policy.disposition` says of every status that an answer can have."""
    beyond = (status for status in options.store | options.free if status > STATUS_MAX)
    every = [*range(STATUS_MIN, STATUS_MAX + 1), *sorted(beyond)]
    stored = [status for status in every if disposition(status, options) is Disposition.STORE]
    return Statuses(
        stored=ranges(stored),
        freed=ranges(status for status in every if status not in set(stored)),
        raised=ambiguous_disposition(options),
        rolls_back=options.effects is Effects.ATOMIC,
    )


def ranges(numbers: Iterable[int]) -> tuple[str, ...]:
    """Return ascending numbers as ranges: (1, 2, 3, 5) becomes ("1-3", "5")."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return tuple("-".join(map(str, run)) for run in runs)


# -- times and amounts ---------------------------------------------------------------------------


def words(ms: int) -> str:
    """Return a time in words, exact to the millisecond: "1 day 12 hours", "1.5 seconds"."""
    parts = [_counted(amount, unit) for unit, amount in _parts(ms)]
    return " ".join(parts) or "0 seconds"


def seconds(ms: int) -> str:
    """Return a time in seconds, exact to the millisecond: "90", "0.05"."""
    whole, rest = divmod(ms, 1000)
    return f"{whole}.{rest:03}".rstrip("0") if rest else str(whole)


def iso_duration(ms: int) -> str:
    """Return a time as a duration of ISO 8601: "P35D", "PT1H30M", "PT0.5S"."""
    parts = dict(_parts(ms))
    day = f"{parts['day']}D" if "day" in parts else ""
    rest = "".join(
        f"{parts[unit]}{unit[0].upper()}" for unit in ("hour", "minute", "second") if unit in parts
    )
    if not (day or rest):
        return "PT0S"
    return f"P{day}T{rest}" if rest else f"P{day}"


def _parts(ms: int) -> Iterable[tuple[str, str]]:
    for unit, length in UNITS[:-1]:
        count, ms = divmod(ms, length)
        if count:
            yield unit, str(count)
    if ms:
        yield "second", seconds(ms)


def _counted(amount: str, unit: str) -> str:
    return f"{amount} {unit}" if amount == "1" else f"{amount} {unit}s"


def bytes_words(count: int) -> str:
    """Return a limit: "1048576 bytes (1 MiB)", "1000 bytes"."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count and count % size == 0:
            return f"{count} bytes ({count // size} {unit})"
    return f"{count} bytes"


# -- what is the same request, and what becomes of a dead one -------------------------------------


def pointers(rule: BodyRule) -> tuple[str, ...]:
    """Return the excluded members of a body as JSON pointers (RFC 6901)."""
    return tuple(
        "".join("/" + each.replace("~", "~0").replace("/", "~1") for each in pointer)
        for pointer in rule.exclude
    )


def compared(rule: BodyRule) -> str:
    """Say what makes two requests the same request."""
    always = "method, path, query and media type"
    if not rule.counts:
        return f"{always}; the body does not count"
    if rule.function is not None:
        return f"{always}, and what a rule of the API takes from the request"
    body = "method, path, query, media type and body; JSON and forms are compared by meaning"
    if rule.exclude:
        return f"{body}, without {listed([f'`{each}`' for each in pointers(rule)])}"
    return body


def orphan(effects: Effects) -> str:
    """Say what a request meets whose first execution died without an answer."""
    match effects:
        case Effects.ATOMIC:
            return "nothing of it is left, and a repeated request is executed"
        case Effects.EXTERNAL:
            return "its outcome is unknown, and a repeated request is told so until it is settled"
        case Effects.REPEATABLE:
            return "a repeated request is executed again, which does no harm"
        case _:
            assert_never(effects)


NOT_KEPT: Final = (
    "not kept: a repeated request is told by 409 `answer-not-kept` that it was executed"
)
"""Of the answers of a sensitive operation: "Answers are …"."""


def waiting(wait_ms: int) -> str:
    """Say how long an answer may be held back."""
    return (
        "A request that is repeated while the first one is executed may have to wait for "
        f"{words(wait_ms)} before it is answered."
    )


# -- the expiry policy ----------------------------------------------------------------------------


def expiry(options: Options) -> str:
    """Say the expiry policy, which has to be published (draft -07, 2.5.2)."""
    ms = options.retention_ms
    if ms is None:
        return "Receipts are kept without limit: a key does not expire."
    text = f"Receipts are kept for {words(ms)} ({seconds(ms)} s, {iso_duration(ms)})."
    text += _after_expiry(options)
    text += f" One that tells a time of {words(skew_ms(ms))} ahead or more is refused too."
    return f"{text} So do not repeat a request later than {words(ms)} after it was first sent."


def lifetime(settings: Settings) -> str | None:
    """Return the value of the header Idempotency-Key-Lifetime, or None if it is not sent."""
    return next((value.decode("ascii") for _, value in settings.lifetime_headers), None)


# -- text -----------------------------------------------------------------------------------------


def code(text: str) -> str:
    """Return text as an inline code span of Markdown, whatever backticks it has."""
    longest = max((len(run) for run in _runs_of_backticks(text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _runs_of_backticks(text: str) -> Iterable[str]:
    return "".join(each if each == "`" else " " for each in text).split()


def listed(items: Sequence[str]) -> str:
    """Return "a", "a and b" or "a, b and c"."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def _after_expiry(options: Options) -> str:
    if options.after_expiry is AfterExpiry.HANDLER:
        return (
            " A key that was used longer ago, or tells to be older, is handed to the operation, "
            "which looks at the state of things before it acts."
        )
    told = f"a request that says in `{FIRST_SENT_FIELD}` that it was first sent before that"
    known = "" if options.require_uuid7 else " that is a UUID version 7"
    text = f" An older key{known} is refused with 400 `key-expired`, as is {told}"
    if options.after_expiry is AfterExpiry.REFUSE:
        text += ", and any key that is still known to have been used"
    text += "; nothing is executed."
    if not options.require_uuid7:
        text += " Any other key is taken for a new one then, and the request may be executed again."
    return text
