"""What is promised of every schedule of a server scenario, and how the end of one is judged.

at most one effect of a key; in atomic exactly one once it was answered, and in the end
every answer of a key the same
who is told that nothing was executed has executed nothing
unknown is said only of a key that a process had when it died, was stopped or was late
no key is held by nobody; none is stuck once the leases have run out, and what is unknown then
is known after it was reconciled
in repeatable, any number of effects, but only one answer
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replayfloor.core.claims import Fence
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.core.problem import ProblemKind
from replayfloor.server.flow import Answer, Answered, Recorded, Refused, Replayed
from replayfloor.server.policy import Effects
from replayfloor.testing.explore import Violation
from replayfloor.testing.server_process import Process, Ticket
from replayfloor.testing.server_settling import settle_in

if TYPE_CHECKING:
    from replayfloor.testing.server_course import ServerCourse

EXECUTED_NOTHING = (
    ProblemKind.STORE_UNAVAILABLE,
    ProblemKind.KEY_EXPIRED,
    ProblemKind.KEY_REUSED,
    ProblemKind.INVALID_KEY,
)
"""Refusals that say so of the request they answer."""


def check(course: ServerCourse) -> None:
    """Judge the end of a course, which goes on to its very end. Raises Violation."""
    for process in course.processes:
        _check_refusal(course, process)
        _check_executed(course, process)
    if course.scenario.sequential and course.scenario.workers and _is_quiet(course):
        _check_sequence(course)
    while course.unreleased:
        at, release = course.unreleased.pop(0)
        course.processes[at].perform(release)
    for id_ in sorted({each.ticket.id for each in course.processes}):
        _check_key(course, id_)


def _check_key(course: ServerCourse, id_: ReceiptId) -> None:
    if _is_quiet(course):
        found = _ask_once_more(course.copy(), "at once", id_)
        if _refused(found.answer) is ProblemKind.IN_FLIGHT:
            raise Violation("the key is held, and nobody is left who works on it")
    course.world.now_ms += 2 * course.scenario.options.lease_ms
    last = _ask_once_more(course, "last", id_)
    kind = _refused(last.answer)
    doubtful = id_ in course.lost and course.scenario.effects is Effects.EXTERNAL
    if kind is ProblemKind.OUTCOME_UNKNOWN and doubtful:
        settle_in(course.world, id_)
        last = _ask_once_more(course, "after all", id_)
        kind = _refused(last.answer)
    if kind is not None:
        raise Violation(f"the key is stuck: {kind} long after the last lease ended")
    _check_effects(course, id_)
    shown = {text for each in course.processes if (text := shown_by(each, id_)) is not None}
    if len(shown) > 1:
        raise Violation(f"different answers: {sorted(shown)}")


def _check_effects(course: ServerCourse, id_: ReceiptId) -> None:
    effects, count = course.scenario.effects, course.world.ledger.count(id_)
    once = effects is not Effects.REPEATABLE or course.scenario.own_transaction
    if once and count > 1:
        raise Violation(f"executed {count} times")
    if not count:
        raise Violation("not executed, although a request came through undisturbed")


def _check_executed(course: ServerCourse, process: Process) -> None:
    """What was answered is true when it is answered, not only in the end."""
    answered = isinstance(process.answer, Answered | Recorded | Replayed)
    if answered and process.ticket.id not in course.world.ledger:
        raise Violation(f"{process.ticket.name} answered, and nothing was executed")


def _check_sequence(course: ServerCourse) -> None:
    """A worker that has answered a request does not say of the next that it is in flight."""
    for process in course.processes:
        if _refused(process.answer) is ProblemKind.IN_FLIGHT:
            raise Violation(f"{process.ticket.name} was told in flight, after the first answer")


def _check_refusal(course: ServerCourse, process: Process) -> None:
    kind = _refused(process.answer)
    if kind in EXECUTED_NOTHING and process.written:
        raise Violation(f"{process.ticket.name} said {kind}, and had executed")
    id_ = process.ticket.id
    if kind is ProblemKind.OUTCOME_UNKNOWN and id_ not in course.lost | course.late:
        raise Violation(f"{process.ticket.name} was told unknown, and nobody was lost or late")


def _is_quiet(course: ServerCourse) -> bool:
    """Whether nothing has happened that a lease is there for."""
    whole = all(not each.dead and not each.failures for each in course.processes)
    return whole and not course.lost and not course.late and not course.scenario.faults.failovers


def _ask_once_more(course: ServerCourse, name: str, id_: ReceiptId) -> Process:
    ticket = Ticket(name, name, id_, Fence(name.encode().ljust(16)))
    process = course.scenario.start(course.world, ticket)
    course.processes.append(process)
    while process.running:
        process.step()
    return process


def _refused(answer: Answer | None) -> ProblemKind | None:
    return answer.problem.kind if isinstance(answer, Refused) else None


def shown_by(process: Process, id_: ReceiptId) -> bytes | None:
    """Return what a process has shown as the answer of a key; None if it has shown none."""
    if process.ticket.id != id_:
        return None
    match process.answer:
        case Answered(captured):
            return captured.response.body
        case Replayed(receipt) | Recorded(receipt):
            return receipt.response.body
        case _:
            return None
