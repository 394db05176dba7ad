"""The options of a guard, checked once at construction: those of a middleware that need no HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, cast

from replayfloor.core.errors import ConfigurationError
from replayfloor.retention import InboundPolicy
from replayfloor.server.options import MiddlewareOptions, OnEvent, RetentionOption
from replayfloor.server.policy import AfterExpiry, Options, delivered_again
from replayfloor.server.routes import EffectsOption
from replayfloor.server.settings import Settings, build
from replayfloor.server.webhooks.key import PastHorizon


class GuardOptions(TypedDict, total=False):
    """Options of AsyncGuard and Guard; all may be left out.

    What a block does
        effects: where blocks write. "atomic": in the receipt's own transaction, through
            `claim.connection`. "external" (default): anywhere. "repeatable": anywhere, and harmless
            when run again.
        lease_s: how soon a dead consumer is noticed, in seconds; a block may take longer, its lease
            is renewed. Default: 30.
        wait_for_s: how long a second delivery waits for the first before StillInFlight is raised,
            in seconds. Default: 0.

    Receipts
        namespace: separates the messages of applications that share one store, and may have a
            retention of its own. Default: "default".
        retention: how long receipts are kept: an InboundPolicy, which derives it from the broker's
            settings (`broker_redelivery`), or seconds or a timedelta. Default: for good.
        policy: an InboundPolicy; a `retention` beside it that is below its floor is refused.
        accept_shorter: whether this deployment may keep receipts for a shorter time than the one
            before it, of the same namespace, has declared to the database. Default: False; `open`
            refuses it then.
        past_horizon: what becomes of a message that is older than receipts are kept, or whose
            receipt has expired. "acknowledge" (default): PastHorizon is raised, and that is
            recorded. "handler": the block is run, and `claim.past_horizon` is True.
        audit_retention: how long a message is known as used after its receipt has expired; 16
            bytes a message. Default: no longer than the receipt.
        maintain: make partitions ahead and drop what has expired, in a thread of the consumer.
            Needs a retention, and the receipts as a URL. Default: False.

    Around
        on_event: called with a ServerEvent for everything that happens to a message.
    """

    effects: EffectsOption
    lease_s: float
    wait_for_s: float
    namespace: str
    retention: RetentionOption
    policy: InboundPolicy | None
    accept_shorter: bool
    past_horizon: PastHorizon
    audit_retention: timedelta | float | None
    maintain: bool
    on_event: OnEvent | None


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """What all messages of one guard share, but for the stores."""

    common: Settings
    options: Options


def build_guard(options: GuardOptions) -> GuardSettings:
    """Return the settings of a guard. Raises ConfigurationError."""
    known = GuardOptions.__annotations__
    if unknown := sorted(set(options) - set(known)):
        raise ConfigurationError(
            f"unknown option {', '.join(unknown)}; there are {', '.join(sorted(known))}"
        )
    given: Mapping[str, object] = {**options}
    past = given.get("past_horizon", "acknowledge")
    if past not in ("acknowledge", "handler"):
        raise ConfigurationError(f"past_horizon={past!r}: expected 'acknowledge' or 'handler'")
    shared = {name: value for name, value in given.items() if name != "past_horizon"}
    common = build(cast("MiddlewareOptions", shared))
    return GuardSettings(common, delivered_again(common.routes.defaults, AfterExpiry(past)))
