"""The report of a run: numbers for people and for programs, and all that is known of what broke.

Nothing is judged here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from chaos.book import Book
from chaos.check import Verdict, Violation, Wrong
from chaos.evidence import Evidence
from chaos.plan import Plan
from replayfloor.server.events import EventKind

HISTORIES_MAX = 20
"""Payments whose whole history is printed; all of them are in the file."""


@dataclass(frozen=True, slots=True)
class Report:
    """A run that is over; `began` is in seconds since 1970."""

    plan: Plan
    book: Book
    evidence: Evidence
    verdict: Verdict
    began: float

    @property
    def blows(self) -> dict[str, int]:
        """How often each blow fell."""
        return dict(Counter(str(struck.strike.blow) for struck in self.book.struck))

    def noted(self, kind: EventKind) -> int:
        """Return how often the workers have noted an event."""
        notes = (note for each in self.evidence.notes.values() for note in each)
        return sum(note.what == kind.value for note in notes)

    def as_json(self) -> dict[str, object]:
        """Return the report for a program."""
        verdict = self.verdict
        return {
            "seed": self.plan.seed,
            "seconds": self.plan.seconds,
            "clients": self.plan.clients,
            "without": self.plan.broken,
            "began": datetime.fromtimestamp(self.began, UTC).isoformat(),
            "requests": len(self.book.operations),
            "attempts": self.book.attempts,
            "acknowledged": verdict.acknowledged,
            "effects": verdict.effects,
            "faults": {"network": self.book.network, "servers": self.blows},
            "taken_over": self.noted(EventKind.TAKEN_OVER),
            "leases_lost": self.noted(EventKind.LEASE_LOST),
            "double_executions": verdict.count(Wrong.DOUBLE),
            "lost_acknowledgements": verdict.count(Wrong.LOST),
            "unknowns": {"count": sum(verdict.unknown.values()), "because": verdict.unknown},
            "not_kept": {"count": sum(verdict.not_kept.values()), "because": verdict.not_kept},
            "violations": [self._violation(each) for each in verdict.violations],
        }

    def _violation(self, violation: Violation) -> dict[str, object]:
        history = list(self.history(violation.payment))
        return {**asdict(violation), "history": history}

    def history(self, payment: str) -> Iterator[str]:
        """Yield everything that is known of a payment, in the order in which it happened."""
        lines = [(struck.began, f"blow: {struck.strike.blow}, {struck.strike.target}, "
                  f"until {self._at(struck.ended)}, {struck.pids}")
                 for struck in self.book.struck]  # fmt: skip
        lines += [(e.at, f"ledger: {e}") for e in self.evidence.effects.get(payment, ())]
        operation = self.book.operations.get(payment)
        if operation is not None:
            yield f"{payment}: {operation.route}, receipt {operation.receipt}, {operation.order}"
            lines += [(each.at, f"attempt at worker {each.worker}, until {self._at(each.ended_at)}"
                       f": {each.ended_as}") for each in operation.attempts]  # fmt: skip
            told = (*operation.answers, *operation.final)
            lines += [(each.at, f"answer: {each}") for each in told]
            notes = self.evidence.noted(operation.receipt)
            lines += [(n.at, f"worker {n.pid}: {n.what} {n.detail}") for n in notes]
        first = min((at for at, line in lines if not line.startswith("blow")), default=0.0)
        last = max((at for at, line in lines if not line.startswith("blow")), default=0.0)
        for at, line in sorted(lines):
            if first - 10 <= at <= last + 5:
                yield f"{self._at(at)} {line}"
        if operation is not None:
            yield f"receipts: {self.evidence.receipts.get(operation.receipt)}"
            yield f"claim: {self.evidence.claims.get(operation.receipt)}"

    def _at(self, at: float) -> str:
        return f"{at - self.began:9.3f}"

    def write(self, path: Path) -> None:
        """Write the report for a program to read."""
        path.write_text(json.dumps(self.as_json(), indent=2) + "\n", encoding="utf-8")

    def show(self, console: Console) -> None:
        """Print the numbers, and the history of every payment that something is wrong with."""
        table = Table(show_header=False)
        table.add_column("")
        table.add_column("", justify="right")
        for section in self._sections():
            for name, value in section:
                table.add_row(name, str(value))
            table.add_section()
        console.print(table)
        payments = dict.fromkeys(each.payment for each in self.verdict.violations)
        for payment in list(payments)[:HISTORIES_MAX]:
            for each in self.verdict.violations:
                if each.payment == payment:
                    console.print(f"[bold red]{each.wrong}[/] {escape(payment)}: ", end="")
                    console.print(escape(each.detail), soft_wrap=True)
            for line in self.history(payment):
                console.print(f"  {escape(line)}", soft_wrap=True)
        if not payments:
            console.print(f"[bold green]Every promise was kept[/] (seed {self.plan.seed}).")
        else:
            console.print(f"[bold red]{len(payments)} payments broken[/] (seed {self.plan.seed}).")

    def _sections(self) -> Iterator[list[tuple[str, object]]]:
        verdict = self.verdict
        yield [("requests (payments, a key each)", len(self.book.operations)),
               ("attempts", self.book.attempts)]  # fmt: skip
        yield sorted(self.book.network.items())
        yield sorted(self.blows.items())
        yield [
            ("claims taken over", self.noted(EventKind.TAKEN_OVER)),
            ("leases lost, and their owners fenced", self.noted(EventKind.LEASE_LOST)),
            ("payments acknowledged", verdict.acknowledged),
            ("effects in the ledgers", verdict.effects),
        ]
        yield [(f"unknown: {why}", times) for why, times in sorted(verdict.unknown.items())]
        yield [(f"not kept: {why}", times) for why, times in sorted(verdict.not_kept.items())]
        counts = Counter(each.wrong for each in verdict.violations)
        yield [(str(wrong), counts[wrong]) for wrong in Wrong]
