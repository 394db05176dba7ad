"""Simultaneous requests with one key, over two server processes: one of them executes."""

from __future__ import annotations

import anyio
import httpx
import pytest

from faults.conftest import Stack
from replayfloor.core.problem import ProblemKind, problem_kind

pytestmark = pytest.mark.anyio

SIMULTANEOUS = 32
ROUNDS = 50
EVERYDAY_ROUNDS = 10
POST_S = 30.0


async def simultaneous(
    clients: list[httpx.AsyncClient], path: str, payment: str, count: int
) -> list[httpx.Response]:
    """Send `count` copies of one request, alternating between the workers."""
    answers: list[httpx.Response] = []

    async def one(client: httpx.AsyncClient) -> None:
        headers = {"Idempotency-Key": f'"{payment}"', "x-before-ms": "20"}
        answers.append(await client.post(path, json={"payment": payment}, headers=headers))

    async with anyio.create_task_group() as group:
        for number in range(count):
            group.start_soon(one, clients[number % len(clients)])
    return answers


def check_answers(answers: list[httpx.Response]) -> None:
    """One fresh answer; every other is a replay of it or a 409 in flight with Retry-After."""
    created = [answer for answer in answers if answer.status_code == 201]
    fresh = [answer for answer in created if "idempotent-replayed" not in answer.headers]
    refused = [answer for answer in answers if answer.status_code != 201]
    assert len(fresh) == 1
    assert {answer.content for answer in created} == {fresh[0].content}
    for answer in refused:
        kind = problem_kind(answer.headers["content-type"].encode(), answer.content)
        assert (answer.status_code, kind) == (409, ProblemKind.IN_FLIGHT), answer.text
        assert int(answer.headers["retry-after"]) >= 1


async def run_rounds(stack: Stack, path: str, rounds: int, count: int) -> None:
    limits = httpx.Limits(max_connections=count, max_keepalive_connections=count)
    async with (
        httpx.AsyncClient(base_url=stack.workers[0].url, limits=limits, timeout=POST_S) as first,
        httpx.AsyncClient(base_url=stack.workers[1].url, limits=limits, timeout=POST_S) as second,
    ):
        for number in range(rounds):
            payment = f"{path[1:]}-{number}"
            answers = await simultaneous([first, second], path, payment, count)

            check_answers(answers)
            assert stack.rows(payment) == 1


@pytest.mark.parametrize(
    ("side", "rounds"),
    [
        ("asgi", EVERYDAY_ROUNDS),
        pytest.param("asgi", ROUNDS, marks=pytest.mark.slow),
        ("wsgi", EVERYDAY_ROUNDS),
    ],
)
@pytest.mark.parametrize("path", ["/atomic", "/external"])
async def test_of_32_simultaneous_requests_over_two_workers_one_executes(
    postgres_stack: Stack, path: str, rounds: int
) -> None:
    await run_rounds(postgres_stack, path, rounds, SIMULTANEOUS)


@pytest.mark.parametrize("path", ["/atomic", "/external"])
async def test_two_workers_on_one_sqlite_file_execute_once(sqlite_stack: Stack, path: str) -> None:
    await run_rounds(sqlite_stack, path, 10, 16)
