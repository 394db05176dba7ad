"""One run, from the first server to the verdict: load and blows, then quiet, then questions."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable
from itertools import cycle
from pathlib import Path

import httpx

from chaos.bank import HOST, Bank
from chaos.book import Book, Operation
from chaos.check import judge
from chaos.clients import (
    PROFILE,
    RETRY,
    ByHand,
    ByTransport,
    Client,
    answer_of,
    go_on,
    is_definitive,
    pay,
)
from chaos.evidence import Evidence
from chaos.network import KEY_HEADER, PAYMENT_HEADER, Balanced, faulty
from chaos.plan import ATTEMPT_S, Plan, Strike
from chaos.report import Report
from chaos.stage import Stage, set_up
from replayfloor.client import AsyncIdempotentTransport, MemoryJournal
from replayfloor.client.budget import RetryBudget
from replayfloor.client.journal import Journal, SQLiteJournal

GRACE_S = 6.0
"""For so long after the last blow clients go on repeating what they have begun, with the faults of
the network still there; after that they are cut off, as by the end of their process."""

SETTLE_S = 30.0
"""An operation has to have its answer by then, once everything is well: some leases, and the
longest handler."""

ASKING = 12
"""Questions at a time after the run."""


class Run:
    """What the parts of one run share."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        """Write journals, logs and trails below `folder`."""
        self.plan, self.folder = plan, folder
        self.book, self.bank = Book(), Bank()
        self.memory = MemoryJournal()
        self._over_at = 0.0

    def over(self) -> bool:
        """Say whether the time is up."""
        return time.monotonic() >= self._over_at

    async def play(self, stage: Stage) -> Report:
        """Play it; the servers run already."""
        began = time.time()
        ports = [worker.port for worker in stage.workers]
        self._over_at = time.monotonic() + self.plan.seconds
        async with faulty(self.plan, ports, self.book) as proxies:
            await self._load(stage, [proxy.port for proxy in proxies])
            await asyncio.to_thread(stage.heal)
            # What was delayed or copied on the way arrives, and only then is anything counted.
            async with asyncio.timeout(SETTLE_S):
                for proxy in proxies:
                    await proxy.quiet()
        self._over_at = time.monotonic() + SETTLE_S
        await self._settle(ports)
        await self._repeat_all(stage, ports)
        trails = [worker.trail for worker in stage.workers]
        evidence = await asyncio.to_thread(Evidence.gather, stage.url, self.bank, trails)
        return Report(self.plan, self.book, evidence, judge(self.book, evidence), began)

    # -- faults -----------------------------------------------------------------------------------

    async def _load(self, stage: Stage, ports: list[int]) -> None:
        """Let the clients pay and the blows fall."""
        async with contextlib.AsyncExitStack() as stack:
            clients = await self._clients(stack, ports)
            striking = asyncio.create_task(self._strike_all(stage))
            paying = [
                asyncio.create_task(go_on(name, client, self.plan, self.book, self.over))
                for name, client in clients
            ]
            try:
                await striking
                done, late = await asyncio.wait(
                    paying,
                    timeout=max(0.0, self._over_at - time.monotonic()) + GRACE_S,
                    return_when=asyncio.FIRST_EXCEPTION,
                )
            finally:
                striking.cancel()
                for task in paying:
                    task.cancel()
                await asyncio.gather(striking, *paying, return_exceptions=True)
            for task in (*done, *late):
                if not task.cancelled():
                    task.result()

    async def _strike_all(self, stage: Stage) -> None:
        """Strike by the plan; blows at one server wait for each other, others overlap."""
        began = time.monotonic()
        busy: dict[str, asyncio.Lock] = {}

        async def strike(each: Strike) -> None:
            await asyncio.sleep(max(0.0, each.at_s - (time.monotonic() - began)))
            async with busy.setdefault(each.target, asyncio.Lock()):
                self.book.struck.append(await asyncio.to_thread(stage.strike, each))

        async with asyncio.TaskGroup() as group:
            for each in self.plan.strikes():
                group.create_task(strike(each))

    async def _clients(
        self, stack: contextlib.AsyncExitStack, ports: list[int]
    ) -> list[tuple[str, Client]]:
        """Half by hand, half through the transport; of those, half with a journal in a file."""
        by_hand = await stack.enter_async_context(self._client(Balanced(self.book, ports)))
        kinds = {"hand-a": by_hand, "hand-b": by_hand}
        for name, journal in self._journals(stack).items():
            kinds[name] = await stack.enter_async_context(self._transported(journal, ports))
        made: list[tuple[str, Client]] = []
        for number in range(self.plan.clients):
            kind = list(kinds)[number % len(kinds)]
            name = f"{kind}-{number // len(kinds)}"
            sort = ByHand if kind.startswith("hand") else ByTransport
            made.append((name, sort(kinds[kind], name, self.over)))
        return made

    def _journals(self, stack: contextlib.AsyncExitStack) -> dict[str, Journal]:
        file = SQLiteJournal(self.folder / "journal.db")
        stack.callback(file.close)
        return {"memory": self.memory, "sqlite": file}

    def _client(self, transport: httpx.AsyncBaseTransport) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=transport, timeout=ATTEMPT_S)

    def _transported(self, journal: Journal, ports: list[int]) -> httpx.AsyncClient:
        # Most retries fail here on purpose; the default budget would end them.
        transport = AsyncIdempotentTransport(
            Balanced(self.book, ports),
            profile=PROFILE,
            journal=journal,
            retry=RETRY,
            budget=RetryBudget(capacity=10**9),
        )
        return self._client(transport)

    # -- quiet ------------------------------------------------------------------------------------

    async def _settle(self, ports: list[int]) -> None:
        """Carry what was cut off to its answer: by hand, or from journals that are opened anew."""
        left = [each for each in self.book.operations.values() if not each.answers]
        async with contextlib.AsyncExitStack() as stack:
            by_hand = await stack.enter_async_context(self._client(Balanced(self.book, ports)))
            senders: dict[str, Client] = {"hand": ByHand(by_hand, "afterwards", self.over)}
            for name, journal in self._journals(stack).items():
                client = await stack.enter_async_context(self._transported(journal, ports))
                senders[name] = ByTransport(client, "afterwards", self.over)

            async def settle(operation: Operation) -> None:
                await pay(senders[operation.payment.partition("-")[0]], operation)

            await _each(left, settle)

    async def _repeat_all(self, stage: Stage, ports: list[int]) -> None:
        """Repeat every payment once more, with an empty Redis: Postgres alone has to know."""
        await asyncio.to_thread(stage.redis.primary.flush)
        inner = httpx.AsyncHTTPTransport(verify=False, trust_env=False)
        async with self._client(inner) as client:
            turns = cycle(ports)

            async def repeat(operation: Operation) -> None:
                if operation.key:
                    await self._repeat(client, operation, next(turns))

            await _each(self.book.operations.values(), repeat)

    async def _repeat(self, client: httpx.AsyncClient, operation: Operation, port: int) -> None:
        headers = {PAYMENT_HEADER: operation.payment, KEY_HEADER: f'"{operation.key}"'}
        url = f"http://{HOST}:{port}/{operation.route}"
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline:
            try:
                response = await client.post(url, json=operation.order, headers=headers)
            except httpx.TransportError:
                await asyncio.sleep(0.5)  # a busy machine; that it never answers is noticed
                continue
            answer = answer_of(response, "repeated")
            if is_definitive(answer, response.headers.get("retry-after", "0")):
                operation.final.append(answer)
                return
            await asyncio.sleep(0.5)


async def _each(
    operations: Iterable[Operation], work: Callable[[Operation], Awaitable[None]]
) -> None:
    """Do something with every operation, some at a time."""
    waiting = iter(list(operations))

    async def worker() -> None:
        for operation in waiting:
            await work(operation)

    async with asyncio.TaskGroup() as group:
        for _ in range(ASKING):
            group.create_task(worker())


async def play(plan: Plan, folder: Path) -> Report:
    """Run a plan with servers of its own; `folder` keeps what they write."""
    run = Run(plan, folder)
    async with run.bank.listening():
        setting = set_up(folder, plan, run.bank)
        stage = await asyncio.to_thread(setting.__enter__)
        try:
            return await run.play(stage)
        finally:
            await asyncio.to_thread(setting.__exit__, None, None, None)
