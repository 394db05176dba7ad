"""What a route knows of the webhooks it receives. A value; made by `route.webhook`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from replayfloor.retention.errors import HorizonUnknown
from replayfloor.retention.parties import Sender
from replayfloor.server.webhooks.delivery import Verifier
from replayfloor.server.webhooks.source import WebhookSource

Acknowledge: TypeAlias = Literal["after", "first"]
PastHorizon: TypeAlias = Literal["acknowledge", "handler"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookKey:
    """What `webhook` returns, for the `key` of a Route. See there for the meanings.

    `unverified`: nobody has said that deliveries need not be verified here.
    """

    source: WebhookSource
    verify: Verifier | None
    endpoint: str | None
    ack: Acknowledge
    past_horizon: PastHorizon
    ordered: bool
    unverified: bool

    @property
    def sender(self) -> Sender:
        """How long the sender may deliver again, for `InboundPolicy(senders=…)`.

        Raises HorizonUnknown if the source does not say.
        """
        if self.source.sender is None:
            raise HorizonUnknown(
                f"nobody says for how long {self.source.name!r} delivers again",
                advice="give its source a sender=, or make a Sender with figures of your own",
            )
        return self.source.sender

    def scope(self, path: str) -> str:
        """Return whose the ids of the events are: one endpoint's (Standard Webhooks, Headers)."""
        return "webhook/" + (path if self.endpoint is None else self.endpoint)
