"""Receivers of webhooks: one event applied once, for as long as its sender may deliver it again.

    Route("POST", "/hooks/stripe", effects="atomic",
          key=webhook("stripe", verify=StripeSignature("whsec_...")))

A webhook has no Idempotency-Key: the key is the id of its event, and how long it has to be kept is
said by its sender.
"""

from replayfloor.server.webhooks.counts import SourceCounts
from replayfloor.server.webhooks.delivery import (
    Delivery,
    Event,
    InvalidSignature,
    NoEventId,
    UnidentifiedEvent,
    Verifier,
)
from replayfloor.server.webhooks.key import WebhookKey
from replayfloor.server.webhooks.presets import preset
from replayfloor.server.webhooks.route import webhook
from replayfloor.server.webhooks.source import WebhookSource
from replayfloor.server.webhooks.verify import (
    GitHubSignature,
    HmacSignature,
    PayPalTransmission,
    PayPalVerification,
    ShopifySignature,
    SlackSignature,
    StandardWebhooksSignature,
    StripeSignature,
)

__all__ = [
    "Delivery",
    "Event",
    "GitHubSignature",
    "HmacSignature",
    "InvalidSignature",
    "NoEventId",
    "PayPalTransmission",
    "PayPalVerification",
    "ShopifySignature",
    "SlackSignature",
    "SourceCounts",
    "StandardWebhooksSignature",
    "StripeSignature",
    "UnidentifiedEvent",
    "Verifier",
    "WebhookKey",
    "WebhookSource",
    "preset",
    "webhook",
]
