"""The clients: each begins one payment after the other and repeats it until it has an answer.

Half of them do by hand what most callers do, and come back sooner than they are asked to; the
others stand on the transport. What is a definitive answer is said here, whether it is right in
the checks.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Protocol

import httpx

from chaos.book import Answer, Book, Operation
from chaos.network import KEY_HEADER, PAYMENT_HEADER
from chaos.plan import ATTEMPT_S, Plan
from chaos.worker import RUN_HEADER
from replayfloor.client import OutcomeUndetermined, Profile, RetryPolicy
from replayfloor.client.errors import OperationError
from replayfloor.core.problem import ProblemKind, problem_kind

RIVAL_SHARE = 0.12
"""Payments that two callers send at the same time."""

PAUSE_S = (0.15, 0.6)
"""Between two attempts by hand: shorter than any Retry-After."""

AMOUNT_MAX = 10**6
UNKNOWN_FOR_GOOD_S = 10
"""A Retry-After above this says that nobody but a reconciler can know; below it, that only the
answer to a commit was lost and the next request will tell."""

PROFILE = Profile(name="chaos", retention_s=24 * 3600.0)
RETRY = RetryPolicy(
    attempts_max=12, wait_base_s=0.1, wait_cap_s=0.8, budget_s=15.0, lease_s=ATTEMPT_S * 2
)
URL = "http://chaos"


def draw_operation(draw: random.Random, payment: str, plan: Plan) -> Operation:
    """Return a new payment."""

    def pause_ms() -> int:
        shares = [share for share, _low, _high in plan.handlers_ms]
        _share, low, high = draw.choices(plan.handlers_ms, shares)[0]
        return draw.randint(low, high)

    amount = draw.randint(1, AMOUNT_MAX)
    order: dict[str, object] = {
        "payment": payment,
        "amount": amount,
        "before_ms": pause_ms(),
        "after_ms": pause_ms(),
    }
    return Operation(payment, draw.choice(plan.routes), amount, order)


def answer_of(response: httpx.Response, client: str) -> Answer:
    """Return what an answer says."""
    kind = problem_kind(response.headers.get("content-type", "").encode(), response.content)
    return Answer(
        time.time(),
        client,
        response.status_code,
        response.content,
        response.headers.get(RUN_HEADER, ""),
        response.headers.get("idempotent-replayed") == "true",
        kind,
    )


def is_definitive(answer: Answer, retry_after: str) -> bool:
    """Say whether repeating the request would bring nothing new."""
    match answer.kind:
        case ProblemKind.OUTCOME_UNKNOWN:
            return int(retry_after) > UNKNOWN_FOR_GOOD_S
        case ProblemKind.HANDLER_FAILED:
            return answer.replayed
        case ProblemKind.IN_FLIGHT:
            return False
        case _:
            return answer.status < 500


class Client(Protocol):
    """One way to carry a payment to its answer; None if the run was over before there was one."""

    async def pay(self, operation: Operation) -> Answer | None:
        """Send it until it is answered."""
        ...


class ByHand:
    """Repeats with the same key and body, as simple callers do."""

    def __init__(self, client: httpx.AsyncClient, name: str, over: Callable[[], bool]) -> None:
        """Give up once `over` says so."""
        self._client, self._name, self._over = client, name, over

    async def pay(self, operation: Operation) -> Answer | None:
        """See Client."""
        key = operation.key or operation.payment
        headers = {PAYMENT_HEADER: operation.payment, KEY_HEADER: f'"{key}"'}
        while not self._over():
            try:
                response = await self._client.post(
                    f"{URL}/{operation.route}", json=operation.order, headers=headers
                )
            except httpx.TransportError:
                pass
            else:
                answer = answer_of(response, self._name)
                if is_definitive(answer, response.headers.get("retry-after", "0")):
                    return answer
            await asyncio.sleep(random.uniform(*PAUSE_S))
        return None


class ByTransport:
    """Leaves the repeating to AsyncIdempotentTransport, and resumes what it has left pending."""

    def __init__(self, client: httpx.AsyncClient, name: str, over: Callable[[], bool]) -> None:
        """Give up once `over` says so; `client` stands on the transport."""
        self._client, self._name, self._over = client, name, over

    async def pay(self, operation: Operation) -> Answer | None:
        """See Client."""
        while not self._over():
            try:
                response = await self._client.post(
                    f"{URL}/{operation.route}",
                    json=operation.order,
                    headers={PAYMENT_HEADER: operation.payment},
                    extensions={"idempotency": {"operation_id": operation.payment}},
                )
            except OutcomeUndetermined as error:
                if (told := self._told(error)) is not None:
                    return told
                if not error.resumable:
                    raise
            except (httpx.TransportError, OperationError) as error:
                # Nothing was executed, or it says itself that it may be called again.
                if isinstance(error, OperationError) and not error.resumable:
                    raise
            else:
                return answer_of(response, self._name)
            await asyncio.sleep(random.uniform(*PAUSE_S))
        return None

    def _told(self, error: OutcomeUndetermined) -> Answer | None:
        response = error.last_response
        if response is None:
            return None
        answer = answer_of(response, self._name)
        return answer if is_definitive(answer, response.headers.get("retry-after", "0")) else None


async def go_on(
    name: str, client: Client, plan: Plan, book: Book, over: Callable[[], bool]
) -> None:
    """Pay one payment after the other until the run is over; sometimes two callers race."""
    draw = random.Random(f"{plan.seed}/{name}")
    number = 0
    await asyncio.sleep(draw.uniform(0, plan.pace_s[1]))
    while not over():
        number += 1
        operation = book.begin(draw_operation(draw, f"{name}-{number}", plan))
        callers = 2 if draw.random() < RIVAL_SHARE else 1
        await asyncio.gather(*(pay(client, operation) for _ in range(callers)))
        await asyncio.sleep(draw.uniform(*plan.pace_s))


async def pay(client: Client, operation: Operation) -> None:
    """Carry one payment to its answer, and enter it at once: a caller may be cancelled."""
    answer = await client.pay(operation)
    if answer is not None:
        operation.answers.append(answer)
