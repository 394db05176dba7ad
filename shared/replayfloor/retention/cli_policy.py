"""`replayfloor policy explain`, `check` and `diff`: how a number came about, and what became of it.

What they print is made elsewhere (`explain`, `checking`, `changes`, `report`): here are the
arguments, and the only clock.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Annotated

import typer

from replayfloor.retention.changes import PolicyChange, diff_policies
from replayfloor.retention.checking import check_policies
from replayfloor.retention.cli_common import (
    WRONG,
    FileOption,
    JsonOption,
    NameOption,
    failures_as_exit_codes,
    ink,
    say,
    say_json,
)
from replayfloor.retention.durations import in_words, parse_duration
from replayfloor.retention.errors import PolicyError
from replayfloor.retention.explain import (
    DEFAULT_RATE_PER_S,
    Setting,
    explain_inbound,
    explain_outbound,
)
from replayfloor.retention.files import load_policies
from replayfloor.retention.inbound import InboundPolicy
from replayfloor.retention.picture import wrapped
from replayfloor.retention.policies import Policies, Policy
from replayfloor.retention.report import Json, change_report, finding_report, policy_report
from replayfloor.retention.revisions import load_version
from replayfloor.retention.terms import REVIEW_AFTER_DAYS


def explain(
    *,
    file: FileOption = None,
    name: NameOption = None,
    rate: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help=f"New keys a second, for layout and cost. Default: {DEFAULT_RATE_PER_S:g}.",
        ),
    ] = None,
    against: Annotated[
        str, typer.Option(help="A retention to compare with, such as 24h or 7d.")
    ] = "24h",
    as_json: JsonOption = False,
) -> None:
    """Show how each number came about, what decides it, what it covers and what it costs."""
    with failures_as_exit_codes():
        policies = load_policies(file)
        setting = Setting(
            ink(),
            rate_per_s=DEFAULT_RATE_PER_S if rate is None else rate,
            rate_is_given=rate is not None,
            against_s=parse_duration(against),
        )
        chosen = _chosen(policies, name)
        if as_json:
            say_json([_report(policies, policy, setting) for policy in chosen])
            return
        for at, policy in enumerate(chosen):
            say([""] if at else [])
            say(_lines(policies, policy, setting))


def _chosen(policies: Policies, name: str | None) -> list[Policy]:
    every = list(policies)
    # To ask for the only one of none says where to write one.
    return [policies.select(name)] if name is not None or not every else every


def _lines(policies: Policies, policy: Policy, setting: Setting) -> list[str]:
    place = policies.place(policy)
    if isinstance(policy, InboundPolicy):
        return explain_inbound(policy, place, setting)
    return explain_outbound(policy, place, setting)


def _report(policies: Policies, policy: Policy, setting: Setting) -> dict[str, Json]:
    return policy_report(policy, policies.place(policy), setting.rate_per_s, setting.against_s)


def check(
    *,
    file: FileOption = None,
    older_than: Annotated[
        int, typer.Option(min=0, help="Days after which a figure has to be read again.")
    ] = REVIEW_AFTER_DAYS,
    as_of: Annotated[
        str | None, typer.Option(help="The day to count from, as 2026-11-30. Default: today, UTC.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Exit with 1 if a policy is refused, a figure is unknown, or one is to be read again."""
    with failures_as_exit_codes():
        policies = load_policies(file)
        every = _chosen(policies, None)
        findings = check_policies(policies, today=_day(as_of), older_than_days=older_than)
        if as_json:
            say_json([finding_report(each) for each in findings])
        elif findings:
            say(str(each) for each in findings)
        else:
            plural = "policy" if len(every) == 1 else "policies"
            say([f"{policies.document.file}: nothing is wrong with {len(every)} {plural}"])
    if findings:
        raise typer.Exit(WRONG)


def _day(text: str | None) -> date:
    if text is None:
        return datetime.now(UTC).date()
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise PolicyError(f"{text!r} is no day", advice="write it as 2026-11-30") from None


def diff(
    before: Annotated[str, typer.Argument(help="A file, a revision, or both as HEAD:FILE.")],
    after: Annotated[
        str | None, typer.Argument(help="The same. Default: the file as it is now.")
    ] = None,
    *,
    file: FileOption = None,
    accept_shorter: Annotated[
        bool, typer.Option("--accept-shorter", help="Exit with 0 although something shortens.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what changed in the figures, and what that does to the floor.

    Exits with 1 if a retention or a floor becomes shorter, or a policy cannot be used any more.
    """
    with failures_as_exit_codes():
        old = load_version(before, file)
        new = load_policies(file) if after is None else load_version(after, file)
        changes = diff_policies(old, new)
        if as_json:
            say_json([change_report(each) for each in changes])
        else:
            say(_told(changes, accept_shorter=accept_shorter))
    shorter = any(each.is_shorter for each in changes) and not accept_shorter
    if shorter or any(each.refused for each in changes):
        raise typer.Exit(WRONG)


def _told(changes: list[PolicyChange], *, accept_shorter: bool) -> list[str]:
    if not changes:
        return ["No figure changed."]
    lines: list[str] = []
    for change in changes:
        lines += ["", change.policy] if lines else [change.policy]
        every = (*change.changes, *change.results)
        width = max((len(each.label) for each in every), default=0)
        lines += [f"  {each.label:<{width}}  {each.before} -> {each.after}" for each in every]
        lines += _verdict(change, accept_shorter=accept_shorter)
    return lines


def _verdict(change: PolicyChange, *, accept_shorter: bool) -> list[str]:
    said = "accepted" if accept_shorter else "pass --accept-shorter if that is meant"
    lines: list[str] = []
    if change.refused:
        lines += wrapped(f"REFUSED: {change.refused}", 2)
    if change.is_gone:
        lines += wrapped(f"SHORTER: the policy is gone, and its floor with it; {said}", 2)
    elif change.is_shorter:
        lost = in_words(change.shortened_by_s)
        lines += wrapped(
            f"SHORTER: receipts are gone {lost} earlier, and a retry of that time would be "
            f"executed again; {said}",
            2,
        )
    return lines
