"""How a route receives webhooks: whose, how they are verified, and what becomes of each event.

Route("POST", "/hooks/stripe", effects="atomic",
      key=webhook("stripe", verify=StripeSignature("whsec_...")))
"""

from __future__ import annotations

import inspect
from typing import cast

from replayfloor.core.errors import ConfigurationError
from replayfloor.server.webhooks.delivery import Verifier
from replayfloor.server.webhooks.key import Acknowledge, PastHorizon, WebhookKey
from replayfloor.server.webhooks.presets import preset
from replayfloor.server.webhooks.source import WebhookSource
from replayfloor.server.webhooks.verify_standard import StandardWebhooksSignature


class _Unset:
    """A verifier was not given at all."""


UNSET = _Unset()


def webhook(
    source: str | WebhookSource,
    *,
    verify: Verifier | _Unset | None = UNSET,
    endpoint: str | None = None,
    ack: Acknowledge = "after",
    past_horizon: PastHorizon = "acknowledge",
    ordered: bool = False,
) -> WebhookKey:
    """Return the key of a route that receives webhooks: the id of the event that each tells of.

    Args:
        source: the name of a sender whose facts are shipped ("stripe"; `replayfloor providers list`
            shows them), or a WebhookSource.
        verify: called with each Delivery before anything is looked up; raises InvalidSignature, and
            returns nothing. No async function: over ASGI it is called in a thread.
            None says that deliveries were verified before this middleware. Left out, a warning is
            logged: whoever can reach the route could use up the ids of events to come.
        endpoint: names the endpoint, so that it may move to another path: the same event sent to
            two endpoints is applied by both. Default: the path of the request.
        ack: "after" (default): the sender is answered when the event was applied. "first": as soon
            as the event is stored; workers apply it then, and repeat that until it succeeds. Needs
            receipts in Postgres.
        past_horizon: what becomes of an event that is older than receipts are kept, or whose
            receipt has expired. "acknowledge" (default): a 2xx is answered and recorded, and the
            application is not called. "handler": it is called, and `claim.past_horizon` is True.
        ordered: with ack="first", events of one subject (`WebhookSource.subject`) are applied one
            after the other, in the order of their arrival.

    Raises ConfigurationError for an unknown sender or value, and NoEventId for a sender whose
    events have no id.
    """
    if isinstance(source, str):
        source = preset(source)
    if not isinstance(cast("object", source), WebhookSource):
        raise ConfigurationError(
            f"webhook: expected a sender's name or a WebhookSource, not {source!r}"
        )
    unverified = isinstance(verify, _Unset)
    verify = None if isinstance(verify, _Unset) else verify
    _check_verifier(verify)
    if isinstance(verify, StandardWebhooksSignature):
        _check_signed_id(source, verify.header_prefix)
    _check("ack", ack, ("after", "first"))
    _check("past_horizon", past_horizon, ("acknowledge", "handler"))
    if ordered and (ack != "first" or source.subject is None):
        raise ConfigurationError(
            'webhook: ordered=True needs ack="first", and a source that says what its events are '
            "about (WebhookSource.subject)"
        )
    if endpoint is not None and not endpoint:
        raise ConfigurationError("webhook: endpoint is a name, or None for the request's path")
    return WebhookKey(
        source=source,
        verify=verify,
        endpoint=endpoint,
        ack=ack,
        past_horizon=past_horizon,
        ordered=ordered,
        unverified=unverified,
    )


def _check_verifier(verify: object) -> None:
    if verify is not None and not callable(verify):
        raise ConfigurationError("webhook: verify is a function of a Delivery, or None")
    call: object = getattr(verify, "__call__", None)  # noqa: B004 - of an instance
    if inspect.iscoroutinefunction(verify) or inspect.iscoroutinefunction(call):
        raise ConfigurationError(
            "webhook: verify is async, and its verdict would never be awaited: give a plain "
            "function; over ASGI it is called in a thread, so it may wait"
        )


def _check_signed_id(source: WebhookSource, prefix: str) -> None:
    """Refuse an id in a header that the signature does not cover: anybody could change it."""
    place = source.event_id.lower()
    if place.startswith("header ") and place != f"header {prefix.lower()}-id":
        raise ConfigurationError(
            f"webhook: {source.name} has its event id in {source.event_id!r}, and the signature "
            f'covers "header {prefix}-id": give StandardWebhooksSignature the header_prefix of '
            "the id, or take the id from there"
        )


def _check(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        expected = " or ".join(map(repr, known))
        raise ConfigurationError(f"webhook: {name}={value!r}: expected {expected}")
