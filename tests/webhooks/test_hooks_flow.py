"""What the flow of one delivery tells and refuses, and how old its event is; without any store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from replayfloor.core.claims import (
    Abandon,
    Acquire,
    Acquired,
    Claim,
    ClaimAnswer,
    Claimed,
    Commit,
    Fence,
    Finish,
    InFlight,
    Orphaned,
    Reuse,
)
from replayfloor.core.drivers import run
from replayfloor.core.effects import Effect
from replayfloor.core.errors import StoreUnavailable
from replayfloor.core.message import Response
from replayfloor.core.problem import ProblemKind
from replayfloor.retention import Sender
from replayfloor.server import EventKind, ServerEvent
from replayfloor.server.effects import (
    BodyTooLarge,
    Captured,
    ClientGone,
    DeliveryRead,
    Emit,
    ReadDelivery,
    Verify,
)
from replayfloor.server.flow import (
    Admitted,
    Call,
    Delivered,
    Gone,
    Received,
    Recorded,
    Refused,
    receive,
    settle,
)
from replayfloor.server.flow.deliver import admit_delivered, identity
from replayfloor.server.policy import (
    AfterExpiry,
    Disposition,
    Effects,
    Options,
    ambiguous_disposition,
    disposition,
)
from replayfloor.server.webhooks.delivery import Delivery, Event, InvalidSignature
from replayfloor.server.webhooks.route import webhook
from replayfloor.server.webhooks.source import WebhookSource

SHOP = WebhookSource(
    "shop",
    "body /id",
    attempt="header x-attempt",
    busy_status=503,
    sender=Sender("shop-inc", automatic_retry="3d"),
)


def accept(_delivery: Delivery) -> None:
    """Take any delivery for its sender's."""


def refuse(_delivery: Delivery) -> None:
    """Take none."""
    raise InvalidSignature("no")


# -- the flow of one delivery ---------------------------------------------------------------------


def delivered(
    read: object, verify: Callable[[Delivery], None] | None = accept
) -> tuple[object, list[Effect[object]]]:
    """Return what a delivery comes to, and the effects that were asked for on the way."""
    asked: list[Effect[object]] = []

    def perform(effect: Effect[object]) -> object:
        asked.append(effect)
        if isinstance(effect, ReadDelivery):
            return read
        if isinstance(effect, Verify):
            effect.verifier(effect.delivery)
        return None

    return run(receive(webhook(SHOP, verify=verify)), perform), asked


def read(body: bytes, *headers: tuple[bytes, bytes]) -> DeliveryRead:
    """Return a delivery that was read."""
    return DeliveryRead(Delivery("POST", b"/hooks", b"", headers, body, 0))


@pytest.mark.parametrize(
    ("given", "verify", "kind"),
    [
        (BodyTooLarge(), accept, ProblemKind.BODY_TOO_LARGE),
        (read(b'{"id": "e"}'), refuse, ProblemKind.INVALID_SIGNATURE),
        (read(b"{}"), refuse, ProblemKind.INVALID_SIGNATURE),
        (read(b"{}"), accept, ProblemKind.UNIDENTIFIED_EVENT),
    ],
)
def test_each_refusal_of_a_delivery_is_told_with_the_name_of_its_source(
    given: object, verify: Callable[[Delivery], None], kind: ProblemKind
) -> None:
    found, asked = delivered(given, verify)

    assert isinstance(found, Refused)
    assert found.problem.kind is kind
    assert asked[-1] == Emit(ServerEvent(EventKind.REFUSED, "", kind.value, "shop"))


def test_of_a_delivery_that_was_broken_off_nothing_is_told_or_asked() -> None:
    assert delivered(ClientGone()) == (Gone(), [ReadDelivery()])


def test_what_its_sender_says_of_the_attempt_goes_with_each_event() -> None:
    found, _ = delivered(read(b'{"id": "e"}', (b"x-attempt", b"3")))

    assert isinstance(found, Received)
    assert found.events == (Delivered("shop", Event("e"), retried=True),)


# -- past the horizon -----------------------------------------------------------------------------

CLAIMED = Claimed()

PAST = Options(
    effects=Effects.ATOMIC,
    retention_ms=1000,
    after_expiry=AfterExpiry.ACKNOWLEDGE,
    until_success=True,
)


def acknowledged(finish: bool | Exception) -> tuple[object, list[Effect[object]]]:
    """Return what a delivery of an old event comes to if its receipt is written so."""
    return admitted(PAST, 0, finish=finish)


def admitted(
    options: Options,
    occurred_ms: int | None,
    *,
    finish: bool | Exception = True,
    claimed: ClaimAnswer = CLAIMED,
) -> tuple[object, list[Effect[object]]]:
    """Return what a delivery 5 s after the beginning comes to, and the effects asked for."""
    asked: list[Effect[object]] = []

    def perform(effect: Effect[object]) -> object:
        asked.append(effect)
        match effect:
            case Acquire():
                return Acquired()
            case Claim():
                return claimed
            case Finish():
                if isinstance(finish, Exception):
                    raise finish
                return finish
            case _:
                return True

    event = Delivered("shop", Event("e", occurred_ms))
    call = Call((), "test", "webhook//hooks", Fence(bytes(16)), 5000, delivered=event)
    return run(admit_delivered(call, event, options), perform), asked


@pytest.mark.parametrize(
    ("occurred_ms", "age_ms", "past"),
    [(0, 5000, True), (4500, 500, False), (6000, 0, False), (None, None, False)],
)
def test_a_handler_is_told_how_old_its_event_is(
    occurred_ms: int | None, age_ms: int | None, past: bool
) -> None:
    found, _ = admitted(replace(PAST, after_expiry=AfterExpiry.HANDLER), occurred_ms)

    assert isinstance(found, Admitted)
    assert (found.age_ms, found.past_horizon) == (age_ms, past)


def test_an_acknowledgement_that_could_not_be_recorded_is_refused_and_frees_the_event() -> None:
    found, asked = acknowledged(StoreUnavailable("away"))

    assert isinstance(found, Refused)
    assert found.problem.kind is ProblemKind.STORE_UNAVAILABLE
    assert any(isinstance(each, Abandon) for each in asked)


def test_an_acknowledgement_that_another_delivery_came_before_is_left_to_it() -> None:
    found, asked = acknowledged(finish=False)

    assert isinstance(found, Refused)
    assert found.problem.kind is ProblemKind.IN_FLIGHT
    kinds = [each.event.kind for each in asked if isinstance(each, Emit)]
    assert EventKind.PAST_HORIZON not in kinds


def test_an_acknowledgement_is_a_success_that_is_recorded_and_told() -> None:
    found, asked = acknowledged(finish=True)

    assert isinstance(found, Recorded)
    assert found.receipt.response.status == 200
    kinds = [each.event.kind for each in asked if isinstance(each, Emit)]
    assert kinds == [EventKind.PAST_HORIZON]


def test_a_delivery_that_lost_its_event_to_another_is_told_so_as_its_sender_understands_it() -> (
    None
):
    options = replace(PAST, busy_status=503)
    found, _ = admitted(replace(options, after_expiry=AfterExpiry.HANDLER), 4500)
    assert isinstance(found, Admitted)

    captured = Captured(Response(200, (), b"applied"))
    answer = run(settle(found, captured, options), lambda effect: not isinstance(effect, Commit))

    assert isinstance(answer, Refused)
    assert answer.problem.kind is ProblemKind.IN_FLIGHT
    assert answer.problem.answered_as == 503


# -- what is kept ---------------------------------------------------------------------------------


@pytest.mark.parametrize("effects", list(Effects))
@pytest.mark.parametrize(
    ("status", "kept"),
    [(200, True), (202, True), (204, True), (299, True), (300, False), (404, False), (500, False)],
)
def test_successes_are_stored_and_nothing_else(effects: Effects, status: int, kept: bool) -> None:
    options = replace(PAST, effects=effects)

    assert (disposition(status, options) is Disposition.STORE) is kept
    assert ambiguous_disposition(options) is Disposition.FREE


@pytest.mark.parametrize("past", [AfterExpiry.ACKNOWLEDGE, AfterExpiry.HANDLER])
def test_of_an_event_that_was_used_before_the_store_is_asked_to_tell_and_not_to_refuse(
    past: AfterExpiry,
) -> None:
    _, asked = admitted(replace(PAST, after_expiry=past), 0)

    (claim,) = [each for each in asked if isinstance(each, Claim)]
    assert (claim.reuse, claim.proofs) == (Reuse.TELL, True)


@pytest.mark.parametrize("busy_status", [409, 503])
@pytest.mark.parametrize(
    "held", [InFlight(identity(Event("e")), 9), Orphaned(identity(Event("e")), 9)]
)
def test_whatever_will_pass_is_said_by_the_status_that_the_sender_takes_for_later(
    held: ClaimAnswer, busy_status: int
) -> None:
    found, _ = admitted(replace(PAST, busy_status=busy_status), 4500, claimed=held)

    assert isinstance(found, Refused)
    assert found.problem.answered_as == busy_status
