"""`replayfloor client close`: a person says what became of an operation, once it is known."""

from __future__ import annotations

from typing import Annotated

import typer

from replayfloor.client.cli_common import (
    Namespace,
    OperationId,
    Url,
    failures_as_exit_codes,
    plain,
    refuse,
    say,
)
from replayfloor.client.cli_journal import find, journal_at
from replayfloor.client.clock import system_clock
from replayfloor.client.operations import settle
from replayfloor.core.errors import UsageError
from replayfloor.core.journal import OperationState, Settlement


def close(
    url: Url,
    operation_id: OperationId,
    *,
    executed: Annotated[
        bool | None,
        typer.Option("--executed/--not-executed", help="What became of it.", show_default=False),
    ] = None,
    note: Annotated[str, typer.Option(help="How you know, for whoever looks later.")],
    namespace: Namespace = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also while a call is sending it.")
    ] = False,
) -> None:
    """Settle an operation by hand. Nothing is sent for it ever again; calls are told so."""
    with failures_as_exit_codes():
        if executed is None:
            raise UsageError("say --executed or --not-executed")
        settlement = Settlement.EXECUTED if executed else Settlement.NOT_EXECUTED
        with journal_at(url) as journal:
            entry = find(journal, operation_id, namespace)
            after = entry
            if entry.state is not OperationState.DONE:
                place = (entry.namespace, entry.operation_id)
                after = settle(journal, *place, settlement, note, system_clock(), force=force)
        if after.state is OperationState.DONE:
            refuse(
                f"Nothing was changed: it was answered with status {after.final_status}, and that "
                "answer counts."
            )
        if entry.settlement not in (None, settlement):
            say(f"It was settled before, as {_said(entry.settlement)}: {plain(entry.note or '')}")
        say(f"Settled: {_said(settlement)}. Calls with this operation id send nothing.")
        if settlement is Settlement.NOT_EXECUTED:
            say("If it is still wanted, begin a new operation, with a new id.")


def _said(settlement: Settlement | None) -> str:
    return "executed" if settlement is Settlement.EXECUTED else "not executed"
