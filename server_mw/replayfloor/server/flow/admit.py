"""Decide whether a handler is run: parse the key, read the request, take the key. Pure."""

from __future__ import annotations

from typing import assert_never

from replayfloor.core.effects import Flow
from replayfloor.core.errors import InvalidKey
from replayfloor.core.fingerprint import receipt_id
from replayfloor.core.key import parse_key
from replayfloor.core.problem import (
    BODY_TOO_LARGE,
    MISSING_KEY,
    Problem,
    ProblemKind,
    invalid_key,
)
from replayfloor.server.effects import BodyTooLarge, ClientGone, ReadRequest, RequestRead
from replayfloor.server.flow.age import judge_age, older
from replayfloor.server.flow.deliver import admit_delivered
from replayfloor.server.flow.take import take
from replayfloor.server.flow.values import (
    Admission,
    Admitted,
    Call,
    Gone,
    Refused,
    Unprotected,
    refusal,
)
from replayfloor.server.policy import Options


def admit(call: Call, options: Options) -> Flow[Admission]:
    """Decide whether the handler is run. Nothing is looked up for a key that is malformed."""
    if call.delivered is not None:
        return (yield from admit_delivered(call, call.delivered, options))
    if not call.key_lines:
        return Refused(MISSING_KEY) if options.required else Unprotected()
    try:
        key = parse_key(call.key_lines, options.key_rules)
    except InvalidKey as error:
        yield from refusal("", ProblemKind.INVALID_KEY)
        return Refused(invalid_key(str(error)))
    id_ = receipt_id(call.namespace, call.principal, key)
    age = judge_age(key, call, options)
    if isinstance(age, Problem):
        yield from refusal(id_.hex(), age.kind)
        return Refused(age)
    read = yield from ReadRequest(options.body_rule)
    match read:
        case ClientGone():
            return Gone()
        case BodyTooLarge():
            yield from refusal(id_.hex(), ProblemKind.BODY_TOO_LARGE)
            return Refused(BODY_TOO_LARGE)
        case RequestRead():
            fingerprint = read.fingerprint
            # A body may take minutes to arrive, and its receipt may go in the meantime.
            took_ms = 0 if read.at_ms is None else max(0, read.at_ms - call.now_ms)
            age = older(age, took_ms, options)
        case _:
            assert_never(read)
    ticket = Admitted(
        id_, fingerprint, call.fence, taken_over=False, age_ms=age.age_ms, past_horizon=age.past
    )
    return (yield from take(ticket, options))
