"""What each move of a pair does to a course; when it may be made is in `pair_course`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replayfloor.client.effects import Failure, Reply, Send
from replayfloor.core.claims import Acquire, Extend, Renew
from replayfloor.testing.pair_client import PATIENCE_MS
from replayfloor.testing.pair_promises import check_departure, check_effects, check_verdict, hear
from replayfloor.testing.pair_served import LEASE_MS, Served, to_response

if TYPE_CHECKING:
    from replayfloor.testing.pair_course import PairCourse


# -- the client -----------------------------------------------------------------------------------


def write(course: PairCourse) -> None:
    """Perform the client's effect on its journal."""
    effect = course.client.effect
    assert effect is not None
    go_on(course, course.client.write(effect))


def let_leave(course: PairCourse) -> object:
    """Let an attempt leave, unless the transport holds it back at the deadline."""
    send = course.client.effect
    assert isinstance(send, Send)
    if course.client.held_back(send):
        go_on(course, Failure("the send deadline passed", maybe_sent=False, fenced=True))
        return "held back"
    departure = course.client.depart(send)
    check_departure(course, departure)
    course.requests.append(departure)
    return None


def refuse(course: PairCourse) -> None:
    """Refuse the connection: nothing was sent."""
    go_on(course, Failure("ConnectError", maybe_sent=False))


def give_up(course: PairCourse) -> None:
    """Let the client lose patience with an answer that may still come."""
    pass_renewing(course, course.now_ms + PATIENCE_MS)
    course.notes.doubt = True
    go_on(course, Failure("ReadTimeout", maybe_sent=True))


def wake(wakes_ms: int, course: PairCourse) -> None:
    """Let the client's pause end."""
    pass_renewing(course, wakes_ms)
    go_on(course, None)


def deliver(at: int, course: PairCourse) -> object:
    """Bring an answer to the client."""
    _attempt, response = course.answers.pop(at)
    hear(course, response)
    go_on(course, Reply(response))
    return response.status


def restart(course: PairCourse) -> None:
    """Let the client die and begin again with what its journal has."""
    course.notes.died()
    course.client.begin(course.scenario.first_place)
    forget_unawaited(course)


def go_on(course: PairCourse, answer: object) -> None:
    """Give the client the answer to its effect, and look at what it concludes."""
    course.client.answer(answer)
    forget_unawaited(course)
    if course.client.verdict is not None:
        check_verdict(course, course.client.verdict)


def forget_unawaited(course: PairCourse) -> None:
    """Forget the answers that nobody waits for any more."""
    course.answers = [each for each in course.answers if each[0] == course.client.awaits]


# -- the network and the server -------------------------------------------------------------------


def arrive(at: int, again: bool, course: PairCourse) -> str:  # noqa: FBT001 - one of two
    """Let a request arrive, and stay on its way too if it comes `again`."""
    request = course.requests[at]
    if not again:
        del course.requests[at]
    course.arrivals += 1
    served = course.scenario.serve(course, request, f"server {course.arrivals}")
    course.served.append(served)
    answer_when_done(course, served)
    return served.ticket.name


def lose_request(at: int, course: PairCourse) -> None:
    """Lose a request on its way."""
    del course.requests[at]


def lose_answer(at: int, course: PairCourse) -> None:
    """Lose an answer on its way."""
    del course.answers[at]


def go_on_serving(at: int, course: PairCourse) -> object:
    """Perform the next effect of one who serves."""
    served = course.served[at]
    if not isinstance(served.waiting_for, Acquire):
        served.since_ms = course.now_ms
    answer = served.step()
    answer_when_done(course, served)
    return answer


def fail(at: int, performed: bool, course: PairCourse) -> None:  # noqa: FBT001 - one of two
    """Fail an effect of one who serves, `performed` or not."""
    served = course.served[at]
    served.fail(performed=performed)
    course.notes.lost = course.notes.lost or served.failures > 1
    answer_when_done(course, served)


def die(at: int, course: PairCourse) -> None:
    """Let a worker die in the middle of a request."""
    served = course.served.pop(at)
    ticket = served.ticket
    course.notes.lost = course.notes.lost or course.world.is_mine(ticket.id, ticket.fence)


def answer_when_done(course: PairCourse, served: Served) -> None:
    """Send the answer of whoever has come to one, and forget who served it."""
    if served.running:
        return
    course.served.remove(served)
    response = to_response(served.place)
    check_effects(course)
    course.notes.show(response, course.world.ledger)
    course.answers.append((served.attempt, response))
    forget_unawaited(course)


# -- time -----------------------------------------------------------------------------------------


def pass_renewing(course: PairCourse, moment_ms: int) -> None:
    """Let time pass in which every lease is renewed."""
    course.pass_until(moment_ms)
    for served in course.served:
        course.world.renew(Renew(served.ticket.id, served.ticket.fence, LEASE_MS))
        course.world.extend(Extend(served.ticket.id, served.ticket.fence, LEASE_MS))


def leap(course: PairCourse) -> None:
    """Let so much time pass as the scenario has next."""
    stand_still(course.leaps[0], course)


def stand_still(moment_ms: int, course: PairCourse) -> None:
    """Let time pass in which nobody renews anything."""
    course.notes.late = course.notes.late or bool(course.served)
    course.pass_until(moment_ms)


def drop(course: PairCourse) -> None:
    """Drop the receipts that have expired."""
    course.world.drop_expired(course.scenario.retention_ms, to_proofs=False)
