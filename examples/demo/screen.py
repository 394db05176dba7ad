"""What is shown while the demo runs: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from replayfloor.testing.proxy import FaultProxy
from replayfloor.testing.proxy_plan import Duplicate, LoseReply, Refuse
from tally import Tally

STEPS = 10
"""Plain lines over all payments."""

BAR_COLUMNS = 50
FRAMES_PER_S = 8


class Screen:
    """Shows a tally and the proxy's faults; `note` adds a line that stays."""

    def __init__(self, console: Console, tally: Tally, proxy: FaultProxy) -> None:
        self._console, self._tally, self._proxy = console, tally, proxy
        self._steps = 0
        self._live: Live | None = None

    def __enter__(self) -> Self:
        """Start the live display, if this is a terminal."""
        if self._console.is_terminal:
            self._live = Live(
                get_renderable=self._frame,
                console=self._console,
                refresh_per_second=FRAMES_PER_S,
                transient=True,
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the terminal back."""
        if self._live is not None:
            self._live.stop()

    def note(self, text: str) -> None:
        """Say what happened, for good."""
        self._console.print(
            f"[bold]{self._tally.share:4.0%}[/]  {text}", highlight=False, soft_wrap=True
        )

    async def follow(self) -> None:
        """Print a line at every step of the payments, where there is no live display."""
        while self._live is None:
            await self._tally.news()
            steps = len(self._tally.answered) * STEPS // self._tally.total
            if steps > self._steps:
                self._steps = steps
                self.note(self._counts())

    def _counts(self) -> str:
        done = self._proxy.done
        return (
            f"{len(self._tally.answered)} of {self._tally.total} payments answered after "
            f"{self._tally.attempts} attempts; replies lost {done[LoseReply]}, "
            f"duplicated {done[Duplicate]}, refused {done[Refuse]}"
        )

    def _frame(self) -> RenderableType:
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            ProgressBar(
                total=self._tally.total, completed=len(self._tally.answered), width=BAR_COLUMNS
            ),
            Text(f"{self._tally.share:.0%}"),
        )
        return Group(bar, Text(self._counts()))
