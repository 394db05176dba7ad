"""`replayfloor conform URL`: arguments in, a table out. What is checked is in `catalogue`.

Exit codes: 0 nothing failed, 1 something did, 2 the checks could not be run, or not all of them.
"""

from __future__ import annotations

from typing import Final

import typer
from rich.console import Console

from replayfloor.conform.catalogue import select
from replayfloor.conform.cli_options import (
    BareOption,
    BodyOption,
    ContentTypeOption,
    CountOption,
    HeaderOption,
    JsonOption,
    JUnitOption,
    MethodOption,
    OnlyOption,
    OriginOption,
    OtherOption,
    PathOption,
    SecondOption,
    TimeLimitOption,
    TimeoutOption,
    TogetherOption,
    UrlArgument,
    path_of,
    read_lines,
    read_paths,
    read_payload,
)
from replayfloor.conform.report import as_json, as_junit, printable, summary, table
from replayfloor.conform.session import run_checks
from replayfloor.conform.shell import Limits, Shell
from replayfloor.conform.target import CONTENT_TYPE, Target, other_body
from replayfloor.conform.verdicts import CannotRun
from replayfloor.core.errors import UsageError

app = typer.Typer(
    help="Ask any server whether it keeps its word about Idempotency-Key.", add_completion=False
)
out = Console(highlight=False, markup=False, emoji=False)
err = Console(highlight=False, markup=False, emoji=False, stderr=True)

COULD_NOT_RUN: Final = 2
DEFAULTS: Final = Limits()


@app.command()
def conform(
    url: UrlArgument,
    *,
    method: MethodOption = "POST",
    path: PathOption = None,
    header: HeaderOption = None,
    body: BodyOption = '{"amount": 1}',
    other: OtherOption = None,
    content_type: ContentTypeOption = "application/json",
    second: SecondOption = None,
    count_url: CountOption = None,
    origin: OriginOption = "",
    concurrency: TogetherOption = 8,
    bare_keys: BareOption = False,
    only: OnlyOption = "",
    timeout: TimeoutOption = DEFAULTS.answer_s,
    time_limit: TimeLimitOption = DEFAULTS.run_s,
    to_json: JsonOption = False,
    junit: JUnitOption = None,
) -> None:
    """Run the rules of the Idempotency-Key draft, and known kinds of bugs, against a server.

    It carries out the operation hundreds of times: give it a test server that nobody else uses.
    """
    try:
        main_path, kinds = read_paths(path)
        lines = read_lines(header)
        payload = read_payload(body)
        target = Target(
            method=method.upper(),
            path=main_path or path_of(url),
            lines=(*lines, (CONTENT_TYPE, content_type.encode("latin-1"))),
            body=payload,
            other_body=other_body(payload) if other is None else read_payload(other),
            second=read_lines(second),
            origin=origin.encode("latin-1"),
            paths=kinds,
            concurrency=concurrency,
            counted=count_url is not None,
            quoted=not bare_keys,
        )
        checks = select([each.strip() for each in only.split(",") if each.strip()])
        limits = Limits(answer_s=timeout, run_s=time_limit)
        with Shell(url, count_url=count_url, count_lines=lines, limits=limits) as shell:
            report = run_checks(target, checks, shell)
        if junit is not None:
            junit.write_text(as_junit(report), encoding="utf-8")
    except (CannotRun, UsageError, OSError) as error:
        err.print(printable(str(error)), soft_wrap=True)
        raise typer.Exit(COULD_NOT_RUN) from None
    if to_json:
        out.print(as_json(report), soft_wrap=True)
    else:
        out.print(table(report))
        out.print(summary(report))
    raise typer.Exit(report.exit_code)
