"""The verifiers that are shipped, by name. Each is a Verifier: a function of a Delivery."""

from __future__ import annotations

from replayfloor.server.webhooks.verify_body import (
    GitHubSignature,
    HmacSignature,
    ShopifySignature,
)
from replayfloor.server.webhooks.verify_parts import SIGNATURES_MAX, TOLERANCE_S
from replayfloor.server.webhooks.verify_paypal import PayPalTransmission, PayPalVerification
from replayfloor.server.webhooks.verify_slack import SlackSignature
from replayfloor.server.webhooks.verify_standard import StandardWebhooksSignature
from replayfloor.server.webhooks.verify_stripe import StripeSignature

__all__ = [
    "SIGNATURES_MAX",
    "TOLERANCE_S",
    "GitHubSignature",
    "HmacSignature",
    "PayPalTransmission",
    "PayPalVerification",
    "ShopifySignature",
    "SlackSignature",
    "StandardWebhooksSignature",
    "StripeSignature",
]
