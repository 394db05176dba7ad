"""What is known of an operation after some attempts. Pure; how an answer is read is not here.

Knowledge only grows. After one attempt that may have been sent, a refused connection says
something about the second attempt and nothing about the first.
"""

from __future__ import annotations

from enum import IntEnum


class Outcome(IntEnum):
    """What is known, from the least to the most. Journals store the numbers: they never change.

    A higher value is never replaced by a lower one. DEFINITIVE is the highest, and so it absorbs
    every other.
    """

    NOT_SENT = 0
    """No byte of a request left, or the peer guarantees that it processed none."""
    REJECTED = 1
    """Every answer was a refusal that provably executed nothing (429, 401, 422, ...)."""
    IN_FLIGHT = 2
    """A request with the same key is still being executed."""
    UNKNOWN = 3
    """A request may have been executed, and no answer tells whether it was."""
    DEFINITIVE = 4
    """The answer of the operation itself was received, or its replay."""

    @property
    def label(self) -> str:
        """The value as text, for logs and metric attributes."""
        return self.name.lower()


def join(known: Outcome, learned: Outcome) -> Outcome:
    """Return what is known after learning something: the greater of the two."""
    return max(known, learned)


def executed_nothing(outcome: Outcome) -> bool:
    """Return whether it is certain that nothing was executed."""
    return outcome <= Outcome.REJECTED
