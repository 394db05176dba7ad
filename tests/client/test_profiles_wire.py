"""What a profile puts on the wire, and what it makes of the answers that come back over it."""

from __future__ import annotations

import json
from dataclasses import replace
from email.utils import parsedate_to_datetime

import pytest

from client.clients import START_NS, Setup, info, named
from client.loopback import DROP, OK, Loopback, Reply
from client.shipped import any_profile
from replayfloor.client import OutcomePending, OutcomeUnknown
from replayfloor.core.errors import UsageError
from replayfloor.core.outcome import Outcome

JSON = ("Content-Type", "application/json; charset=utf-8")
IN_USE = b'{"error": {"code": "idempotency_key_in_use", "type": "invalid_request_error"}}'
CONFLICT = b'{"error": {"code": "lock", "type": "invalid_request_error"}}'
MISMATCH = b'{"error": {"type": "idempotency_error"}}'
PLAID = replace(any_profile("plaid-transfer"), paths=())
STRIPE = replace(any_profile("stripe-v1"), paths=())


def test_a_key_in_the_body_is_in_every_attempt_and_in_no_header(loopback: Loopback) -> None:
    loopback.script(DROP, Reply(503), OK)
    with Setup(profile=PLAID).client() as client:
        response = client.post(loopback.url(), json={"amount": "1.00"})

    bodies = loopback.bodies()
    assert len(bodies) == 3
    assert len(set(bodies)) == 1
    assert json.loads(bodies[0]) == {"idempotency_key": info(response).key, "amount": "1.00"}
    for received in loopback.received:
        assert received.values("idempotency-key") == []
        assert received.values("content-length") == [str(len(bodies[0]))]


def test_a_key_in_the_body_survives_a_restart(loopback: Loopback) -> None:
    loopback.script(DROP)
    setup = Setup(profile=PLAID)
    for _ in range(2):
        with setup.client() as client, pytest.raises(OutcomePending):
            client.post(loopback.url(), json={"amount": "1.00"}, extensions=named("invoice-1"))

    assert len(loopback.bodies()) == 8
    assert len(set(loopback.bodies())) == 1


def test_a_form_has_no_place_for_a_key_in_the_body(loopback: Loopback) -> None:
    setup = Setup(profile=PLAID)
    with setup.client() as client, pytest.raises(UsageError, match="JSON object"):
        client.post(loopback.url(), data={"amount": "1.00"})

    assert (loopback.received, setup.journal.pending()) == ([], ())


def test_our_servers_are_told_the_first_attempt_every_time(loopback: Loopback) -> None:
    loopback.script(DROP, DROP, OK)
    with Setup(profile=any_profile("replayfloor")).client() as client:
        client.post(loopback.url(), headers={"Repeatability-First-Sent": "yesterday"})

    for received in loopback.received:
        (told,) = received.values("repeatability-first-sent")
        assert parsedate_to_datetime(told).timestamp() == START_NS // 10**9
    assert len(loopback.received) == 3


@pytest.mark.parametrize(
    ("body", "sent"), [(IN_USE, 2), (CONFLICT, 1), (MISMATCH, 1), (b"not json", 1)]
)
def test_stripes_conflicts_are_told_apart_by_their_codes(
    body: bytes, sent: int, loopback: Loopback
) -> None:
    loopback.script(Reply(409, (JSON,), body), OK)
    with Setup(profile=STRIPE).client() as client:
        client.post(loopback.url())

    assert len(loopback.received) == sent


def test_a_mismatch_after_a_lost_answer_leaves_the_outcome_unknown(loopback: Loopback) -> None:
    loopback.script(DROP, Reply(400, (JSON,), MISMATCH))
    with Setup(profile=STRIPE).client() as client:
        response = client.post(loopback.url())

    assert (response.status_code, len(loopback.received)) == (400, 2)
    assert info(response).outcome is Outcome.UNKNOWN


def test_a_replayed_failure_ends_the_operation_for_good(loopback: Loopback) -> None:
    """And a loop around the client cannot get past it."""
    loopback.script(Reply(500), Reply(500, (("Idempotent-Replayed", "true"),)))
    setup = Setup(profile=STRIPE)
    for _ in range(3):
        with setup.client() as client, pytest.raises(OutcomeUnknown):
            client.post(loopback.url(), extensions=named("invoice-1"))

    assert len(loopback.received) == 2


def test_a_provider_may_call_off_the_next_attempt(loopback: Loopback) -> None:
    loopback.script(Reply(503, (("Stripe-Should-Retry", "false"),)))
    with Setup(profile=STRIPE).client() as client:
        response = client.post(loopback.url())

    assert (response.status_code, len(loopback.received)) == (503, 1)
    assert info(response).outcome is Outcome.UNKNOWN


def test_a_provider_cannot_ask_for_attempts_without_end(loopback: Loopback) -> None:
    loopback.script(Reply(402, (("Stripe-Should-Retry", "true"),)))
    setup = Setup(profile=STRIPE)
    with setup.client() as client, pytest.raises(OutcomePending):
        client.post(loopback.url())

    assert len(loopback.received) == setup.retry.attempts_max


def test_what_gocardless_calls_a_conflict_is_the_result(loopback: Loopback) -> None:
    conflict = b'{"error": {"errors": [{"reason": "idempotent_creation_conflict"}]}}'
    loopback.script(DROP, Reply(409, (JSON,), conflict))
    setup = Setup(profile=any_profile("gocardless"))
    with setup.client() as client:
        response = client.post(loopback.url())

    assert (response.status_code, info(response).outcome) == (409, Outcome.DEFINITIVE)
    assert info(response).replayed
    assert setup.journal.pending() == ()
