"""Whose horizons a policy has to answer to: those who send to us, and those we send to. Data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from replayfloor.retention.errors import PolicyError
from replayfloor.retention.terms import Length, Term, TermKind, as_optional_term, as_term

SENDER_TERMS: Final = (
    TermKind.AUTOMATIC_RETRY,
    TermKind.MANUAL_RESEND,
    TermKind.BROKER_REDELIVERY,
)


@dataclass(frozen=True, slots=True, init=False)
class Sender:
    """Who delivers to us, and for how long after the first attempt the same may come again.

    Args:
        name: for messages, and in the digest.
        automatic_retry: until when the sender repeats a delivery by itself.
        manual_resend: until when a person can have it delivered again.
        broker_redelivery: until when a broker between the sender and us delivers it again.

    A length is a text ("72h"), seconds, a timedelta or a Term; "unknown" if no source states it;
    "0s" if the sender never does so; left out if there is no such thing. To choose a figure for
    an unknown one: `sender.with_terms(manual_resend="15d")`. Raises PolicyError.
    """

    name: str
    automatic_retry: Term | None
    manual_resend: Term | None
    broker_redelivery: Term | None

    def __init__(
        self,
        name: str,
        *,
        automatic_retry: Length | None = None,
        manual_resend: Length | None = None,
        broker_redelivery: Length | None = None,
    ) -> None:
        """Take the figures; refuse a sender that states none."""
        given = (automatic_retry, manual_resend, broker_redelivery)
        require_name(name, "a sender")
        if all(each is None for each in given):
            raise PolicyError(
                f"sender {name!r} states no horizon",
                advice=f"state {', '.join(kind.value for kind in SENDER_TERMS)}, "
                'each a duration or "unknown"',
            )
        object.__setattr__(self, "name", name)
        for kind, each in zip(SENDER_TERMS, given, strict=True):
            object.__setattr__(self, kind.value, as_optional_term(kind, each))

    @property
    def terms(self) -> tuple[Term, ...]:
        """The figures that are stated, "unknown" included, in the order of the arguments."""
        every = (self.automatic_retry, self.manual_resend, self.broker_redelivery)
        return tuple(term for term in every if term is not None)

    def with_terms(self, **lengths: Length | None) -> Sender:
        """Return the same sender with other figures, given as for a new one; None takes one away.

        Raises PolicyError.
        """
        now: dict[str, Length | None] = {term.name.value: term for term in self.terms}
        require_known(lengths, SENDER_TERMS)
        return Sender(self.name, **{**now, **lengths})


@dataclass(frozen=True, slots=True, init=False)
class Provider:
    """Who takes our requests, and for how long it remembers a key of ours.

    `key_retention` is given as a Sender's lengths are. Raises PolicyError.
    """

    name: str
    key_retention: Term

    def __init__(self, name: str, *, key_retention: Length) -> None:
        """Take the figure."""
        require_name(name, "a provider")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "key_retention", as_term(TermKind.KEY_RETENTION, key_retention))


def require_known(lengths: Iterable[str], kinds: Iterable[TermKind]) -> None:
    """Refuse the name of a figure that is none of these; raises PolicyError."""
    names = [kind.value for kind in kinds]
    for name in lengths:
        if name not in names:
            raise PolicyError(f"no figure {name!r}", advice=f"known are {', '.join(names)}")


def require_name(name: str, whose: str) -> None:
    """Refuse an empty name, and one that would not stay on its line; raises PolicyError."""
    if not name or not name.isprintable():
        raise PolicyError(f"{name!r} is no name for {whose}", advice="use printable characters")
