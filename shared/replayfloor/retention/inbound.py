"""The policy of a handler: for how long its receipts are kept, as a matter of arithmetic.

What our client may do at a provider is another question, and another type: `outbound`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from replayfloor.retention.canonical import canonical_text, digest_of
from replayfloor.retention.coverage import Coverage
from replayfloor.retention.derivation import Derivation, Horizon, derive
from replayfloor.retention.durations import exact_us, in_words, parse_duration, seconds
from replayfloor.retention.errors import HorizonUnknown, PolicyError, RetentionTooShort
from replayfloor.retention.parties import Sender, require_known, require_name
from replayfloor.retention.terms import Length, Term, TermKind, as_optional_term

HORIZON_TERMS: Final = (TermKind.CLIENT_RETRY_BUDGET, TermKind.BROKER_REDELIVERY)
ADDED_TERMS: Final = (
    TermKind.RECONCILIATION_CADENCE,
    TermKind.PLANNED_OUTAGE,
    TermKind.SAFETY_MARGIN,
)

RETENTION_WITHOUT_DERIVATION: Final = (
    "state whose retries it has to outlive (senders, client_retry_budget or broker_redelivery): "
    "the floor follows from them, and retention may then only be longer"
)


@dataclass(frozen=True, slots=True, init=False)
class InboundPolicy:
    """How long the receipts of a handler are kept, and why.

    Args:
        name: for messages, and in the digest.
        senders: who delivers to the handler; the most patient one decides.
        client_retry_budget: how long our own clients repeat a request.
        broker_redelivery: until when a broker in front of the handler delivers a message again.
        reconciliation_cadence: the time from one reconciliation to the next.
        planned_outage: the longest time that we plan to be away.
        safety_margin: difference of clocks, queues that lag, replay by hand.
        retention: how long receipts are kept if that is to be longer than the floor.

    A length is a text ("84h", "P3D"), seconds, a timedelta or a Term; "unknown" if no source
    states it. Raises PolicyError.
    """

    name: str
    senders: tuple[Sender, ...]
    client_retry_budget: Term | None
    broker_redelivery: Term | None
    reconciliation_cadence: Term | None
    planned_outage: Term | None
    safety_margin: Term | None
    retention: Term | None

    def __init__(
        self,
        name: str,
        *,
        senders: tuple[Sender, ...] = (),
        client_retry_budget: Length | None = None,
        broker_redelivery: Length | None = None,
        reconciliation_cadence: Length | None = None,
        planned_outage: Length | None = None,
        safety_margin: Length | None = None,
        retention: Length | None = None,
    ) -> None:
        """Take the figures; refuse a policy that says nothing of retries."""
        require_name(name, "a policy")
        names = [sender.name for sender in senders]
        if twice := {each for each in names if names.count(each) > 1}:
            raise PolicyError(f"{name}: {', '.join(sorted(twice))} is named twice among senders")
        if not senders and client_retry_budget is None and broker_redelivery is None:
            raise PolicyError(
                f"{name}: a retention is derived, not chosen", advice=RETENTION_WITHOUT_DERIVATION
            )
        given = {
            TermKind.CLIENT_RETRY_BUDGET: client_retry_budget,
            TermKind.BROKER_REDELIVERY: broker_redelivery,
            TermKind.RECONCILIATION_CADENCE: reconciliation_cadence,
            TermKind.PLANNED_OUTAGE: planned_outage,
            TermKind.SAFETY_MARGIN: safety_margin,
            TermKind.RETENTION: retention,
        }
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "senders", tuple(senders))
        for kind, each in given.items():
            object.__setattr__(self, kind.value, as_optional_term(kind, each))
        if self.retention is not None and self.retention.seconds is None:
            raise PolicyError(f"{name}: retention is ours, so it cannot be unknown")

    def with_terms(self, **lengths: Length | None) -> InboundPolicy:
        """Return the same policy with other figures, given as for a new one; None takes one away.

        Raises PolicyError.
        """
        kinds = (*HORIZON_TERMS, *ADDED_TERMS, TermKind.RETENTION)
        require_known(lengths, kinds)
        every = (*self._own_terms(), self.retention)
        now: dict[str, Length | None] = {term.name.value: term for term in every if term}
        return InboundPolicy(self.name, senders=self.senders, **{**now, **lengths})

    @property
    def horizons(self) -> tuple[Horizon, ...]:
        """Every answer to how late a retry can arrive: the policy's own, then the senders'."""
        own = (self.client_retry_budget, self.broker_redelivery)
        return (
            *(Horizon(term) for term in own if term is not None),
            *(Horizon(term, sender) for sender in self.senders for term in sender.terms),
        )

    @property
    def additions(self) -> tuple[Term, ...]:
        """What is added to the longest horizon, as far as it is stated."""
        every = (self.reconciliation_cadence, self.planned_outage, self.safety_margin)
        return tuple(term for term in every if term is not None)

    @property
    def floor(self) -> Derivation:
        """The shortest safe retention, and how it came about.

        Raises HorizonUnknown if a figure is unknown, and PolicyError if the sum is no length.
        """
        return derive(self.name, self.horizons, self.additions)

    @property
    def retention_s(self) -> float:
        """How long receipts are kept: the floor, or longer if the policy says so.

        Raises RetentionTooShort, HorizonUnknown, PolicyError.
        """
        if self.retention is None or self.retention.seconds is None:
            return self.floor.floor_s
        self.require(self.retention.seconds, "retention")
        return self.retention.seconds

    def require(self, retention_s: float, name: str = "retention") -> None:
        """Refuse a retention, in seconds, that is below the floor.

        Raises RetentionTooShort, which names both and the figure that decides; HorizonUnknown.
        """
        floor = self.floor
        if exact_us(retention_s, name) >= exact_us(floor.floor_s):
            return
        raise RetentionTooShort(
            f"{self.name}: {name} is {in_words(retention_s)}, below the floor of "
            f"{in_words(floor.floor_s)}, which {floor.driver.label} decides: {floor.formula} "
            f"({Coverage(retention_s, floor.floor_s)})",
            advice=f"keep receipts for at least {in_words(floor.floor_s)}, or change the figure "
            "that is wrong",
        )

    @property
    def text(self) -> str:
        """Every term and the retention as text; equal for equal policies, whatever the order."""
        try:
            floor_s = self.floor.floor_s
        except HorizonUnknown:
            floor_s = None
        kept = floor_s if self.retention is None else self.retention.seconds
        own = [("", term) for term in self._own_terms()]
        theirs = [(sender.name, term) for sender in self.senders for term in sender.terms]
        return canonical_text("inbound", self.name, [*own, *theirs], {"retention": kept})

    @property
    def digest(self) -> str:
        """Hex SHA-256 of `text`: two deployments that disagree have two digests."""
        return digest_of(self.text)

    def _own_terms(self) -> tuple[Term, ...]:
        own = (self.client_retry_budget, self.broker_redelivery)
        return (*(term for term in own if term is not None), *self.additions)


def assert_covers(policy: InboundPolicy, horizon: Length) -> None:
    """Fail a test if receipts are gone before a horizon ends.

    `horizon` is a text ("30d"), seconds, a timedelta or a Term. Raises AssertionError, which
    names both lengths, the share that is covered and what is left open; RetentionTooShort and
    HorizonUnknown if the policy keeps nothing that could be compared.
    """
    horizon_s = _seconds_of(horizon)
    kept = Coverage(policy.retention_s, horizon_s)
    if not kept.is_complete:
        raise AssertionError(
            f"{policy.name} keeps receipts for {in_words(kept.retention_s)}, which does not "
            f"cover a horizon of {in_words(kept.horizon_s)}: {kept}; a retry that comes "
            f"after {in_words(kept.retention_s)} would find no receipt"
        )


def _seconds_of(horizon: Length) -> float:
    if isinstance(horizon, Term):
        if horizon.seconds is None:
            raise PolicyError("an unknown horizon cannot be covered", advice="choose a figure")
        return horizon.seconds
    if isinstance(horizon, str):
        return parse_duration(horizon)
    return seconds(exact_us(horizon, "a horizon"))
