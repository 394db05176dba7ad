"""The way from the clients to the workers: a fault proxy before each, one chosen per attempt."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from itertools import count

import httpx

from chaos.bank import HOST
from chaos.book import Attempt, Book
from chaos.plan import Plan
from replayfloor.testing.proxy import FaultProxy
from replayfloor.testing.proxy_plan import Pass

PAYMENT_HEADER = "X-Payment"
"""Names the payment on every request, so that attempts can be told apart here."""

KEY_HEADER = "Idempotency-Key"


class Balanced(httpx.AsyncBaseTransport):
    """Sends each attempt to the next worker, whatever its URL says, and writes it into the book.

    Both kinds of clients stand on it. It repeats nothing and chooses nothing but the port.
    """

    def __init__(self, book: Book, ports: Sequence[int]) -> None:
        """Choose among these ports in turn."""
        self._book, self._ports, self._numbers = book, ports, count()
        # There is no bound to wait at: how many requests are under way is the clients' affair.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=len(ports) * 8)
        self._inner = httpx.AsyncHTTPTransport(verify=False, trust_env=False, limits=limits)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one attempt."""
        worker = next(self._numbers) % len(self._ports)
        attempt = Attempt(time.time(), worker)
        operation = self._book.operations[request.headers[PAYMENT_HEADER]]
        operation.key = request.headers[KEY_HEADER].strip('"')
        operation.attempts.append(attempt)
        url = request.url.copy_with(host=HOST, port=self._ports[worker])
        sent = httpx.Request(
            request.method,
            url,
            headers=request.headers,
            stream=request.stream,
            extensions=request.extensions,
        )
        try:
            response = await self._inner.handle_async_request(sent)
            attempt.ended_as = str(response.status_code)
        except BaseException as error:
            attempt.ended_as = type(error).__name__
            raise
        finally:
            attempt.ended_at = time.time()
        return response

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


@contextlib.asynccontextmanager
async def faulty(plan: Plan, ports: Sequence[int], book: Book) -> AsyncGenerator[list[FaultProxy]]:
    """Stand between the clients and the workers; count at the end what was done."""
    async with contextlib.AsyncExitStack() as stack:
        proxies = [
            await stack.enter_async_context(FaultProxy(port, plan.network(number)))
            for number, port in enumerate(ports)
        ]
        yield proxies
    done = Counter[str]()
    for proxy in proxies:
        done.update({kind.__name__: times for kind, times in proxy.done.items()})
        done["broken off by the worker"] += proxy.broken
        done["no worker there"] += proxy.unreachable
    del done[Pass.__name__]
    book.network.update(done)
