"""What is promised of a pair, of client and server together, and how a schedule is judged.

at most one effect, whenever a request arrives; exactly one once it was answered with a success
every answer the same, of the server and to the client
nothing leaves before its entry is in the journal, with another key, or at the send deadline
who is told that nothing was executed is told the truth, then and afterwards
unknown is said only after an attempt without an answer, and not of what was answered
before the send deadline a later call gets the answer; if it is unknown, once it is reconciled
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from replayfloor.client.effects import Send, Sleep
from replayfloor.client.events import Ending
from replayfloor.client.progress import Verdict
from replayfloor.core.fingerprint import ReceiptId
from replayfloor.core.message import Response, get_first
from replayfloor.core.outcome import Outcome, executed_nothing
from replayfloor.core.problem import ProblemKind, problem_kind
from replayfloor.server.policy import Effects
from replayfloor.testing.explore import Violation
from replayfloor.testing.explore_states import State
from replayfloor.testing.pair_client import Departure
from replayfloor.testing.server_settling import settle_in

if TYPE_CHECKING:
    from replayfloor.testing.pair_course import PairCourse

CALLS_MAX = 6
"""Undisturbed calls at the end: the lease of a dead one, and a retry after "in flight"."""

STEPS_MAX = 200


class Notes(State):
    """What the promises are judged by: what was shown, and what may be doubted.

    `lost`: who served the key may have ended without a trace. `late`: everything stood still while
    a request was served. `doubt`: the client has an attempt without an answer. `told`: this call
    was answered with a success. `denied`: the client was told that nothing was executed, and has
    not sent anything since.
    """

    def __init__(self) -> None:
        """Nothing has happened."""
        self.shown: set[bytes] = set()
        self.lost = self.late = self.doubt = self.told = self.denied = False
        self.first_ms: int | None = None

    def show(self, response: Response, ledger: Sequence[ReceiptId]) -> None:
        """Note an answer of the server."""
        if 200 <= response.status < 300:
            self.shown.add(response.body)
            if not ledger:
                raise Violation("the server answered, and nothing was executed")
        if len(self.shown) > 1:
            raise Violation(f"different answers: {sorted(self.shown)}")

    def died(self) -> None:
        """Note that the call has died; it may have been about to send."""
        self.doubt, self.told = True, False


def hear(course: PairCourse, response: Response) -> None:
    """Note an answer that reached the client."""
    kind = problem_kind(get_first(response.headers, b"content-type") or b"", response.body)
    if kind in (ProblemKind.OUTCOME_UNKNOWN, ProblemKind.IN_FLIGHT) or response.status >= 500:
        course.notes.doubt = course.notes.doubt or kind is not ProblemKind.STORE_UNAVAILABLE
    if kind is ProblemKind.KEY_EXPIRED and course.now_ms >= course.scenario.window_ms:
        # It may answer a copy that was late; what an earlier one did is forgotten by now.
        course.notes.doubt = True
    course.notes.told = course.notes.told or 200 <= response.status < 300


def check_departure(course: PairCourse, departure: Departure) -> None:
    """Judge a request that leaves at this moment. Raises Violation."""
    notes, entry = course.notes, departure.entry
    notes.denied = False
    if notes.first_ms is None:
        notes.first_ms = departure.at_ms
    if departure.at_ms - notes.first_ms >= course.scenario.window_ms:
        raise Violation("a request left at or past the send deadline")
    if entry is None or entry.key != departure.key:
        raise Violation("a request left before its entry was in the journal")
    if entry.attempts <= entry.attempts_ended:
        raise Violation("a request left that the journal had not counted")


def check_verdict(course: PairCourse, verdict: Verdict) -> None:
    """Judge how a call ended. Raises Violation."""
    notes = course.notes
    told, notes.told = notes.told, False
    if told and (
        verdict.ending is not Ending.RETURNED or verdict.outcome is not Outcome.DEFINITIVE
    ):
        raise Violation(f"the answer had come, and the call ended {verdict.ending}")
    if verdict.outcome is Outcome.UNKNOWN and not notes.doubt:
        raise Violation("the call ended unknown, and every attempt had its answer")
    entry = course.client.entry
    if verdict.outcome is Outcome.UNKNOWN and entry and entry.worst is Outcome.DEFINITIVE:
        raise Violation("the call ended unknown, and the journal knew the answer")
    notes.denied = verdict.ending is Ending.NOT_EXECUTED or executed_nothing(verdict.outcome)
    if notes.denied and course.world.ledger:
        raise Violation("the client was told that nothing was executed, and something was")


def check(course: PairCourse) -> None:
    """Judge the end of a course, which goes on to its very end. Raises Violation."""
    check_effects(course)
    if course.notes.denied and course.world.ledger:
        raise Violation("the client was told that nothing was executed, and then something was")
    verdict: Verdict | None = None
    for _ in range(CALLS_MAX):
        course.pass_until(course.now_ms + 2 * course.scenario.lease_ms)
        if _is_late(course):
            break
        verdict = _call_undisturbed(course)
        if verdict.ending is Ending.RETURNED and verdict.outcome is Outcome.DEFINITIVE:
            break
        if verdict.outcome is Outcome.UNKNOWN and course.notes.lost:
            settle_in(course.world, course.scenario.id_of(verdict.entry.key))
    else:
        said = f"{verdict.ending}, {verdict.detail}" if verdict is not None else "nowhere"
        raise Violation(f"the key is stuck: a call ends {said}")
    check_effects(course)


def check_effects(course: PairCourse) -> None:
    """Judge what has been executed until now. Raises Violation."""
    once = course.scenario.effects is not Effects.REPEATABLE
    if once and len(course.world.ledger) > 1:
        raise Violation(f"executed {len(course.world.ledger)} times")


def _is_late(course: PairCourse) -> bool:
    """Whether a call may find the deadline passed before it is answered, which is no fault."""
    entry = course.client.entry
    if entry is None:
        return False
    elapsed_ns = max(course.client.moment.wall_ns - entry.first_attempt_at_ns, entry.elapsed_ns)
    return elapsed_ns >= entry.send_deadline_ns - entry.first_attempt_at_ns - _CALL_NS


_CALL_NS = 10_000_000_000
"""More than one undisturbed call takes."""


def _call_undisturbed(course: PairCourse) -> Verdict:
    """Call once more; every request arrives once, is served alone, and its answer arrives."""
    course.notes.told = False
    course.client.begin(course.scenario.first_place)
    course.answers.clear()
    course.leaps.clear()
    course.left = dict.fromkeys(course.left, 0)
    for _ in range(STEPS_MAX):
        verdict = course.client.verdict
        if verdict is not None:
            return verdict
        moves = course.moves()
        waits = isinstance(course.client.effect, Send | Sleep) and len(moves) > 1
        # What is served comes before giving up, and nothing is dropped.
        order = [each for each in moves if "dropped" not in each.label]
        served = [each for each in order if "server" in each.label or "arrives" in each.label]
        (served[0] if waits and served else order[0]).act(course)
    raise Violation("a call does not end")
