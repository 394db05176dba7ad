"""Checks of one key on two requests: another payload, query, path, method, principal."""

from __future__ import annotations

from typing import Final

from replayfloor.conform.effects import Seen, Sending
from replayfloor.conform.facts import (
    UNKNOWN,
    Fate,
    Pair,
    Trial,
    alike,
    effects_of,
    fate,
    marked,
    more,
    operation,
    pair,
    send,
    send_one,
)
from replayfloor.conform.target import Kind
from replayfloor.conform.verdicts import (
    Check,
    Level,
    Outcome,
    failed,
    not_applicable,
    noted,
    passed,
    worst,
)
from replayfloor.core.effects import Flow

NO_SUCH_PATH: Final = "/conform-no-such-path"
UNKNOWN_HERE: Final = frozenset({404, 405, 501})
LATER_S: Final = 0.25
"""After this a first request is in its handler, on a path that is slow."""


def payload(trial: Trial) -> Flow[Outcome]:
    """Another payload under a used key."""
    one = yield from operation(trial.target)
    both = yield from pair(one, one.sending(), one.sending(body=one.other()))
    if _got_it(both):
        return failed(f"another payload gets the first answer ({both.second})")
    if both.second.good or (both.executed or 0) > 1:
        return failed(f"another payload is executed ({both.second})")
    return (passed if both.second.status == 422 else failed)(f"{both.second} to another payload")


def still_there(trial: Trial) -> Flow[Outcome]:
    """The first answer, after another request was refused."""
    one = yield from operation(trial.target)
    before = yield from effects_of(one)
    first = yield from send_one(one.sending())
    yield from send_one(one.sending(body=one.other()))
    last = yield from send_one(one.sending())
    became = fate(trial.facts, Pair(first, last, more(before, (yield from effects_of(one)))))
    if became is Fate.REPLAYED:
        return passed("the first request is replayed as before")
    if became is Fate.UNKNOWN:
        return not_applicable(UNKNOWN)
    return failed(f"after a refusal the first request is {became} ({last})")


def refused_again(trial: Trial) -> Flow[Outcome]:
    """The same wrong request, once more."""
    one = yield from operation(trial.target)
    yield from send_one(one.sending())
    wrong = one.sending(body=one.other())
    both = yield from pair(one, wrong, wrong)
    if not both.first.refused:
        return not_applicable(f"another payload is not refused ({both.first})")
    if both.second.status == both.first.status and not both.executed:
        return passed(f"{both.first}, and {both.second} again")
    return failed(f"{both.first}, then {both.second}")


def query(trial: Trial) -> Flow[Outcome]:
    """Another query under a used key."""
    path = trial.target.path
    changed = path + ("&" if "?" in path else "?") + "conform=1"
    return (yield from _elsewhere(trial, "another query", path=changed))


def elsewhere(trial: Trial) -> Flow[Outcome]:
    """Another path, and another method, under a used key."""
    bare_path = trial.target.path.partition("?")[0].rstrip("/")
    path = trial.target.paths.get(Kind.OTHER, bare_path + NO_SUCH_PATH)
    method = "PATCH" if trial.target.method != "PATCH" else "POST"
    return worst(
        [
            (yield from _elsewhere(trial, f"{path}", path=path)),
            (yield from _elsewhere(trial, method, method=method)),
        ]
    )


def _elsewhere(
    trial: Trial, what: str, *, path: str | None = None, method: str | None = None
) -> Flow[Outcome]:
    one = yield from operation(trial.target)
    both = yield from pair(one, one.sending(), one.sending(path=path, method=method))
    if _got_it(both) and (trial.facts.telling or marked(both.second) or both.executed is not None):
        return failed(f"{what} gets the first answer ({both.second})")
    if both.second.failure or (both.second.status >= 500 and both.second.status != 501):
        return failed(f"{what} is answered {both.second}")
    if both.second.status == 422:
        return passed(f"{what} is refused with 422")
    if both.second.status in UNKNOWN_HERE:
        return passed(f"{what} is answered {both.second}, not with the first answer")
    return noted(f"{what} is taken for another operation ({both.second})")


def _got_it(both: Pair) -> bool:
    """Say whether the second request was given what the first one was."""
    if both.executed is not None and both.executed > 1:
        return False
    return both.second.good and (marked(both.second) or alike(both.first, both.second))


def while_in_flight(trial: Trial) -> Flow[Outcome]:
    """Another payload while the first is in flight: it is wrong whenever it comes."""
    one = yield from operation(trial.target)
    path = trial.target.slow_path()
    later = LATER_S if Kind.SLOW in trial.target.paths else 0.0
    first, second = yield from send(
        one.sending(path=path), one.sending(path=path, body=one.other(), after_s=later)
    )
    if not first.good and second.good:  # they began together, and the other one was first
        first, second = second, first
    return _precedence(first, second)


def _precedence(first: Seen, second: Seen) -> Outcome:
    if second.status == 422:
        if second.ended_s < first.ended_s:
            return passed("422 while the first request was in flight")
        return not_applicable("422, but the first request had ended: name a slow path (--path)")
    return failed(f"another payload during the first request is answered {second}")


def second_principal(trial: Trial) -> Flow[Outcome]:
    """The same request and key of another principal, who learns nothing of the first."""
    if not trial.target.second:
        return not_applicable("no second principal is given (--second-principal-header)")
    one = yield from operation(trial.target)
    both = yield from pair(one, one.sending(), one.sending(second=True))
    match fate(trial.facts, both):
        case Fate.EXECUTED:
            return passed(f"the other principal has an operation of their own ({both.second})")
        case Fate.UNKNOWN:
            return not_applicable(UNKNOWN)
        case Fate.REPLAYED | Fate.ALTERED:
            return failed("the other principal gets the first one's answer")
        case Fate.REFUSED if both.second.status in (401, 403):
            return not_applicable(f"the other principal may not do this ({both.second})")
        case became:
            return failed(f"the other principal is {became} ({both.second})")


def chunked(trial: Trial) -> Flow[Outcome]:
    """A payload in chunks: it is read, and counts like one of known length."""
    one = yield from operation(trial.target)
    first = one.sending(chunked=True)
    both = yield from pair(one, first, one.sending(chunked=True))
    if not both.first.good:
        return not_applicable(f"a payload in chunks is answered {both.first}")
    other: Sending = one.sending(chunked=True, body=one.other())
    third = yield from send_one(other)
    if third.good:
        return failed(f"another payload in chunks is answered {third}")
    became = fate(trial.facts, both)
    return _in_chunks(became, both.second)


def _in_chunks(became: Fate, second: Seen) -> Outcome:
    if became in (Fate.REPLAYED, Fate.UNKNOWN):
        return passed("a payload in chunks is compared like any other")
    return failed(f"the retry in chunks is {became} ({second})")


CHECKS: Final = (
    Check("H-2", "another payload is refused with 422", Level.SHOULD, payload, ("E-4", "F-1")),
    Check(
        "B-26", "a refusal leaves the first answer as it was", Level.SHOULD, still_there, ("A18",)
    ),
    Check("H-5", "a wrong request is refused again", Level.MUST, refused_again),
    Check("B-30", "the query belongs to the request", Level.PRACTICE, query, ("A8",)),
    Check("A8", "path and method belong to the request", Level.PRACTICE, elsewhere),
    Check("A10", "422 goes before 409", Level.PRACTICE, while_in_flight, ("E-4", "B-10")),
    Check("S-3", "two principals never meet", Level.PRACTICE, second_principal, ("B-27",)),
    Check("F-2", "a payload in chunks is protected", Level.PRACTICE, chunked),
)
