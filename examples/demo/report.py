"""The summary of a run: the numbers, what they mean, and how they look. Nothing is counted here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ledger import Verdict
from replayfloor.testing.proxy import FaultProxy
from replayfloor.testing.proxy_plan import Duplicate, LoseReply, Refuse
from stage import Stage
from tally import Tail, Tally, tail

IDS_SHOWN = 5
"""Of the payments that something is wrong with: enough to look into, few enough to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What the run had to endure, as it really took place."""

    replies_lost: int
    duplicated: int
    refused: int
    server_kills: int
    sender_kills: int
    cut_by_kills: int
    server_down: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A whole run."""

    payments: int
    answered: int
    unanswered: tuple[str, ...]
    failures: tuple[str, ...]
    attempts: int
    conflicts: int
    replayed: int
    resumed: int
    ledger: Verdict
    faults: Faults
    tail: Tail
    duration_s: float

    @property
    def problems(self) -> tuple[str, ...]:
        """Say what is wrong, one sentence each; empty if every promise was kept."""
        return tuple(self._problems())

    def _problems(self) -> Iterator[str]:
        found = (
            (self.ledger.twice, "charged more than once"),
            (self.ledger.lost, "not in the ledger"),
            (self.ledger.foreign, "in the ledger and not in the file"),
            (self.unanswered, "never answered"),
        )
        for ids, what in found:
            if ids:
                more = ", …" if len(ids) > IDS_SHOWN else ""
                yield f"{len(ids)} payments {what}: {', '.join(ids[:IDS_SHOWN])}{more}"
        yield from self.failures[:IDS_SHOWN]


def summarize(
    tally: Tally, proxy: FaultProxy, stage: Stage, verdict: Verdict, duration_s: float
) -> Summary:
    """Put together what the sender told, what the proxy did and what the ledger holds."""
    return Summary(
        payments=tally.total,
        answered=len(tally.answered),
        unanswered=tally.unanswered,
        failures=tuple(f"{payment}: {reason}" for payment, reason in tally.failed.items()),
        attempts=tally.attempts,
        conflicts=tally.conflicts,
        replayed=tally.replayed,
        resumed=tally.resumed,
        ledger=verdict,
        faults=Faults(
            replies_lost=proxy.done[LoseReply],
            duplicated=proxy.done[Duplicate],
            refused=proxy.done[Refuse],
            server_kills=stage.server_kills,
            sender_kills=stage.sender_kills,
            cut_by_kills=proxy.broken,
            server_down=proxy.unreachable,
        ),
        tail=tail(tally.elapsed_s),
        duration_s=duration_s,
    )


def write_json(summary: Summary, path: Path) -> None:
    """Write the summary for a program to read."""
    content = {**asdict(summary), "ok": not summary.problems}
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def show(summary: Summary, console: Console) -> None:
    """Print the summary and the verdict."""
    table = Table(show_header=False)
    table.add_column("")
    table.add_column("", justify="right")
    for section in _sections(summary):
        for name, value in section:
            table.add_row(name, value)
        table.add_section()
    console.print(table)
    if not summary.problems:
        console.print(
            f"[bold green]Every one of the {summary.payments} payments was charged exactly once, "
            f"and its sender knows it[/] ({summary.duration_s:.1f} s).",
            soft_wrap=True,
        )
    for problem in summary.problems:
        console.print(f"[bold red]FAILED[/] {escape(problem)}", soft_wrap=True)


def _sections(summary: Summary) -> Iterator[list[tuple[str, str]]]:
    faults, ledger, times = summary.faults, summary.ledger, summary.tail
    yield [
        ("replies lost, the work being done", str(faults.replies_lost)),
        ("requests duplicated", str(faults.duplicated)),
        ("connections refused", str(faults.refused)),
        ("kills of the server", str(faults.server_kills)),
        ("kills of the sender", str(faults.sender_kills)),
        ("requests cut by the kills", str(faults.cut_by_kills)),
        ("requests that met no server", str(faults.server_down)),
    ]
    yield [
        ("payments", str(summary.payments)),
        ("attempts", str(summary.attempts)),
        ("attempts answered 409, in flight", str(summary.conflicts)),
        ("payments answered by a replay", str(summary.replayed)),
        ("payments resumed after the restart", str(summary.resumed)),
    ]
    yield [
        ("charged rows in the ledger", str(ledger.rows)),
        ("payments charged twice", str(len(ledger.twice))),
        ("payments lost", str(len(ledger.lost))),
        ("payments unanswered", str(len(summary.unanswered))),
    ]
    yield [
        ("first attempt to end of an attempt: p50", f"{times.p50_s:.2f} s"),
        ("p90", f"{times.p90_s:.2f} s"),
        ("p99", f"{times.p99_s:.2f} s"),
        ("max", f"{times.max_s:.2f} s"),
    ]
