"""What an entry of the journal means, in words for the person on call. Nothing is read here.

It says what is known and what is not. Where nobody can know, it says that and never guesses: the
next step of the reader may be a second charge.
"""

from __future__ import annotations

import shlex
from typing import assert_never

from replayfloor.client.cli_common import moment, plain, span
from replayfloor.client.operations import PendingOperation, as_datetime
from replayfloor.core.journal import FINISHED, JournalEntry, OperationState, Settlement
from replayfloor.core.outcome import Outcome, executed_nothing


def advice(operation: PendingOperation) -> str:
    """Return in a few words what to do with a pending operation."""
    if operation.leased and operation.lease_until is not None:
        return f"wait: it is being sent, or its process died (lease until {_time(operation)})"
    if operation.resumable:
        return "resume"
    if executed_nothing(operation.outcome):
        return "nothing was executed: close it, and begin a new operation if it is still wanted"
    return "do not send it again: find out, then close"


def _time(operation: PendingOperation) -> str:
    return f"{operation.lease_until:%H:%M:%SZ}"


def executed(entry: JournalEntry) -> bool | None:
    """Return whether the operation was executed; None if that is not known, or not for sure."""
    if entry.settlement is not None:
        return entry.settlement is Settlement.EXECUTED
    if executed_nothing(entry.known):
        return False
    status = entry.final_status or 0
    return True if entry.state is OperationState.DONE and 200 <= status < 300 else None


def verdict(entry: JournalEntry) -> str:
    """Return the answer to "was it executed?", and from what that is known."""
    match entry.state:
        case OperationState.SETTLED:
            said = "YES" if entry.settlement is Settlement.EXECUTED else "NO"
            return f"{said}. A person found out, and settled it: {plain(entry.note or '')}"
        case OperationState.DONE if executed_nothing(entry.known):
            return f"NO. It was refused with status {entry.final_status}, and not carried out."
        case OperationState.DONE if executed(entry):
            return (
                f"YES. The provider answered with status {entry.final_status}. What exactly it did "
                "(an amount, or a charge that is still pending) is in that answer."
            )
        case OperationState.DONE:
            return (
                f"ANSWERED with status {entry.final_status}, which is not a success. That answer "
                "is final; what was done is in it, or at the provider."
            )
        case OperationState.OPEN | OperationState.UNKNOWN_FINAL:
            return _unanswered(entry.known)
        case _:
            assert_never(entry.state)


def _unanswered(known: Outcome) -> str:
    match known:
        case Outcome.NOT_SENT:
            return "NO. No attempt left this machine, or the provider says that it took none up."
        case Outcome.REJECTED:
            return "NO. Every attempt was refused before it was carried out."
        case Outcome.IN_FLIGHT:
            return "NOT KNOWN. The provider said that it is still being carried out."
        case Outcome.UNKNOWN:
            return "NOT KNOWN. The request may have arrived, and no answer tells what became of it."
        case Outcome.DEFINITIVE:
            return "NOT KNOWN HERE. The provider has answered, but the answer was not recorded."
        case _:
            assert_never(known)


def doubts(entry: JournalEntry, operation: PendingOperation) -> list[str]:
    """Return what the journal cannot tell, one sentence each."""
    found: list[str] = []
    lost = entry.attempts - entry.attempts_ended
    if lost > 0 and entry.state not in FINISHED:
        found.append(
            f"The end of {lost} of {entry.attempts} attempts is not recorded: the process died, or "
            "is still at it. Such an attempt counts as one that may have arrived."
        )
    latched = entry.state is OperationState.UNKNOWN_FINAL
    if entry.state in FINISHED or executed_nothing(entry.known):
        return found
    if latched and entry.elapsed_ns < entry.send_deadline_ns - entry.first_attempt_at_ns:
        found.append("Its key can tell no more: the provider repeats a failure under it.")
    elif latched or operation.window_used >= 1:
        found.append(
            "Its key can tell no more: the provider may have forgotten it, and would take another "
            "attempt for a new request."
        )
    if entry.retention_s <= 0:
        found.append(
            "For how long the server remembers the key is not known, nor whether it looks at it."
        )
    return found


def next_steps(entry: JournalEntry, operation: PendingOperation) -> list[str]:
    """Return what to do now, line by line; lines with four blanks before them are commands."""
    place = f"{_word(entry.operation_id)} --namespace {_word(entry.namespace)}"
    if entry.state is OperationState.DONE:
        return ["Nothing. A call with the same operation id is given the answer, or told of it."]
    if entry.state is OperationState.SETTLED:
        return ["Nothing. A call with the same operation id sends nothing, and is told so."]
    if operation.leased and operation.lease_until is not None:
        return [
            f"Wait until {moment(operation.lease_until)} and look again. A call is sending it; if",
            "its process died, the lease ends by itself then.",
        ]
    if operation.resumable:
        return [
            f"Before {moment(operation.retry_until)}, let the application call again with the same",
            "operation id. Or send it from here, with the body and the media type of that time:",
            f"    replayfloor client resume URL {place} --body FILE --content-type TYPE",
            "Its key is sent again, and the provider knows it by that. Never use a new key or id.",
        ]
    if executed_nothing(operation.outcome):
        return [
            "If it is still wanted, begin a new operation, with a new id. Note that here:",
            f"    replayfloor client close URL {place} --not-executed --note 'begun anew as …'",
        ]
    until = moment(as_datetime(entry.last_attempt_at_ns))
    return [
        "Do not send it again, neither with this key nor with a new one. Ask the provider for the",
        "key, or look there for what the request would have made, between",
        f"{moment(operation.first_attempt_at)} and some time after {until}. Then say what it was:",
        f"    replayfloor client close URL {place} --executed --note 'how you know'",
        f"    replayfloor client close URL {place} --not-executed --note 'how you know'",
    ]


def _word(text: str) -> str:
    """Return a text as one word of a shell's command, printable whatever it holds."""
    if text.isprintable():
        return shlex.quote(text)
    plain_enough = (c if c.isalnum() and c.isascii() else f"\\U{ord(c):08x}" for c in text)
    return f"$'{''.join(plain_enough)}'"


def left(operation: PendingOperation) -> str:
    """Return how much of the time for attempts is left."""
    if operation.retention_s is None:
        return "not known"
    window_s = (operation.retry_until - operation.first_attempt_at).total_seconds()
    left_s = window_s - operation.elapsed_s
    if operation.window_used >= 1:
        return f"over for {span(-left_s)}"
    return f"{span(left_s)} ({1 - operation.window_used:.0%})"
