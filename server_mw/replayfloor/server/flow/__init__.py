"""The server flow: what happens to one keyed request. Pure; performs nothing itself.

    receive  of a webhook: read, verify, and find the events     -> Received or an answer
    admit    parse the key, read the request, take the lock, claim       -> Admitted or an answer
    settle   store the handler's answer, or free the key                 -> the answer
    renew    keep the claim while the handler runs
    fail     the handler raised, was cancelled, or never answered

The parts are separate because a shell may have to run the handler between them in its own
way; `serve` is their composition.
"""

from __future__ import annotations

from replayfloor.core.effects import Flow
from replayfloor.server.effects import Execute
from replayfloor.server.flow.admit import admit
from replayfloor.server.flow.deliver import Received, receive
from replayfloor.server.flow.renew import period_ms, renew
from replayfloor.server.flow.settle import fail, settle
from replayfloor.server.flow.values import (
    Admission,
    Admitted,
    Answer,
    Answered,
    Call,
    Delivered,
    Exposed,
    Gone,
    Recorded,
    Refused,
    Replayed,
    Unprotected,
    told,
)
from replayfloor.server.policy import Options

__all__ = [
    "Admission",
    "Admitted",
    "Answer",
    "Answered",
    "Call",
    "Delivered",
    "Exposed",
    "Gone",
    "Received",
    "Recorded",
    "Refused",
    "Replayed",
    "Unprotected",
    "admit",
    "fail",
    "period_ms",
    "receive",
    "renew",
    "serve",
    "settle",
    "told",
]


def serve(call: Call, options: Options) -> Flow[Answer]:
    """Answer one request; its handler runs at most once over all requests with the key."""
    admission = yield from admit(call, options)
    if not isinstance(admission, Admitted):
        return admission
    try:
        captured = yield from Execute()
    except GeneratorExit:
        raise
    except BaseException as error:
        yield from fail(admission, options, error)
        raise
    return (yield from settle(admission, captured, options))
