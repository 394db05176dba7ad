"""Checks of clients that hang up: what they began ends once, and their key is not stuck."""

from __future__ import annotations

from typing import Final

from replayfloor.conform.effects import Leave, Seen, Wait
from replayfloor.conform.facts import (
    Trial,
    effects_of,
    marked,
    more,
    operation,
    send_one,
)
from replayfloor.conform.target import Operation
from replayfloor.conform.verdicts import (
    Check,
    Level,
    Outcome,
    failed,
    not_applicable,
    passed,
)
from replayfloor.core.effects import Flow

STAY_S: Final = 0.15
"""How long a client stays after its request: the handler has begun by then."""

PATIENCE_S: Final = 0.5
TRIES: Final = 12
"""How often, and how far apart, a retry is sent until it is no longer in flight: six seconds."""

BUSY: Final = frozenset({409, 423, 425, 429, 503})


def during_handler(trial: Trial) -> Flow[Outcome]:
    """A client that leaves while its request is being executed, and asks again."""
    one = yield from operation(trial.target)
    path = trial.target.slow_path()
    before = yield from effects_of(one)
    leaving = one.sending(path=path, leave=Leave.AFTER_SENDING, stay_s=STAY_S)
    yield from send_one(leaving)
    last = yield from _until_free(one, path)
    if not last.good:
        return failed(f"{TRIES} retries later the key is still in flight ({last})")
    again = yield from send_one(one.sending(path=path))
    ran = more(before, (yield from effects_of(one)))
    return _judge(ran, last, again)


def _judge(ran: int | None, last: Seen, again: Seen) -> Outcome:
    if ran is not None:
        return (passed if ran == 1 else failed)(f"executed {ran} times, the retry gets {last}")
    if marked(last):
        return passed(f"the retry is a replay ({last})")
    if again.body != last.body:
        return failed("two retries get different answers")
    return not_applicable(f"the retry gets {last}; only a count tells the rest (--count-url)")


def in_body(trial: Trial) -> Flow[Outcome]:
    """A client that leaves in the middle of its body, and sends it whole."""
    one = yield from operation(trial.target)
    if len(one.sending().body) < 2:
        return not_applicable("the payload is too short to be cut")
    before = yield from effects_of(one)
    yield from send_one(one.sending(leave=Leave.IN_BODY))
    yield from Wait(PATIENCE_S)
    half = more(before, (yield from effects_of(one)))
    last = yield from _until_free(one, trial.target.path)
    if half:
        return failed(f"half a payload was executed; the whole one gets {last}")
    if not last.good:
        return failed(f"after half a payload the whole one is answered {last}")
    return passed(f"half a payload is nothing, the whole one gets {last}")


def _until_free(one: Operation, path: str) -> Flow[Seen]:
    last = yield from send_one(one.sending(path=path))
    for _ in range(TRIES - 1):
        if last.status not in BUSY:
            break
        yield from Wait(PATIENCE_S)
        last = yield from send_one(one.sending(path=path))
    return last


CHECKS: Final = (
    Check("B-12", "a client that leaves finds its result later", Level.PRACTICE, during_handler),
    Check("H9-10", "half a payload is not executed", Level.MUST, in_body),
)
