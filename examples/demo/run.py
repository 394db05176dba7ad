"""Runs the demo: options, the order of things, the exit status.

0: every payment is in the ledger exactly once and was answered. 1: not so. 2: it could not be run.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
from rich.console import Console
from rich.markup import escape

from ledger import PostgresLedger, SQLiteLedger, fresh_schema, judge
from payments import PaymentsInvalid, load_payments
from processes import ChildFailed, run_tool
from replayfloor.testing.proxy import FaultProxy
from replayfloor.testing.proxy_plan import shuffled
from report import Summary, show, summarize, write_json
from screen import Screen
from settings import DECK, LEASE_S, PAYMENTS, SEED, TIME_MAX_S
from stage import Stage, free_port
from tally import Tally

BROKEN, NOT_RUN, STOPPED = 1, 2, 130


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    payments: Path
    postgres: str | None
    redis: str | None
    seed: int
    json: Path | None


def main(arguments: Sequence[str]) -> int:
    """Run the demo; return the exit status."""
    console = Console()
    try:
        return _reported(_options(arguments), console)
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("stopped")
        return STOPPED


def _reported(options: Options, console: Console) -> int:
    try:
        return asyncio.run(_main(options, console))
    except* (ChildFailed, PaymentsInvalid, psycopg.Error, OSError) as group:
        for error in _leaves(group):
            text = f"[bold red]The demo could not be run:[/] {escape(str(error))}"
            console.print(text, soft_wrap=True)
    return NOT_RUN


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def _options(arguments: Sequence[str]) -> Options:
    parser = argparse.ArgumentParser(prog="examples/demo", description=__doc__)
    parser.add_argument("--payments", type=Path, default=PAYMENTS, metavar="FILE")
    parser.add_argument("--postgres", metavar="URL", help="receipts there instead of in SQLite")
    parser.add_argument("--redis", metavar="URL", help="lock there instead of in the process")
    parser.add_argument("--seed", type=int, default=SEED, metavar="N", help="of the faults")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the summary there too")
    found = parser.parse_args(arguments)
    if found.postgres and not found.postgres.startswith(("postgresql://", "postgres://")):
        parser.error("--postgres takes a URL: postgresql://user@host/database")
    return Options(**vars(found))


async def _main(options: Options, console: Console) -> int:
    """Run the demo so that a polite signal unwinds it: nothing is to be left behind.

    SIGINT too, for a shell has its background jobs ignore it, and then Python does as well.
    """
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with tempfile.TemporaryDirectory(prefix="replayfloor-demo-") as keep:
        summary = await _run(options, console, Path(keep))
    show(summary, console)
    if options.json is not None:
        write_json(summary, options.json)
    return exit_status(summary)


def exit_status(summary: Summary) -> int:
    """Return what the process ends with: the promise was kept, or it was not."""
    return BROKEN if summary.problems else 0


async def _run(options: Options, console: Console, keep: Path) -> Summary:
    payments = load_payments(options.payments)
    ids = [payment.id for payment in payments]
    tally = Tally(ids)
    if options.postgres:
        command = ("-m", "replayfloor.cli", "migrate", options.postgres)
        await run_tool(*command, log=keep / "migrate.log")
    with _ledger(options, keep) as ledger:
        started_s = time.monotonic()
        plan = shuffled(options.seed, DECK)
        async with FaultProxy(free_port(), plan) as proxy:
            with Screen(console, tally, proxy) as screen:
                stage = Stage(
                    payments=options.payments.resolve(),
                    keep=keep,
                    server_environment={
                        "RECEIPTS": ledger.url,
                        "LOCK": options.redis or "local",
                        "LEASE_S": str(LEASE_S),
                    },
                    proxy=proxy,
                    tally=tally,
                    note=screen.note,
                )
                await _play(stage, screen)
        verdict = judge(ids, ledger.charged())
        return summarize(tally, proxy, stage, verdict, time.monotonic() - started_s)


async def _play(stage: Stage, screen: Screen) -> None:
    follower = asyncio.create_task(screen.follow())
    try:
        async with asyncio.timeout(TIME_MAX_S):
            await stage.play()
    except TimeoutError:
        # The count that follows tells what is missing; it is not this clock that decides.
        screen.note(f"given up after {TIME_MAX_S:.0f} s")
    finally:
        follower.cancel()
        with suppress(asyncio.CancelledError):
            await follower


@contextmanager
def _ledger(options: Options, keep: Path) -> Iterator[SQLiteLedger | PostgresLedger]:
    if options.postgres is None:
        yield SQLiteLedger(keep / "payments.db")
    else:
        with fresh_schema(options.postgres) as ledger:
            yield ledger
