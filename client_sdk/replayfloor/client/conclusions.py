"""The end of a call: the flow's verdict as an answer or an exception, and what the caller reads."""

from __future__ import annotations

from dataclasses import KW_ONLY, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, assert_never

from replayfloor.client.call import Call
from replayfloor.client.errors import OperationError, OperationFacts
from replayfloor.client.events import Ending
from replayfloor.client.flow_begin import kept_answer
from replayfloor.client.options import EXTENSION
from replayfloor.client.profiles import Profile
from replayfloor.client.progress import Verdict
from replayfloor.core.journal import JournalEntry, Settlement
from replayfloor.core.making import maker
from replayfloor.core.outcome import Outcome, executed_nothing
from replayfloor.core.values import frozen

if TYPE_CHECKING:
    import httpx

_SETTLED: Final = {
    Settlement.EXECUTED: "executed",
    Settlement.NOT_EXECUTED: "not executed",
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@frozen
class OperationInfo:
    """What became of a request: `response.extensions["idempotency"]`.

    `attempts` and `elapsed_s` count from the first attempt, over all restarts. `replayed`: the
    server says that this is the stored answer. `resumed`: the operation was begun by an earlier
    call. `outcome` is DEFINITIVE for the operation's own answer; a refusal (401, 422) that
    follows an attempt which may have been executed leaves it UNKNOWN.
    """

    _: KW_ONLY
    operation_id: str
    key: str
    attempts: int
    elapsed_s: float
    replayed: bool
    resumed: bool
    outcome: Outcome


_RETURNED: Final = Ending.RETURNED
_new_info: Final = maker(OperationInfo)


def conclude(call: Call, verdict: Verdict) -> httpx.Response:
    """Return the answer that the flow decided on, or raise what it decided on."""
    if verdict.ending is _RETURNED and call.open_response is not None:
        call.open_response.extensions[EXTENSION] = _info(verdict, replayed=verdict.replayed)
        return call.open_response
    errors = call.settings.library.errors
    match verdict.ending:
        case Ending.RETURNED:
            # It was still arriving when the call had to wait, and gave its connection back.
            raise _error(errors.pending, call, replace(verdict, ending=Ending.PENDING))
        case Ending.KEPT:
            return _kept(call, verdict)
        case Ending.NOT_EXECUTED:
            assert call.last_error is not None
            raise call.last_error
        case Ending.PENDING:
            raise _error(errors.pending, call, verdict)
        case Ending.UNKNOWN:
            raise _error(errors.unknown, call, verdict)
        case Ending.CLOSED:
            raise _error(errors.closed, call, verdict)
        case Ending.MISMATCH:
            raise _error(errors.mismatch, call, verdict)
        case Ending.JOURNAL_UNAVAILABLE:
            raise _error(errors.journal, call, verdict)
        case _:
            assert_never(verdict.ending)


def _kept(call: Call, verdict: Verdict) -> httpx.Response:
    """Return the answer that the journal kept, as it came."""
    answer = kept_answer(verdict.entry)
    assert answer is not None  # the flow has read it
    library = call.settings.library
    response = library.response(
        answer.status,
        headers=[*answer.headers, (b"content-length", str(len(answer.body)).encode())],
        stream=library.bytes_stream(answer.body),
        request=call.request,
    )
    response.extensions[EXTENSION] = _info(verdict, replayed=True)
    return response


def _error(kind: type[OperationError], call: Call, verdict: Verdict) -> OperationError:
    entry = verdict.entry
    facts = OperationFacts(
        provider=call.settings.profile.name,
        operation_id=entry.operation_id,
        key=entry.key,
        outcome=verdict.outcome,
        attempts=entry.attempts,
        first_attempt_at=_moment(entry.first_attempt_at_ns),
        elapsed_s=verdict.elapsed_s,
        retention_s=entry.retention_s if entry.retention_s > 0 else None,
        retry_until=_moment(entry.send_deadline_ns),
        final_status=entry.final_status,
        evidence=verdict.detail,
        last_response=call.last_response(),
    )
    error = kind(_message(verdict, call.settings.profile), facts)
    error.__cause__ = verdict.cause or call.last_error
    error.request = call.request
    return error


def _info(verdict: Verdict, *, replayed: bool) -> OperationInfo:
    return _new_info(
        operation_id=verdict.entry.operation_id,
        key=verdict.entry.key,
        attempts=verdict.entry.attempts,
        elapsed_s=verdict.elapsed_s,
        replayed=replayed,
        resumed=verdict.resumed,
        outcome=verdict.outcome,
    )


def _moment(at_ns: int) -> datetime:
    return _EPOCH + timedelta(microseconds=at_ns // 1000)


def _message(verdict: Verdict, profile: Profile) -> str:
    entry = verdict.entry
    return f"{profile.name}: operation {entry.operation_id!r}: " + _advice(verdict, entry)


def _advice(verdict: Verdict, entry: JournalEntry) -> str:
    tried = f"after {entry.attempts} attempt(s) in {verdict.elapsed_s:.1f} s"
    until = f"{_moment(entry.send_deadline_ns):%Y-%m-%d %H:%M:%S} UTC"
    match verdict.ending:
        case Ending.PENDING if entry.final_status is not None:
            return (
                f"it was answered earlier, with status {entry.final_status}, and that answer could "
                f"not be fetched again ({verdict.detail}). Call again with the same operation id "
                f"before {until}; do not use a new key"
            )
        case Ending.PENDING if executed_nothing(verdict.outcome):
            return (
                f"it was not executed {tried} ({verdict.detail}). Call again with the same "
                f"operation id before {until}"
            )
        case Ending.PENDING if entry.retention_s <= 0:
            return (
                f"its outcome is not known {tried} ({verdict.detail}). Find out what happened; do "
                "not use a new key. Calling again with the same operation id sends nothing until "
                "the server has shown in another answer that it knows keys"
            )
        case Ending.PENDING:
            return (
                f"its outcome is not known {tried} ({verdict.detail}). Call again with the same "
                f"operation id before {until}; do not use a new key"
            )
        case Ending.UNKNOWN if verdict.burnt:
            return (
                f"its outcome is unknown {tried}, and stays so under its key ({verdict.detail}). "
                "Do not retry with the old key or a new one: find out what happened, and reconcile"
            )
        case Ending.UNKNOWN if executed_nothing(verdict.outcome):
            return (
                f"it was not executed {tried} ({verdict.detail}), and its key may not be sent "
                f"any more since {until}. Begin a new operation, with a new id"
            )
        case Ending.UNKNOWN:
            return (
                f"its outcome is unknown {tried} ({verdict.detail}), and {until} was the last "
                "moment at which the provider would have recognised its key. Do not retry with "
                "the old key or a new one: find out what happened, and reconcile"
            )
        case Ending.CLOSED if entry.settlement is not None:
            return (
                f"somebody found out that it was {_SETTLED[entry.settlement]} and settled it "
                f"({entry.note}). Nothing was sent"
            )
        case Ending.CLOSED if entry.retention_s <= 0:
            return (
                f"it was answered earlier, with status {entry.final_status}, and {verdict.detail}. "
                "Nothing was sent"
            )
        case Ending.CLOSED:
            return (
                f"it was answered earlier, with status {entry.final_status}, and its key may not "
                f"be sent any more since {until}. Nothing was sent"
            )
        case Ending.MISMATCH:
            return f"nothing was sent: {verdict.detail}. A new operation needs a new id and key"
        case _:
            return f"nothing was sent by this call: the journal failed ({verdict.detail})"
