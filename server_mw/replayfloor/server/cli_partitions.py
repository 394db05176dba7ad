"""`replayfloor partitions …`: receipts are kept for exactly their retention; look, and see to it.

Exit codes: 0 all is well, or was done; 1 it is not, or the database did not answer; 2 the command
cannot be carried out as written.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from replayfloor.core.errors import UsageError
from replayfloor.retention import format_duration
from replayfloor.retention.storage import size_text
from replayfloor.server.cli_common import (
    NOT_DONE,
    Url,
    as_lines,
    complain,
    failures_as_exit_codes,
    moment,
    person,
    say,
)
from replayfloor.server.cli_keeping import (
    AcceptShorter,
    AuditText,
    PolicyText,
    RetentionText,
    keeping,
    require,
)
from replayfloor.server.stores.maintenance import (
    Keeping,
    Outcome,
    Part,
    Run,
    Status,
    Step,
    kept_s_of,
    state_of,
    troubles,
)
from replayfloor.server.stores.maintenance_open import maintain_once, plan_of, status_of

app = typer.Typer(
    help="Partitions of receipts: made ahead, and dropped after the retention.",
    no_args_is_help=True,
)

PG_CRON_SCHEDULE = "7,17,27,37,47,57 * * * *"
"""Every ten minutes, and not at the full hour, when everybody else's jobs run."""


@app.command()
def status(
    url: Url,
    *,
    retention: RetentionText = None,
    policy: PolicyText = None,
    audit: AuditText = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Show every partition; status 1 if the next is missing, or one should have been dropped.

    Without --retention or --policy, the retention is the one that the last run was told.
    """
    with failures_as_exit_codes():
        told = keeping(retention, policy, audit)
        found = status_of(url)
    kept = told or found.keeping
    wrong = troubles(found, kept)
    if as_json:
        say(json.dumps(_status_json(found, kept, wrong)))
    else:
        for line in _status_lines(found, kept):
            say(line)
        for each in wrong:
            complain(each)
    if wrong:
        raise typer.Exit(NOT_DONE)


@app.command()
def maintain(
    url: Url,
    *,
    retention: RetentionText = None,
    policy: PolicyText = None,
    audit: AuditText = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done.")
    ] = False,
    print_pg_cron: Annotated[
        bool, typer.Option("--print-pg-cron", help="Print a schedule for pg_cron; do nothing.")
    ] = False,
    accept_shorter: AcceptShorter = False,
) -> None:
    """Make partitions ahead and drop expired ones, once. Any number of these may run.

    Without --retention or --policy, the retention is the one that the last run was told.
    """
    with failures_as_exit_codes():
        told = keeping(retention, policy, audit)
        if print_pg_cron:
            if url.startswith("sqlite:"):
                raise UsageError("pg_cron is an extension of Postgres")
            say(pg_cron(require(told)))
            return
        kept = told or require(status_of(url).keeping)
        if dry_run:
            for line in _step_lines(plan_of(url, kept)):
                say(line)
            return
        run = maintain_once(url, kept, by=person(None), accept_shorter=accept_shorter)
    say(_told(run))
    if run.outcome is not Outcome.DONE:
        raise typer.Exit(NOT_DONE)


@app.command()
def convert(url: Url, *, retention: RetentionText = None, policy: PolicyText = None) -> None:
    """Partition a table of receipts that has no partitions, while requests go on.

    No receipt is copied: the table becomes the first partition, and is dropped with it.
    """
    with failures_as_exit_codes():
        told = keeping(retention, policy, None)
        if url.startswith("sqlite:"):
            raise UsageError("SQLite has no partitions: its receipts are deleted in batches")
        from replayfloor.server.stores import maintenance_postgres

        kept = told or require(status_of(url).keeping)
        done = maintenance_postgres.convert(url, kept)
    if not done:
        complain("Not done: others hold locks on the table for too long. It can be repeated.")
        raise typer.Exit(NOT_DONE)
    say("Receipts are partitioned.")


def pg_cron(kept: Keeping) -> str:
    """Return the statement that schedules the maintenance in the database itself."""
    audit = "null" if kept.audit_ms is None else str(kept.audit_ms)
    return (
        f"select cron.schedule('replayfloor-maintain', '{PG_CRON_SCHEDULE}', $$\n"
        f"    call replayfloor.maintain_v1(p_retention_ms => {kept.retention_ms},\n"
        f"        p_width_ms => {kept.width_ms}, p_ahead_ms => {kept.ahead_ms},\n"
        f"        p_audit_ms => {audit}, p_by => 'pg_cron')\n"
        "$$);"
    )


def _told(run: Run) -> str:
    if run.outcome is Outcome.BUSY:
        return "Nothing was done: a migration or another maintenance is at it."
    text = (
        f"{run.outcome}: {run.made} partitions made, {run.dropped} dropped, "
        f"{run.removed} receipts deleted, {run.proofs} proofs kept; {run.took_s:.1f} s"
    )
    return f"{text}; {run.detail}" if run.detail else text


def _step_lines(steps: list[Step]) -> list[str]:
    if not steps:
        return ["Nothing is to be done."]
    return [
        f"would {step.action} {step.table} {moment(step.starts_at)} to {moment(step.ends_at)}"
        for step in steps
    ]


def _status_lines(found: Status, kept: Keeping | None) -> list[str]:
    rows = [_row(part, found, kept) for part in found.parts]
    lines = as_lines(("partition", "from", "until", "rows", "size", "state"), rows)
    if kept is None:
        lines.append("retention: nobody has said; say --retention or --policy")
    else:
        line = f"retention: {format_duration(kept.retention_s)}"
        if kept.audit_s is not None:
            line += f", used keys are known for {format_duration(kept.audit_s)}"
        lines.append(line)
    last = found.last
    if last is None or last.ran_at is None:
        lines.append("last run: never" if found.layout == "partitioned" else "last run: unknown")
    else:
        lines.append(f"last run: {moment(last.ran_at)} by {last.by}: {_told(last)}")
    return lines


def _row(part: Part, found: Status, kept: Keeping | None) -> tuple[str, ...]:
    return (
        part.name,
        "-" if part.starts_at is None else moment(part.starts_at),
        "-" if part.ends_at is None else moment(part.ends_at),
        f"{part.rows:,}",
        size_text(part.size),
        state_of(part, found.present, kept_s_of(part.table, kept)),
    )


def _status_json(found: Status, kept: Keeping | None, wrong: tuple[str, ...]) -> dict[str, object]:
    return {
        "layout": found.layout,
        "present": found.present.isoformat(),
        "retention_s": None if kept is None else kept.retention_s,
        "audit_s": None if kept is None else kept.audit_s,
        "partitions": [
            {
                "table": part.table,
                "name": part.name,
                "from": part.starts_at and part.starts_at.isoformat(),
                "until": part.ends_at and part.ends_at.isoformat(),
                "rows": part.rows,
                "bytes": part.size,
                "state": state_of(part, found.present, kept_s_of(part.table, kept)),
            }
            for part in found.parts
        ],
        "last_run": None if found.last is None else _run_json(found.last),
        "troubles": list(wrong),
    }


def _run_json(run: Run) -> dict[str, object]:
    return {
        "outcome": run.outcome.value,
        "ran_at": run.ran_at and run.ran_at.isoformat(),
        "succeeded_at": run.succeeded_at and run.succeeded_at.isoformat(),
        "took_s": run.took_s,
        "made": run.made,
        "dropped": run.dropped,
        "removed": run.removed,
        "proofs": run.proofs,
        "by": run.by,
        "detail": run.detail,
    }
