"""How long after its first delivery a broker may hand out a message again: as measured.

The figure is read from the running system (`brokers_sqs`, `brokers_rabbitmq`), from its
configuration (`brokers_kafka`) or taken by value (`brokers_postgres`), and never assumed. Where no
setting ends it, it is unbounded: that is a value too, and forces the user to choose a number.
Here is only what comes out.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from replayfloor.core.errors import IdempotencyError
from replayfloor.retention.durations import in_words
from replayfloor.retention.errors import HorizonUnknown, PolicyError
from replayfloor.retention.terms import Confidence, Length, Provenance, Term, TermKind, as_term


class BrokerUnavailable(IdempotencyError):
    """The broker did not answer, or not in a way that can be understood."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting as it was read: its name, its value as text, and what it does."""

    name: str
    value: str
    does: str

    def __str__(self) -> str:
        """Return it on one line."""
        return f"{self.name} = {self.value}: {self.does}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What was measured.

    Args:
        broker: what kind of broker.
        queue: which queue, topic or kind of job.
        seconds: how long after its first delivery a message may be handed out again; None if no
            setting ends it.
        driver: the setting that decides it; "" if none does.
        settings: all that was read.
        reasons: how the figure came about, in order.
        unbounded: what has no end; () if there is a figure.
        while_consumed_s: how long it takes at most while consumers are running, if that is known:
            something to start from where a number has to be chosen.
        confidence: measured, or given if it was taken by value.
        source: where it was read.
        read_on: the day.
    """

    broker: str
    queue: str
    seconds: float | None
    driver: str
    settings: tuple[Setting, ...]
    reasons: tuple[str, ...]
    unbounded: tuple[str, ...]
    source: str
    read_on: date
    while_consumed_s: float | None = None
    confidence: Confidence = Confidence.MEASURED

    def __post_init__(self) -> None:
        """Refuse a window that is neither: it ends somewhere, or says what has no end."""
        if (self.seconds is None) != bool(self.unbounded):
            raise PolicyError("a window has a length, or says what has no end")

    @property
    def is_bounded(self) -> bool:
        """Whether some setting ends it."""
        return self.seconds is not None

    def term(self, chosen: Length | None = None) -> Term:
        """Return the figure for a policy.

        `chosen` is the user's number, which an unbounded window needs. Raises HorizonUnknown if
        it is missing, and PolicyError if it is shorter than what was measured.
        """
        if chosen is None:
            if self.seconds is None:
                raise self.must_be_chosen()
            worth = self._provenance(self.confidence, f"{self.driver} decides")
            return Term(TermKind.BROKER_REDELIVERY, self.seconds, worth)
        note = "; ".join(("chosen", *self.unbounded))
        given = as_term(
            TermKind.BROKER_REDELIVERY, chosen, self._provenance(Confidence.GIVEN, note)
        )
        if given.seconds is None:
            raise self.must_be_chosen()
        if self.seconds is not None and given.seconds < self.seconds:
            raise PolicyError(
                f"{given} is shorter than what was measured, {in_words(self.seconds)}",
                advice=f"{self.driver} decides: shorten that, or choose more",
            )
        return given

    def must_be_chosen(self) -> HorizonUnknown:
        """Return the error that asks for a number."""
        hint = (
            f"while consumers are running it ends after {in_words(self.while_consumed_s)}: "
            "choose that or more"
            if self.while_consumed_s is not None
            else "choose a number that you are ready to answer for"
        )
        return HorizonUnknown(
            f"{self.broker} {self.queue}: no setting ends the redelivery of a message, because "
            f"{'; and '.join(self.unbounded)}",
            advice=hint,
        )

    def _provenance(self, confidence: Confidence, note: str) -> Provenance:
        return Provenance(self.source, self.read_on, confidence, note)


def whole_number(name: str, value: object, *, least: int = 0) -> int:
    """Return a setting as a whole number; raises BrokerUnavailable if it is none."""
    try:
        number = int(str(value))
    except ValueError:
        number = least - 1
    if number < least:
        raise BrokerUnavailable(f"{name} is {value!r}, which is no number of ours")
    return number


def check_moves_back(moves_back: int) -> None:
    """Refuse a negative number of times; raises PolicyError."""
    if moves_back < 0:
        raise PolicyError(
            f"moves_back is {moves_back}",
            advice="it is how often a person moves one message back from the dead letters: 0 or "
            "more",
        )
