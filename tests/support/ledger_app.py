"""The ledger application for ASGI, behind the middleware; served in a process by `serving`.

What an execution answers names the execution, as its row in the ledger does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import cast

import psycopg
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route as AppRoute
from starlette.types import ASGIApp

from replayfloor.server import AsyncActiveClaim, AsyncLock, AsyncReceipts, IdempotencyMiddleware
from replayfloor.server.locks import open_async_lock
from replayfloor.server.stores import open_async_receipts
from replayfloor.server.stores.postgres_async import AsyncPostgresReceipts
from support.failpoints import Stepped, SteppedASGI
from support.ledger import SQLITE_SCHEME
from support.ledger_common import POLL_S, LedgerState, new_run

Handler = Callable[[Request], Awaitable[Response]]


class LedgerApp:
    """The handlers of one process."""

    def __init__(self, state: LedgerState, receipts_url: str) -> None:
        """Write where `state` does."""
        self._state, self._receipts_url = state, receipts_url

    def routes(self) -> list[AppRoute]:
        """Return the routes: those that write, one for each kind of effect, and the questions."""
        writing: dict[str, Handler] = {
            "/atomic": self.atomic,
            "/external": self.external,
            "/recorded": self.recorded,
            "/repeatable": self.repeatable,
            "/mislabelled": self.external,
            "/background": self.background,
        }
        return [
            *(AppRoute(path, handler, methods=["POST"]) for path, handler in writing.items()),
            *(AppRoute(path, self.question) for path in self._state.questions()),
        ]

    async def atomic(self, request: Request) -> Response:
        """Write through the claim's connection."""
        payment, run = await payment_of(request), new_run()
        await self.pause(request, "before")
        connection = claim_of(request).connection
        await connection.execute(self._state.insert, (payment, run, None))
        await self.pause(request, "after")
        return created(request, payment, run)

    async def external(self, request: Request) -> Response:
        """Write and commit elsewhere, as another service would."""
        payment, run = await payment_of(request), new_run()
        await self.pause(request, "before")
        await asyncio.to_thread(self._state.write, payment, run)
        await self.pause(request, "after")
        return created(request, payment, run)

    async def recorded(self, request: Request) -> Response:
        """Write, and finish the receipt, in a transaction of our own."""
        payment, run = await payment_of(request), new_run()
        reach = self._state.steps.reach
        async with await psycopg.AsyncConnection.connect(self._receipts_url) as database:
            await self.pause(request, "before")
            await database.execute(self._state.insert.encode(), (payment, run, None))
            reach("effect written and not committed")
            answer = created(request, payment, run)
            await claim_of(request).finish_in(database, answer)
            reach("receipt written and not committed")
            await database.commit()
            reach("effect and receipt committed")
        await self.pause(request, "after")
        return answer

    async def repeatable(self, request: Request) -> Response:
        """Write under a name that is the same in every execution under the key."""
        payment, run = await payment_of(request), new_run()
        name = claim_of(request).derived_key("charge")
        await self.pause(request, "before")
        await asyncio.to_thread(self._state.write, payment, run, name)
        await self.pause(request, "after")
        return created(request, payment, run)

    async def background(self, request: Request) -> Response:
        """Answer, and write after that."""
        payment, run = await payment_of(request), new_run()

        async def later() -> None:
            await self.pause(request, "after")
            await asyncio.to_thread(self._state.write, payment, run)

        answer = created(request, payment, run)
        answer.background = BackgroundTask(later)
        return answer

    async def question(self, request: Request) -> Response:
        """Answer a question, unprotected."""
        return JSONResponse(self._state.questions()[request.url.path])

    async def pause(self, request: Request, when: str) -> None:
        """Wait for as long as a header of the request says (milliseconds), or "until-lost"."""
        wanted = request.headers.get(f"x-{when}-ms", "0")
        with self._state.pausing(when):
            if wanted != "until-lost":
                await asyncio.sleep(int(wanted) / 1000)
                return
            # There is no event to wait for: a handler looks when it is about to do something.
            while not claim_of(request).lost:  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)


def claim_of(request: Request) -> AsyncActiveClaim:
    """Return the claim under which a handler runs."""
    claim = request.state.idempotency
    assert isinstance(claim, AsyncActiveClaim)
    return claim


async def payment_of(request: Request) -> str:
    """Return what is to be paid."""
    return str((await request.json())["payment"])


def created(request: Request, payment: str, run: str) -> Response:
    """Return the answer of an execution."""
    content = {"payment": payment, "run": run, "lost": claim_of(request).lost}
    return JSONResponse(content, 201)


def make_app(environment: Mapping[str, str]) -> ASGIApp:
    """Return the application behind the middleware, every step of both counted."""
    state = LedgerState(environment)
    steps = state.steps
    app = Starlette(routes=LedgerApp(state, environment["LEDGER_RECEIPTS"]).routes())
    protected = IdempotencyMiddleware(
        SteppedASGI(app, steps, "handler"),
        receipts=cast("AsyncReceipts", Stepped(receipts_of(environment), steps, "receipts")),
        lock=cast("AsyncLock", Stepped(lock_of(environment), steps, "lock")),
        principal=None,
        **state.protection(),
    )
    return SteppedASGI(protected, steps, "server")


def receipts_of(environment: Mapping[str, str]) -> AsyncReceipts:
    """Return the store that `LEDGER_RECEIPTS` names; `LEDGER_OPERATION_S` is its patience."""
    url = environment["LEDGER_RECEIPTS"]
    operation_s = environment.get("LEDGER_OPERATION_S")
    if operation_s is None or url.startswith(SQLITE_SCHEME):
        return open_async_receipts(url)
    return AsyncPostgresReceipts(url, operation_s=float(operation_s))


def lock_of(environment: Mapping[str, str]) -> AsyncLock:
    """Return the lock that `LEDGER_LOCK` names."""
    return open_async_lock(environment.get("LEDGER_LOCK", "local"))
