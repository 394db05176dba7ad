"""An operation id that comes from the block a call is made in, for SDKs that pass none on."""

from __future__ import annotations

import anyio
import pytest

from client.clients import Setup, info, named
from client.loopback import DROP, OK, Loopback
from replayfloor.client import KeyReuseMismatch, OutcomePending, operation
from replayfloor.core.errors import UsageError


def test_a_call_in_the_block_is_the_operation(loopback: Loopback) -> None:
    setup = Setup()
    with setup.client() as client:
        with operation("order-1"):
            response = client.post(loopback.url())
        outside = client.post(loopback.url())

    assert info(response).operation_id == "order-1"
    assert info(outside).operation_id == info(outside).key


def test_a_key_that_an_sdk_makes_for_each_call_yields_to_the_operations(
    loopback: Loopback,
) -> None:
    loopback.script(DROP, DROP, DROP, DROP, OK)
    setup = Setup()
    with setup.client() as client, operation("order-1"), pytest.raises(OutcomePending):
        client.post(loopback.url(), content=b"pay", headers={"Idempotency-Key": "sdk-1"})
    with setup.client() as client, operation("order-1"):
        response = client.post(loopback.url(), content=b"pay", headers={"Idempotency-Key": "sdk-2"})

    assert (response.status_code, info(response).resumed) == (201, True)
    assert set(loopback.keys()) == {'"sdk-1"'}


def test_a_key_in_the_extension_does_not_yield(loopback: Loopback) -> None:
    setup = Setup()
    extension: dict[str, object] = {"idempotency": {"key": "mine"}}
    with setup.client() as client, operation("order-1"):
        client.post(loopback.url(), headers={"Idempotency-Key": "sdk-1"})
        with pytest.raises(KeyReuseMismatch, match="another key"):
            client.post(loopback.url(), extensions=extension)

    assert len(loopback.received) == 1


def test_an_operation_id_in_the_extension_goes_before_the_blocks(loopback: Loopback) -> None:
    with Setup().client() as client, operation("order-1"):
        response = client.post(loopback.url(), extensions=named("order-2"))

    assert info(response).operation_id == "order-2"


def test_a_second_write_in_the_block_is_not_sent(loopback: Loopback) -> None:
    with Setup().client() as client, operation("order-1"):
        client.post(loopback.url(), content=b"pay")
        client.get(loopback.url("/balance"))
        with pytest.raises(KeyReuseMismatch, match="order-1"):
            client.post(loopback.url("/refunds"), content=b"pay back")

    assert [each.path for each in loopback.received] == ["/charges", "/balance"]


def test_a_block_within_a_block_is_its_own_operation(loopback: Loopback) -> None:
    with Setup().client() as client, operation("order-1"):
        with operation("order-2"):
            inner = client.post(loopback.url())
        outer = client.post(loopback.url())

    assert (info(inner).operation_id, info(outer).operation_id) == ("order-2", "order-1")


@pytest.mark.anyio
async def test_tasks_do_not_see_each_others_blocks(loopback: Loopback) -> None:
    setup = Setup()
    found: dict[str, str] = {}
    async with setup.async_client() as client:

        async def pay(name: str) -> None:
            with operation(name):
                await anyio.sleep(0.01)
                response = await client.post(loopback.url(), content=name.encode())
            found[name] = info(response).operation_id

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(pay, f"order-{number}")

    assert found == {name: name for name in found}
    assert len(set(loopback.keys())) == 20


@pytest.mark.parametrize("wrong", ["", "  ", "x" * 256])
def test_an_id_that_names_nothing_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError), operation(wrong):
        pass


def test_it_is_no_decorator_because_a_coroutine_would_run_after_the_block() -> None:
    async def pay() -> None: ...

    with pytest.raises(TypeError):
        operation("order-1")(pay)  # type: ignore[operator]  # pyright: ignore[reportCallIssue]
