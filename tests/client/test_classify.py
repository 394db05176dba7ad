"""What an answer teaches, provider by provider: tables of answers as the providers send them."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from client.shipped import any_profile
from replayfloor.client.catalogue import catalogue
from replayfloor.client.classify import Action, Finding, classify
from replayfloor.client.effects import Failure, Reply
from replayfloor.client.profile_answers import GENERIC, AnswerRules
from replayfloor.core.message import Response
from replayfloor.core.outcome import Outcome, join
from replayfloor.core.problem import HANDLER_FAILED, Problem, in_flight, key_expired, key_reused

RETRY, HAND_OVER = Action.RETRY, Action.HAND_OVER
NOT_SENT, REJECTED, IN_FLIGHT = Outcome.NOT_SENT, Outcome.REJECTED, Outcome.IN_FLIGHT
UNKNOWN, DEFINITIVE = Outcome.UNKNOWN, Outcome.DEFINITIVE

STRIPE_IN_USE = {"error": {"type": "idempotency_error", "code": "idempotency_key_in_use"}}
STRIPE_MISMATCH = {"error": {"type": "idempotency_error", "message": "other parameters"}}
STRIPE_CONFLICT = {"error": {"type": "invalid_request_error", "code": "resource_already_exists"}}
ADYEN_RACE = {"status": 422, "errorCode": "704", "errorType": "validation"}
ADYEN_STORE = {"status": 503, "errorCode": 703}
GOCARDLESS_CONFLICT = {
    "error": {
        "type": "invalid_state",
        "code": 409,
        "errors": [
            {"reason": "other"},
            {"reason": "idempotent_creation_conflict", "links": {"conflicting_resource_id": "PM1"}},
        ],
    }
}
SQUARE_REUSED = {
    "errors": [{"category": "INVALID_REQUEST_ERROR", "code": "IDEMPOTENCY_KEY_REUSED"}]
}


def rules_of(name: str) -> AnswerRules:
    """Return how a provider of the catalogue answers."""
    return any_profile(name).answers


@dataclass(frozen=True)
class Answer:
    """One answer. A body is JSON unless it is bytes."""

    status: int
    body: object = None
    headers: tuple[tuple[str, str], ...] = ()

    def reply(self) -> Reply:
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        named = tuple((name.lower().encode(), text.encode()) for name, text in self.headers)
        return Reply(Response(self.status, ((b"content-type", b"application/json"), *named), body))


def hint(name: str, value: str) -> tuple[tuple[str, str], ...]:
    return ((name, value),)


REPLAYED = hint("Idempotent-Replayed", "true")


def find(name: str, answer: Answer, known: Outcome = UNKNOWN) -> Finding:
    return classify(answer.reply(), known, rules_of(name))


TABLE: list[tuple[str, Answer, Outcome, Action]] = [
    ("stripe-v1", Answer(409, STRIPE_IN_USE), IN_FLIGHT, RETRY),
    ("stripe-v1", Answer(409, STRIPE_CONFLICT), IN_FLIGHT, HAND_OVER),
    ("stripe-v1", Answer(409, b"<html>"), IN_FLIGHT, HAND_OVER),
    ("stripe-v1", Answer(400, STRIPE_MISMATCH), REJECTED, HAND_OVER),
    ("stripe-v1", Answer(500), UNKNOWN, RETRY),
    ("stripe-v1", Answer(500, headers=REPLAYED), UNKNOWN, HAND_OVER),
    ("stripe-v1", Answer(402, headers=REPLAYED), DEFINITIVE, HAND_OVER),
    ("stripe-v1", Answer(503, headers=hint("Stripe-Should-Retry", "false")), UNKNOWN, HAND_OVER),
    ("stripe-v1", Answer(409, headers=hint("stripe-should-retry", "TRUE")), IN_FLIGHT, RETRY),
    ("stripe-v1", Answer(200, headers=hint("Stripe-Should-Retry", "true")), DEFINITIVE, HAND_OVER),
    ("stripe-v2", Answer(500, headers=REPLAYED), UNKNOWN, RETRY),
    ("paypal", Answer(400, {"name": "PAYPAL_REQUEST_ID_PREVIOUSLY_USED"}), REJECTED, HAND_OVER),
    ("paypal-orders", Answer(409, {"name": "DUPLICATE_REQUEST_ID"}), REJECTED, HAND_OVER),
    ("paypal-orders", Answer(503), UNKNOWN, RETRY),
    ("adyen", Answer(422, ADYEN_RACE, hint("transient-error", "true")), IN_FLIGHT, RETRY),
    ("adyen", Answer(422, ADYEN_RACE), IN_FLIGHT, HAND_OVER),
    ("adyen", Answer(503, ADYEN_STORE, hint("transient-error", "true")), REJECTED, RETRY),
    ("adyen", Answer(500), UNKNOWN, HAND_OVER),
    ("mollie", Answer(409), IN_FLIGHT, RETRY),
    ("mollie", Answer(400), REJECTED, HAND_OVER),
    ("mollie", Answer(500, headers=REPLAYED), DEFINITIVE, HAND_OVER),
    ("checkout", Answer(409), IN_FLIGHT, HAND_OVER),
    ("klarna", Answer(503), UNKNOWN, RETRY),
    ("dwolla", Answer(409), IN_FLIGHT, RETRY),
    ("dwolla", Answer(201), DEFINITIVE, HAND_OVER),
    ("plaid-transfer", Answer(400, {"error_type": "IDEMPOTENCY_ERROR"}), REJECTED, HAND_OVER),
    ("modern-treasury", Answer(409), IN_FLIGHT, RETRY),
    ("yookassa", Answer(202), IN_FLIGHT, RETRY),
    ("yookassa", Answer(200), DEFINITIVE, HAND_OVER),
    ("svix", Answer(423), IN_FLIGHT, RETRY),
    ("square", Answer(400, SQUARE_REUSED), REJECTED, HAND_OVER),
    ("gocardless", Answer(409, GOCARDLESS_CONFLICT), DEFINITIVE, HAND_OVER),
    ("gocardless", Answer(409, {"error": {"errors": []}}), IN_FLIGHT, HAND_OVER),
    ("mercado-pago", Answer(423), IN_FLIGHT, RETRY),
    ("mercado-pago", Answer(409), IN_FLIGHT, HAND_OVER),
    ("increase", Answer(409, {"type": "idempotency_key_already_used_error"}), REJECTED, HAND_OVER),
    ("razorpay-payouts", Answer(400), REJECTED, HAND_OVER),
    ("xero", Answer(409), IN_FLIGHT, HAND_OVER),
    ("replayfloor", Answer(500, headers=REPLAYED), UNKNOWN, HAND_OVER),
]


# Profiles of the same provider that answer like one of the table.
ALIKE = {
    "paypal-payments": "paypal-orders",
    "paypal-payments-v1": "paypal-orders",
    "paypal-payouts": "paypal-orders",
    "paypal-subscriptions": "paypal-orders",
    "paypal-vault": "paypal-orders",
    "plaid-wallet": "plaid-transfer",
    "razorpay-refunds": "razorpay-payouts",
}


@pytest.mark.parametrize(("name", "answer", "outcome", "action"), TABLE)
def test_an_answer_after_a_lost_one_is_read_as_the_provider_means_it(
    name: str, answer: Answer, outcome: Outcome, action: Action
) -> None:
    found = find(name, answer)

    assert (found.outcome, found.action) == (outcome, action)


def test_the_table_speaks_of_every_provider() -> None:
    for name in {*catalogue()} - {name for name, *_ in TABLE}:
        assert rules_of(name) == rules_of(ALIKE[name])


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("stripe-v1", Answer(400, STRIPE_MISMATCH)),
        ("stripe-v1", Answer(400, STRIPE_MISMATCH, hint("Stripe-Should-Retry", "true"))),
        ("paypal-orders", Answer(409, {"name": "DUPLICATE_REQUEST_ID"})),
        ("plaid-transfer", Answer(400, {"error_type": "IDEMPOTENCY_ERROR"})),
        ("square", Answer(400, SQUARE_REUSED)),
        ("increase", Answer(409, {"type": "idempotency_key_already_used_error"})),
    ],
)
@pytest.mark.parametrize("known", list(Outcome))
def test_a_mismatch_is_never_retried_and_takes_nothing_back(
    name: str, answer: Answer, known: Outcome
) -> None:
    found = find(name, answer, known)

    assert (found.mismatch, found.action, found.outcome) == (True, HAND_OVER, REJECTED)
    assert join(known, found.outcome) == max(known, REJECTED)


@pytest.mark.parametrize("status", [500, 502, 503, 599])
def test_a_replayed_failure_of_stripe_burns_the_key(status: int) -> None:
    """The key repeats it until it is forgotten: asking again spends the budget on nothing."""
    found = find("stripe-v1", Answer(status, headers=REPLAYED))

    assert (found.burnt, found.replayed, found.settles) == (True, True, False)


def test_a_hint_does_not_revive_a_burnt_key() -> None:
    headers = (*REPLAYED, ("Stripe-Should-Retry", "true"))

    assert find("stripe-v1", Answer(500, headers=headers)).action is HAND_OVER


def test_a_handler_that_failed_burns_the_key_whatever_the_profile() -> None:
    response = HANDLER_FAILED.to_response()
    stored = Response(
        response.status, (*response.headers, (b"idempotent-replayed", b"true")), response.body
    )

    first = classify(Reply(response), NOT_SENT)
    again = classify(Reply(stored), first.outcome)

    assert (first.outcome, first.action, first.burnt) == (UNKNOWN, RETRY, False)
    assert (again.outcome, again.action, again.burnt) == (UNKNOWN, HAND_OVER, True)


@pytest.mark.parametrize(
    ("known", "burnt", "outcome"), [(NOT_SENT, False, REJECTED), (UNKNOWN, True, UNKNOWN)]
)
def test_an_expired_key_can_tell_nothing_of_an_earlier_attempt(
    known: Outcome, burnt: bool, outcome: Outcome
) -> None:
    found = classify(Reply(key_expired(60).to_response()), known)

    assert (found.burnt, found.outcome, found.action) == (burnt, outcome, HAND_OVER)


def test_a_conflict_that_executed_earlier_settles_the_operation() -> None:
    found = find("gocardless", Answer(409, GOCARDLESS_CONFLICT), NOT_SENT)

    assert (found.outcome, found.settles, found.replayed) == (DEFINITIVE, True, True)


@pytest.mark.parametrize(
    ("status", "value", "action", "outcome"),
    [
        (503, "false", HAND_OVER, UNKNOWN),
        (429, "false", HAND_OVER, REJECTED),
        (503, "true", RETRY, UNKNOWN),
        (503, "perhaps", RETRY, UNKNOWN),
        (402, "true", RETRY, UNKNOWN),
        (404, "true", RETRY, REJECTED),
        (409, "true", RETRY, IN_FLIGHT),
        (422, "true", RETRY, REJECTED),
        (401, "true", HAND_OVER, REJECTED),
        (201, "true", HAND_OVER, DEFINITIVE),
    ],
)
def test_a_hint_may_forbid_an_attempt_or_ask_for_one(
    status: int, value: str, action: Action, outcome: Outcome
) -> None:
    """What it asks for is only an attempt like the others: budget and deadline are not its."""
    rules = AnswerRules(should_retry="x-should-retry")

    found = classify(Answer(status, headers=hint("X-Should-Retry", value)).reply(), NOT_SENT, rules)

    assert (found.action, found.outcome) == (action, outcome)
    assert found.settles is (status == 201)


def test_a_lost_answer_is_asked_for_again_even_if_only_hints_allow_it() -> None:
    found = classify(Failure("reset", maybe_sent=True), NOT_SENT, rules_of("adyen"))

    assert (found.outcome, found.action) == (UNKNOWN, RETRY)


@pytest.mark.parametrize(
    ("problem", "flags"),
    [(in_flight(1000), (True, False)), (key_reused(("body",)), (False, True))],
)
@pytest.mark.parametrize("rules", [GENERIC, rules_of("stripe-v1"), rules_of("replayfloor")])
def test_our_own_problems_are_known_under_every_profile(
    problem: Problem, flags: tuple[bool, bool], rules: AnswerRules
) -> None:
    found = classify(Reply(problem.to_response()), UNKNOWN, rules)

    assert (found.in_flight, found.mismatch) == flags


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b"\xff", b"[" * 100_000, b"null"])
def test_a_body_that_says_nothing_leaves_the_status(body: bytes) -> None:
    found = find("stripe-v1", Answer(409, body), NOT_SENT)

    assert (found.outcome, found.action) == (DEFINITIVE, HAND_OVER)


def test_a_mark_that_no_source_speaks_of_is_not_believed() -> None:
    assert find("svix", Answer(503, headers=REPLAYED)).action is RETRY
    assert classify(Answer(503, headers=REPLAYED).reply(), UNKNOWN).action is HAND_OVER


def test_a_stored_answer_whose_status_is_not_final_is_read_as_any_other() -> None:
    rules = AnswerRules(replayed_final=frozenset(range(200, 300)))

    assert classify(Answer(503, headers=REPLAYED).reply(), UNKNOWN, rules).action is RETRY
    assert classify(Answer(201, headers=REPLAYED).reply(), UNKNOWN, rules).settles


@pytest.mark.parametrize("name", catalogue())
def test_no_status_alone_teaches_more_than_it_may(name: str) -> None:
    """Whatever a profile says: what fails on the server's side is never the result by itself."""
    for status in range(100, 600):
        found = find(name, Answer(status))

        assert found.outcome is not DEFINITIVE or status < 500
        assert not found.settles or found.action is HAND_OVER
