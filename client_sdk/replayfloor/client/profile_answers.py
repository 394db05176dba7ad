"""How a provider's answers are read: which of them mean what for a key. Data and its look-ups.

What follows from an answer is decided in `classify`. Everything here is what sources state; an
answer that no rule names is read by its status alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, cast

from replayfloor.core.errors import ConfigurationError
from replayfloor.core.message import Headers, Response, get_first
from replayfloor.core.problem import ProblemKind, problem_kind

ANY_STATUS: Final = frozenset(range(100, 600))
ERROR_STATUSES: Final = frozenset(range(400, 600))

REPLAYED_FIELDS: Final = ("idempotent-replayed", "idempotency-replayed")
"""Either says that the answer is the stored one. The first is Stripe's and ours."""

RETRY_AFTER_FIELD: Final = "retry-after"

LIFETIME_FIELD: Final = b"idempotency-key-lifetime"
"""For how long the server keeps a key, in seconds (our own servers advertise it)."""

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PLACE: Final = re.compile(r"(?:\*|[A-Za-z0-9_-]+)(?:\.(?:\*|[A-Za-z0-9_-]+))*")
_ITEMS: Final = "*"
_FLAGS: Final = {b"true": True, b"false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """An answer with one of these statuses, and one of these codes if there are any.

    A status alone is a sign only where the provider uses it for nothing else: a mere 400 does not
    say that a key was reused.
    """

    statuses: frozenset[int] = ERROR_STATUSES
    codes: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Refuse a sign that no answer gives, or that every error gives."""
        if not self.statuses or not self.statuses <= ANY_STATUS:
            raise ConfigurationError("the statuses of a sign are within 100..599, at least one")
        if self.statuses >= ERROR_STATUSES and not self.codes:
            raise ConfigurationError("a sign needs a status, or a code, that tells it from others")

    def given(self, status: int, codes: frozenset[str]) -> bool:
        """Return whether an answer with this status and these codes gives it."""
        return status in self.statuses and (not self.codes or bool(self.codes & codes))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRules:
    """What a provider's answers mean for the key.

    Args:
        in_flight: the first request with the key still runs: wait, and ask again.
        mismatch: the key belongs to another request. A defect of the caller, never retried.
        executed: an earlier request with the key was executed, and its answer is not repeated.
        not_executed: nothing was executed, and the same request may succeed later.
        codes_at: where an error's code is in a JSON body: names joined by dots, `*` for each item
            of a list (`error.code`, `errors.*.code`).
        replayed_by: header fields whose value `true` says that the answer is the stored one.
        replayed_final: statuses of a stored answer that are the result of the operation.
        burnt: statuses of a stored answer that say no more than that the first request failed in
            some way. The key repeats them for as long as it is known, and the outcome stays
            unknown.
        should_retry: the header field that says `true` or `false` about another attempt.
        hint_required: no answer is followed by another attempt unless the field says `true`.

    Raises ConfigurationError.
    """

    in_flight: tuple[Sign, ...] = ()
    mismatch: tuple[Sign, ...] = ()
    executed: tuple[Sign, ...] = ()
    not_executed: tuple[Sign, ...] = ()
    codes_at: tuple[str, ...] = ()
    replayed_by: tuple[str, ...] = REPLAYED_FIELDS
    replayed_final: frozenset[int] = ANY_STATUS
    burnt: frozenset[int] = frozenset()
    should_retry: str = ""
    hint_required: bool = False
    telling: frozenset[bytes] = field(init=False, repr=False, compare=False)
    """The header fields that are looked at, here and for what the server says of keys (`support`);
    an answer with none of them is read by its status, unless there are signs or a hint is required.
    """

    has_signs: bool = field(init=False, repr=False, compare=False)
    """Whether any answer is a sign."""

    def __post_init__(self) -> None:
        """Refuse rules that could never match; write header names as they are compared."""
        for name in (*self.replayed_by, *((self.should_retry,) if self.should_retry else ())):
            if not is_field_name(name):
                raise ConfigurationError(f"{name!r} is not the name of a header field")
        for place in self.codes_at:
            if not _PLACE.fullmatch(place):
                raise ConfigurationError(f"{place!r} does not say where an error's code is")
        if any(sign.codes for sign in self._signs()) and not self.codes_at:
            raise ConfigurationError("signs with codes need codes_at: where a code is in the body")
        if not (self.replayed_final | self.burnt) <= ANY_STATUS:
            raise ConfigurationError("statuses are within 100..599")
        if self.hint_required and not self.should_retry:
            raise ConfigurationError("hint_required needs should_retry, the field of the hint")
        object.__setattr__(self, "should_retry", self.should_retry.lower())
        lower = tuple(name.lower() for name in self.replayed_by)
        object.__setattr__(self, "replayed_by", lower)
        hints = (self.should_retry,) if self.should_retry else ()
        names = (*lower, *hints, *REPLAYED_FIELDS, RETRY_AFTER_FIELD)
        telling = frozenset((*(name.encode() for name in names), LIFETIME_FIELD))
        object.__setattr__(self, "telling", telling)
        object.__setattr__(self, "has_signs", bool(self._signs()))

    @property
    def reads_bodies(self) -> bool:
        """Whether the codes in JSON bodies matter, so that the flow has to be given them."""
        return any(sign.codes for sign in self._signs())

    def silent(self, response: Response) -> bool:
        """Return whether an answer says nothing but its status: as nearly all do.

        Of bodies the flow is given only those that may say something.
        """
        if response.body or self.has_signs or self.hint_required:
            return False
        return self.telling.isdisjoint([name for name, _ in response.headers])

    def _signs(self) -> tuple[Sign, ...]:
        return (*self.in_flight, *self.mismatch, *self.executed, *self.not_executed)

    def codes(self, response: Response) -> frozenset[str]:
        """Return the error codes of an answer; none if its body is not JSON, or was not read."""
        if not self.reads_bodies or not response.body:
            return frozenset()
        try:
            content: object = json.loads(response.body)
        except (ValueError, RecursionError):
            return frozenset()
        found = (each for place in self.codes_at for each in _at(content, place.split(".")))
        return frozenset(found)

    def replayed(self, headers: Headers) -> bool:
        """Return whether the provider says that the answer is the stored one."""
        return any(flag(headers, name) for name in self.replayed_by)

    def hint(self, headers: Headers) -> bool | None:
        """Return what the provider says about another attempt, or None."""
        said = flag(headers, self.should_retry) if self.should_retry else None
        return False if said is None and self.hint_required else said


def is_field_name(text: str) -> bool:
    """Return whether a header field can have this name (RFC 9110, 5.6.2)."""
    return _TOKEN.fullmatch(text) is not None


def flag(headers: Headers, name: str) -> bool | None:
    """Return the value of a field that says `true` or `false`; None for anything else."""
    value = get_first(headers, name.encode("ascii"))
    return None if value is None else _FLAGS.get(value.strip().lower())


def problem_of(response: Response) -> ProblemKind | None:
    """Return which of our own servers' problems an answer is; None if it is none."""
    if not response.body:  # also where it was not read, because it is something else
        return None
    return problem_kind(get_first(response.headers, b"content-type") or b"", response.body)


def _at(content: object, steps: list[str]) -> Iterator[str]:
    """Yield the codes at a place: texts, and numbers as text; anything else is none."""
    if not steps:
        if isinstance(content, str | int) and not isinstance(content, bool):
            yield str(content)
        return
    step, rest = steps[0], steps[1:]
    if step == _ITEMS:
        items = cast("list[object]", content) if isinstance(content, list) else []
        for item in items:
            yield from _at(item, rest)
    elif isinstance(content, dict):
        yield from _at(cast("dict[str, object]", content).get(step), rest)


GENERIC: Final = AnswerRules()
"""Nothing is known of the provider: statuses, our own problems, and the usual marks of a replay."""
