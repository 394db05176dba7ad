"""The policy of a client: until when it may repeat an operation at a provider.

How long our own receipts are kept is another question, and another type: `inbound`.

    reach       = retry budget + the longest pause + retry budget
    send window = key retention - safety margin

A key that a provider has forgotten does not fail: the operation is executed once more. So a plan
whose reach goes beyond the send window is refused, before anything is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from replayfloor.retention.canonical import canonical_text, digest_of
from replayfloor.retention.derivation import Horizon, refuse_unknown
from replayfloor.retention.durations import exact_us, in_words, seconds
from replayfloor.retention.errors import HorizonUnknown, PlanTooLong, PolicyError
from replayfloor.retention.margins import default_margin_s
from replayfloor.retention.parties import Provider, require_known, require_name
from replayfloor.retention.terms import Length, Term, TermKind, as_optional_term, as_term

NS_PER_US: Final = 1000

PAUSE_TERMS: Final = (TermKind.JOB_QUEUE_DELAY, TermKind.PLANNED_OUTAGE, TermKind.MANUAL_RERUN)
"""What may lie between two calls for the same operation."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How long after its first attempt an operation may be sent again by plan.

    `pauses` are the candidates for the longest pause, and `driver` the one that it is; None if no
    pause is planned. One call follows on the pause, so the budget counts twice then.
    """

    reach_s: float
    retry_budget_s: float
    pauses: tuple[Term, ...]
    driver: Term | None

    @property
    def formula(self) -> str:
        """The computation in figures: "2 min + 4 h + 2 min = 244 min"."""
        budget = in_words(self.retry_budget_s)
        if self.driver is None:
            return budget
        return f"{budget} + {self.driver} + {budget} = {in_words(self.reach_s)}"


@dataclass(frozen=True, slots=True, init=False)
class OutboundPolicy:
    """Until when our client may send an operation again, and whether what it plans fits in.

    Args:
        name: for messages, and in the digest.
        provider: who remembers the key, and for how long.
        retry_budget: how long one call goes on, over all of its attempts.
        job_queue_delay: the longest time until a job that failed is tried again.
        planned_outage: the longest time that we plan to be away.
        manual_rerun: the longest time until a person runs it again by hand.
        safety_margin: how long before the end of the provider's retention sending stops. Default:
            `margins.default_margin_s`, the margin of the client's profiles.

    Lengths are given as for InboundPolicy. Raises PolicyError; PlanTooLong only when asked.
    """

    name: str
    provider: Provider
    retry_budget: Term
    job_queue_delay: Term | None
    planned_outage: Term | None
    manual_rerun: Term | None
    safety_margin: Term | None

    def __init__(
        self,
        name: str,
        *,
        provider: Provider,
        retry_budget: Length,
        job_queue_delay: Length | None = None,
        planned_outage: Length | None = None,
        manual_rerun: Length | None = None,
        safety_margin: Length | None = None,
    ) -> None:
        """Take the figures."""
        require_name(name, "a policy")
        given = {
            TermKind.JOB_QUEUE_DELAY: job_queue_delay,
            TermKind.PLANNED_OUTAGE: planned_outage,
            TermKind.MANUAL_RERUN: manual_rerun,
            TermKind.SAFETY_MARGIN: safety_margin,
        }
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "provider", provider)
        object.__setattr__(self, "retry_budget", as_term(TermKind.RETRY_BUDGET, retry_budget))
        for kind, each in given.items():
            object.__setattr__(self, kind.value, as_optional_term(kind, each))

    def with_terms(self, **lengths: Length | None) -> OutboundPolicy:
        """Return the same policy with other figures, given as for a new one; None takes one away.

        Raises PolicyError.
        """
        require_known(lengths, (TermKind.RETRY_BUDGET, *PAUSE_TERMS, TermKind.SAFETY_MARGIN))
        budget = lengths.pop(TermKind.RETRY_BUDGET.value, None) or self.retry_budget
        every = (*self.pauses, self.safety_margin)
        now: dict[str, Length | None] = {term.name.value: term for term in every if term}
        return OutboundPolicy(
            self.name, provider=self.provider, retry_budget=budget, **{**now, **lengths}
        )

    @property
    def pauses(self) -> tuple[Term, ...]:
        """What may lie between two calls for one operation, as far as it is stated."""
        every = (self.job_queue_delay, self.planned_outage, self.manual_rerun)
        return tuple(term for term in every if term is not None)

    @property
    def key_retention_s(self) -> float:
        """Seconds for which the provider remembers a key; raises HorizonUnknown."""
        return self._known(self.provider.key_retention)

    @property
    def margin_s(self) -> float:
        """Seconds before the end of the provider's retention at which sending stops.

        Raises HorizonUnknown, and PolicyError if there would be no time to send in.
        """
        if self.safety_margin is None:
            return default_margin_s(self.key_retention_s)
        margin_s = self._known(self.safety_margin)
        if margin_s >= self.key_retention_s:
            raise PolicyError(
                f"{self.name}: a safety margin of {in_words(margin_s)} leaves nothing of "
                f"the {in_words(self.key_retention_s)} for which {self.provider.name} keeps "
                "a key",
                advice="make it shorter, or leave it out",
            )
        return margin_s

    @property
    def send_window_s(self) -> float:
        """Seconds after the first attempt within which an attempt may start."""
        return seconds(exact_us(self.key_retention_s) - exact_us(self.margin_s))

    def send_deadline_ns(self, first_attempt_at_ns: int) -> int:
        """Return the last moment (exclusive) at which an attempt may start, in ns since 1970."""
        return first_attempt_at_ns + exact_us(self.send_window_s) * NS_PER_US

    @property
    def reach(self) -> Reach:
        """How long after the first attempt the plan may send again; raises HorizonUnknown."""
        return self._reach(self._known(self.retry_budget))

    def require_plan(
        self, *, send_window_s: float | None = None, retry_budget_s: float | None = None
    ) -> None:
        """Refuse a plan that would send after the provider may have forgotten the key.

        `send_window_s` and `retry_budget_s` are what the client really does (its profile's window,
        its RetryPolicy's budget), where that may differ from the policy; the narrower window and
        the longer budget count. Raises PlanTooLong, which names both lengths; HorizonUnknown.
        """
        window_us, own_us = exact_us(self.send_window_s), exact_us(self._known(self.retry_budget))
        if send_window_s is not None:
            window_us = min(window_us, exact_us(send_window_s, "send_window_s"))
        if retry_budget_s is not None:
            own_us = max(own_us, exact_us(retry_budget_s, "retry_budget_s"))
        reach = self._reach(seconds(own_us))
        if exact_us(reach.reach_s) <= window_us:
            return
        over_s, window_s = seconds(exact_us(reach.reach_s) - window_us), seconds(window_us)
        what = reach.driver.name.words if reach.driver else TermKind.RETRY_BUDGET.words
        raise PlanTooLong(
            f"{self.name}: by plan an operation is sent again up to {reach.formula} after its "
            f"first attempt, but at {self.provider.name} that is safe for "
            f"{in_words(window_s)} only ({in_words(over_s)} less): the key would be "
            "forgotten, and the retry executed a second time",
            advice=f"shorten the {what}, or reconcile instead of retrying after "
            f"{in_words(window_s)}",
        )

    @property
    def text(self) -> str:
        """Every term and what follows as text; equal for equal policies."""
        try:
            window_s = self.send_window_s
        except HorizonUnknown:
            window_s = None
        margin = () if self.safety_margin is None else (self.safety_margin,)
        own = [("", term) for term in (self.retry_budget, *self.pauses, *margin)]
        theirs = (self.provider.name, self.provider.key_retention)
        return canonical_text("outbound", self.name, [*own, theirs], {"send_window": window_s})

    @property
    def digest(self) -> str:
        """Hex SHA-256 of `text`."""
        return digest_of(self.text)

    def _known(self, term: Term) -> float:
        if term.seconds is None:
            raise refuse_unknown(self.name, (Horizon(term),))
        return term.seconds

    def _reach(self, budget_s: float) -> Reach:
        for each in self.pauses:
            self._known(each)
        # Of equally long ones the first, so that the words do not change with the order.
        driver = max(self.pauses, key=lambda each: each.us or 0, default=None)
        pause_us = 0 if driver is None else driver.us or 0
        budget_us = exact_us(budget_s)
        if pause_us == 0:
            return Reach(budget_s, budget_s, self.pauses, None)
        return Reach(seconds(2 * budget_us + pause_us), budget_s, self.pauses, driver)
