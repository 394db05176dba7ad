"""`replayfloor retention status` and `accept`: the retention that a database was told of.

How a retention is derived, and what a change of a file does to it, is `replayfloor policy …`.
"""

from __future__ import annotations

import json
from datetime import UTC
from pathlib import Path
from typing import Annotated

import typer

from replayfloor.core.errors import ConfigurationError
from replayfloor.retention import InboundPolicy, load_inbound, parse_duration
from replayfloor.retention.durations import in_words
from replayfloor.server.cli_common import (
    NOT_DONE,
    Url,
    as_lines,
    complain,
    failures_as_exit_codes,
    moment,
    plain,
    say,
)
from replayfloor.server.declared import DIGITS, change_in_words, declaration_of, refuse_shorter
from replayfloor.server.stores import open_receipts
from replayfloor.server.stores.policies import NotedPolicy, PolicyState
from replayfloor.server.stores.policies_read import noted_policies

app = typer.Typer(
    help="The retention that a database was told of. How it is derived: `replayfloor policy`.",
    no_args_is_help=True,
)


@app.command()
def status(
    url: Url,
    *,
    text: Annotated[
        bool, typer.Option("--text", help="Also the figures, as they were declared.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For a program.")] = False,
) -> None:
    """Show for each namespace how long receipts are kept, as its last deployment declared it.

    Exits with 1 if nothing was declared.
    """
    with failures_as_exit_codes():
        noted = noted_policies(url)
        if as_json:
            say(json.dumps([_report(each) for each in noted], indent=2))
        elif noted:
            _show(noted, text=text)
        else:
            complain("no deployment has declared a retention to this database")
    if not noted:
        raise typer.Exit(NOT_DONE)


def _show(noted: list[NotedPolicy], *, text: bool) -> None:
    rows = [
        (
            plain(each.namespace),
            in_words(each.retention_s),
            plain(each.digest[:DIGITS]),
            moment(each.noted_at.astimezone(UTC)),
        )
        for each in noted
    ]
    for line in as_lines(("NAMESPACE", "KEPT FOR", "POLICY", "DECLARED"), rows):
        say(line)
    for each in noted if text else ():
        say("")
        say(f"{plain(each.namespace)}:")
        for line in each.text.splitlines():
            say(f"  {plain(line)}")


def _report(noted: NotedPolicy) -> dict[str, object]:
    return {
        "namespace": noted.namespace,
        "retention_s": noted.retention_s,
        "digest": noted.digest,
        "text": noted.text,
        "noted_at": noted.noted_at.astimezone(UTC).isoformat(),
    }


@app.command()
def accept(
    url: Url,
    *,
    policy: Annotated[
        str | None,
        typer.Option(help="FILE[:NAME]: the policy that deployments are about to use."),
    ] = None,
    retention: Annotated[
        str | None,
        typer.Option(help="Such as 84h: a retention without a policy, or longer than its own."),
    ] = None,
    namespace: Annotated[str, typer.Option(help="Whose keys.")] = "default",
    accept_shorter: Annotated[
        bool,
        typer.Option(
            "--accept-shorter",
            help="Also if it is shorter: a key used before it may then be executed again.",
        ),
    ] = False,
) -> None:
    """Declare a retention before the first deployment that has it.

    Exits with 1 if it is shorter than the declared one, and that was not accepted.
    """
    with failures_as_exit_codes():
        chosen = None if policy is None else _policy_of(policy)
        if chosen is None and retention is None:
            raise ConfigurationError("say which: --policy FILE[:NAME], --retention 84h, or both")
        retention_s = _retention_of(chosen, retention)
        declaration = declaration_of(namespace, retention_s, chosen, accept_shorter=accept_shorter)
        assert declaration is not None  # there is a retention
        receipts = open_receipts(url)
        try:
            declared = receipts.declare(declaration)
        finally:
            receipts.close()
        if declared.state is PolicyState.REFUSED:
            try:
                refuse_shorter(declaration, declared)
            except ConfigurationError as error:
                complain(str(error))
                raise typer.Exit(NOT_DONE) from None
        say(change_in_words(declaration, declared) or _unchanged(declared.state, retention_s))


def _unchanged(state: PolicyState, retention_s: float) -> str:
    said = "declared already" if state is PolicyState.SAME else "declared"
    return f"Receipts are kept for {in_words(retention_s)}: {said}."


def _retention_of(policy: InboundPolicy | None, text: str | None) -> float:
    if text is None:
        assert policy is not None  # one of the two is there
        return policy.retention_s
    retention_s = parse_duration(text)
    if policy is not None:
        policy.require(retention_s)
    return retention_s


def _policy_of(spec: str) -> InboundPolicy:
    """Return the policy of "file" or "file:name". Raises PolicyError."""
    file, colon, name = spec.rpartition(":")
    # A path may have a colon of its own, as on Windows.
    if not colon or Path(spec).exists():
        return load_inbound(spec)
    return load_inbound(file, name)
