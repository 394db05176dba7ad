"""What a profile makes of the answers that come back over the wire."""

from __future__ import annotations

import pytest

from client.clients import Setup, info, named
from client.loopback import Loopback, Reply
from client.shipped import any_profile
from replayfloor.client import OutcomePending, OutcomeUnknown
from replayfloor.core.outcome import Outcome


def test_a_replayed_failure_ends_the_operation_for_good(loopback: Loopback) -> None:
    """And a loop around the client cannot get past it."""
    loopback.script(Reply(500), Reply(500, (("Idempotent-Replayed", "true"),)))
    setup = Setup(profile=any_profile("stripe-v1"))
    for _ in range(3):
        with setup.client() as client, pytest.raises(OutcomeUnknown):
            client.post(loopback.url(), extensions=named("invoice-1"))

    assert len(loopback.received) == 2


def test_a_provider_may_call_off_the_next_attempt(loopback: Loopback) -> None:
    loopback.script(Reply(503, (("Stripe-Should-Retry", "false"),)))
    with Setup(profile=any_profile("stripe-v1")).client() as client:
        response = client.post(loopback.url())

    assert (response.status_code, len(loopback.received)) == (503, 1)
    assert info(response).outcome is Outcome.UNKNOWN


def test_a_provider_cannot_ask_for_attempts_without_end(loopback: Loopback) -> None:
    loopback.script(Reply(404, (("Stripe-Should-Retry", "true"),)))
    setup = Setup(profile=any_profile("stripe-v1"))
    with setup.client() as client, pytest.raises(OutcomePending):
        client.post(loopback.url())

    assert len(loopback.received) == setup.retry.attempts_max
