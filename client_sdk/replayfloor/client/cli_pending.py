"""`replayfloor client pending` and `show`: what a crash left, and all there is about one of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from replayfloor.client.cli_common import (
    NOT_DONE,
    AsJson,
    Namespace,
    OperationId,
    Url,
    as_lines,
    complain,
    failures_as_exit_codes,
    moment,
    plain,
    say,
    span,
)
from replayfloor.client.cli_journal import find, journal_at
from replayfloor.client.cli_words import advice, doubts, executed, left, next_steps, verdict
from replayfloor.client.clock import system_clock
from replayfloor.client.elapsed import behind_s
from replayfloor.client.operations import PendingOperation, as_datetime, described, pending
from replayfloor.core.errors import UsageError
from replayfloor.core.journal import JournalEntry, OperationState

CHECK_SHARE: Final = 0.5
"""Of the time for attempts. Half of it has gone by without an answer, so retries do not help; and
half is left, which is hours for every known provider but the shortest: enough for a person."""

SHOWN_MAX: Final = 1000
"""Lines of one list: more than anybody reads, and little to load."""

READ_MAX: Final = 100_000
"""Entries that are looked at, some 100 MB in memory. More are pending only if all is lost."""

JsonObject = dict[str, object]


def list_pending(
    url: Url,
    *,
    namespace: Namespace = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All that has no known end. This is the default.")
    ] = False,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="Only what may not be sent any more.")
    ] = False,
    resumable: Annotated[
        bool, typer.Option("--resumable", help="Only what may still be sent.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the oldest.")] = SHOWN_MAX,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Status 1 if any may not be sent any more, or has used half of its time.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the operations without a known end, the oldest first attempt first."""
    with failures_as_exit_codes():
        if everything + unknown + resumable > 1:
            raise UsageError("--all, --unknown and --resumable: say one of them")
        with journal_at(url) as journal:
            found = pending(journal, system_clock(), namespace, READ_MAX)
    chosen = [each for each in found if not (unknown or resumable) or each.resumable == resumable]
    _print(chosen[:limit], as_json=as_json)
    if len(chosen) > limit:
        complain(f"{len(chosen) - limit} more are not shown: --limit {len(chosen)}")
    if len(found) == READ_MAX:
        complain(f"Only the {READ_MAX} oldest were looked at; there may be more.")
    if check and (len(found) == READ_MAX or any(map(_is_alarming, found))):
        raise typer.Exit(NOT_DONE)


def _is_alarming(operation: PendingOperation) -> bool:
    return not operation.resumable or operation.window_used >= CHECK_SHARE


def _print(operations: list[PendingOperation], *, as_json: bool) -> None:
    if as_json:
        lines = [json.dumps(pending_json(each)) for each in operations]
    else:
        lines = _table(operations) if operations else ["None."]
    for line in lines:
        say(line)


def _table(operations: list[PendingOperation]) -> list[str]:
    spaces = any(each.namespace != each.provider for each in operations)
    header = ("OPERATION", *(["NAMESPACE"] if spaces else []), "PROVIDER", "AGE", "DEADLINE")
    rows = [
        (
            plain(each.operation_id),
            *([plain(each.namespace)] if spaces else []),
            plain(each.provider),
            span(each.elapsed_s),
            "-" if each.retention_s is None else moment(each.retry_until),
            left(each),
            str(each.attempts),
            each.outcome.label,
            advice(each),
        )
        for each in operations
    ]
    return as_lines((*header, "LEFT", "ATTEMPTS", "OUTCOME", "WHAT TO DO"), rows)


def pending_json(operation: PendingOperation) -> JsonObject:
    """Return an operation as an object of JSON; times as in RFC 3339, in UTC."""
    return {
        "provider": operation.provider,
        "namespace": operation.namespace,
        "operation_id": operation.operation_id,
        "key": operation.key,
        "method": operation.method,
        "url": operation.url,
        "first_attempt_at": _time(operation.first_attempt_at),
        "elapsed_s": operation.elapsed_s,
        "retry_until": _time(operation.retry_until),
        "retention_s": operation.retention_s,
        "window_used": operation.window_used,
        "attempts": operation.attempts,
        "outcome": operation.outcome.label,
        "state": operation.state.value,
        "leased": operation.leased,
        "lease_until": operation.lease_until and _time(operation.lease_until),
        "resumable": operation.resumable,
        "evidence": operation.evidence,
        "advice": advice(operation),
    }


def show(
    url: Url,
    operation_id: OperationId,
    *,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Show all that is known about one operation, and what to do about it."""
    with failures_as_exit_codes():
        with journal_at(url) as journal:
            entry = find(journal, operation_id, namespace)
        operation = described(entry, system_clock())
    if as_json:
        say(json.dumps(entry_json(entry, operation)))
        return
    for line in entry_lines(entry, operation):
        say(line)


def entry_json(entry: JournalEntry, operation: PendingOperation) -> JsonObject:
    """Return everything about an entry as an object of JSON; the kept answer by its size only."""
    shown = pending_json(operation)
    if entry.state not in (OperationState.OPEN, OperationState.UNKNOWN_FINAL):
        del shown["advice"]
    return shown | {
        "executed": executed(entry),
        "attempts_ended": entry.attempts_ended,
        "last_attempt_at": _time(as_datetime(entry.last_attempt_at_ns)),
        "last_seen_at": _time(as_datetime(entry.last_seen_at_ns)),
        "final_status": entry.final_status,
        "kept_answer_bytes": None if entry.response is None else len(entry.response),
        "settlement": entry.settlement and entry.settlement.value,
        "note": entry.note,
    }


def entry_lines(entry: JournalEntry, operation: PendingOperation) -> list[str]:
    """Return everything about an entry, and what it means, line by line."""
    lines = [f"{name:<14} {value}" for name, value in _facts(entry, operation) if value]
    lines += ["", "Was it executed?", f"    {verdict(entry)}"]
    lines += [f"    {each}" for each in doubts(entry, operation)]
    behind = behind_s(entry.last_seen_at_ns, system_clock())
    if behind is not None:
        lines.append(
            f"    The clock of this machine is {span(behind)} behind what the journal has seen: "
            "nothing is sent from here before it is right."
        )
    return [*lines, "", "What to do:", *(f"    {each}" for each in next_steps(entry, operation))]


def _facts(entry: JournalEntry, operation: PendingOperation) -> list[tuple[str, str]]:
    first, last = operation.first_attempt_at, as_datetime(entry.last_attempt_at_ns)
    known = operation.retention_s is not None
    still = left(operation) if operation.window_used >= 1 else f"{left(operation)} left"
    deadline = f"{moment(operation.retry_until)}, {still}" if known else ""
    keeps = f"the provider keeps the key for {span(entry.retention_s)}"
    leased = f"until {moment(operation.lease_until)}" if operation.lease_until else ""
    kept = f", kept in {len(entry.response)} bytes" if entry.response is not None else ""
    return [
        ("operation", plain(entry.operation_id)),
        ("namespace", plain(entry.namespace)),
        ("provider", plain(entry.provider)),
        ("key", plain(entry.key)),
        ("request", plain(f"{entry.method} {operation.url}")),
        ("state", entry.state.value),
        ("outcome", operation.outcome.label),
        ("first attempt", f"{moment(first)}, {span(operation.elapsed_s)} ago"),
        ("last attempt", moment(last)),
        ("attempts", f"{entry.attempts} begun, {entry.attempts_ended} ended"),
        ("deadline", deadline),
        ("retention", keeps if known else "not known"),
        ("lease", leased),
        ("evidence", plain(entry.last_evidence or "")),
        ("answer", f"status {entry.final_status}{kept}" if entry.final_status else ""),
        ("settled", entry.settlement.value.replace("_", " ") if entry.settlement else ""),
        ("note", plain(entry.note or "")),
    ]


def _time(time: datetime) -> str:
    return time.astimezone(UTC).isoformat()
