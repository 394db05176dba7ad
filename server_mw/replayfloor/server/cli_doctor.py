"""`replayfloor doctor`: what is wrong with a deployment, and what to do about it.

Exit codes, for monitoring: 0 nothing is worse than a note; 1 a warning; 2 something is critical, or
the command cannot be carried out as written.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from replayfloor.core.errors import ConfigurationError, UsageError
from replayfloor.retention import parse_duration
from replayfloor.server.cli_common import complain, failures_as_exit_codes, plain, say
from replayfloor.server.doctor.check_policy import PolicyFacts, check_policy
from replayfloor.server.doctor.check_sqlite import check_sqlite
from replayfloor.server.doctor.findings import accept, exit_code
from replayfloor.server.doctor.read_policy import read_policy
from replayfloor.server.doctor.read_sqlite import read_sqlite
from replayfloor.server.doctor.report import Section, all_findings, report_json, report_lines
from replayfloor.server.doctor.wanted import Wanted
from replayfloor.server.stores.sqlite_work import path_of

NEEDS_SERVER = "this needs what pip install 'replayfloor[server]' brings"


def doctor(
    *,
    postgres: Annotated[
        str | None, typer.Option(help="Where the receipts are.", metavar="URL")
    ] = None,
    redis: Annotated[str | None, typer.Option(help="Where the locks are.", metavar="URL")] = None,
    sqlite: Annotated[
        str | None, typer.Option(help="Or the file that the receipts are in.", metavar="PATH")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(help="What it should be like: FILE or FILE:NAME.", metavar="FILE[:NAME]"),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Worker processes in all, on all machines.")
    ] = None,
    pool: Annotated[
        int, typer.Option(min=1, help="Connections of each of a worker's two pools.")
    ] = Wanted().pool,
    rate: Annotated[
        float | None, typer.Option(help="New keys a second, on average over a day.")
    ] = None,
    bytes_per_key: Annotated[
        float, typer.Option(help="Of one receipt, with index and answer.")
    ] = Wanted().bytes_per_key,
    older_than: Annotated[
        str, typer.Option(help="A provider's figure that was read longer ago is overdue.")
    ] = "180d",
    accepted: Annotated[
        list[str] | None,
        typer.Option("--accept", help="A check that is no more than a note.", metavar="CHECK"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Look at a deployment and say what to do. Writes nothing; status 1 or 2 if something is wrong.

    Run it where the workers run: it measures round trips and clocks from there.
    """
    with failures_as_exit_codes():
        if postgres is None and redis is None and sqlite is None and policy is None:
            raise UsageError("say what to look at: --postgres, --redis, --sqlite or --policy")
        limit_s = parse_duration(older_than)
        if (rate is not None and rate <= 0) or bytes_per_key <= 0:
            raise UsageError("--rate and --bytes-per-key are more than 0")
        at = datetime.now(UTC)
        facts = None
        if policy is not None:
            facts = read_policy(policy, today=at.date(), older_than_s=limit_s)
        wanted = _with_policy(Wanted(workers, pool, rate, bytes_per_key), facts)
        sections = [
            *([] if postgres is None else [_postgres(postgres, wanted)]),
            *([] if redis is None else [_redis(redis, workers)]),
            *([] if sqlite is None else [_sqlite(sqlite, wanted)]),
            *([] if policy is None or facts is None else [_policy(policy, facts)]),
        ]
    _print(sections, set(accepted or ()), at, as_json=as_json)


def _with_policy(wanted: Wanted, facts: PolicyFacts | None) -> Wanted:
    if facts is None or facts.policy is None:
        return wanted
    return replace(
        wanted,
        retention_s=facts.retention_s,
        digest=facts.policy.digest,
        policy=facts.policy.name,
    )


def _print(sections: list[Section], accepted: set[str], at: datetime, *, as_json: bool) -> None:
    unknown = accepted - {each.check for each in all_findings(sections)}
    if unknown:
        complain(f"--accept {', '.join(sorted(unknown))}: there is no such check in this report")
    sections = [replace(each, findings=tuple(accept(each.findings, accepted))) for each in sections]
    if as_json:
        say(json.dumps(report_json(sections, at)))
    else:
        for line in report_lines(sections):
            say(plain(line))
    if code := exit_code(all_findings(sections)):
        raise typer.Exit(code)


def _postgres(url: str, wanted: Wanted) -> Section:
    try:
        from replayfloor.server.doctor.check_postgres import check_postgres
        from replayfloor.server.doctor.read_postgres import read_postgres
        from replayfloor.server.stores.postgres_options import conninfo_of, redacted
    except ImportError:
        raise UsageError(NEEDS_SERVER) from None
    shown = "(not a usable URL)"
    with suppress(ConfigurationError):
        shown = redacted(conninfo_of(url)).strip('"')
    return Section("postgres", shown, tuple(check_postgres(read_postgres(url), wanted=wanted)))


def _redis(url: str, workers: int | None) -> Section:
    try:
        from replayfloor.server.doctor.check_redis_all import check_redis
        from replayfloor.server.doctor.read_redis import read_redis
    except ImportError:
        raise UsageError(NEEDS_SERVER) from None
    facts = read_redis(url)
    names = [*(each.name for each in facts.sentinels), *(each.name for each in facts.servers)]
    shown = ", ".join(names)
    findings = tuple(check_redis(facts, workers=workers))
    return Section("redis", shown or "(not a usable URL)", findings)


def _sqlite(path: str, wanted: Wanted) -> Section:
    file = path_of(path) if path.startswith("sqlite:") else Path(path)
    facts = read_sqlite(file, retention_s=wanted.retention_s)
    return Section("sqlite", str(file), tuple(check_sqlite(facts, wanted=wanted)))


def _policy(spec: str, facts: PolicyFacts) -> Section:
    return Section("policy", spec, tuple(check_policy(facts)))
