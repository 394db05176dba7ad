"""Against WireMock, a server of other people's: its faults, and its journal as the witness."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from client.clients import POLICY, info, named
from client.peers.wiremock import Stub, WireMock, lacking, running
from client.stacks import Stack, StackSetup, on_each_loop, on_each_stack_by_turns, slots_in_use
from replayfloor.client import OutcomePending
from replayfloor.core.outcome import Outcome

pytestmark = on_each_stack_by_turns

BODY = b'{"amount": 4200}'
CREATED: dict[str, object] = {"status": 201, "jsonBody": {"id": 1}}
BUSY: Stub = {"status": 503}
FAULTS = [
    "CONNECTION_RESET_BY_PEER",
    "EMPTY_RESPONSE",
    "MALFORMED_RESPONSE_CHUNK",
    "RANDOM_DATA_THEN_CLOSE",
]
DRIBBLE: Stub = CREATED | {"chunkedDribbleDelay": {"numberOfChunks": 4, "totalDuration": 400}}
with_each_fault = pytest.mark.parametrize("fault", FAULTS)


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WireMock]:
    """The server, fetched and started by the first test that needs it."""
    reason = lacking()
    if reason is not None:
        pytest.skip(reason)
    with running(tmp_path_factory.mktemp("wiremock")) as server:
        yield server


@pytest.fixture
def wiremock(started: WireMock) -> WireMock:
    """The server without stubs and without memory."""
    started.reset()
    return started


def _check(wiremock: WireMock, requests: int) -> None:
    """One key and one body over all attempts, by the witness's word."""
    witnessed = wiremock.witnessed()
    assert len(witnessed) == requests
    assert {each.body for each in witnessed} == {BODY}
    assert len({each.key for each in witnessed}) == 1
    assert witnessed[0].key


@with_each_fault
def test_after_a_fault_the_same_request_is_sent_with_the_same_key(
    fault: str, stack: Stack, wiremock: WireMock
) -> None:
    wiremock.script({"fault": fault}, {"fault": fault}, CREATED)
    with StackSetup(stack=stack).client() as client:
        response = client.post(wiremock.url(), content=iter([BODY]))

    assert (response.status_code, response.json()) == (201, {"id": 1})
    assert info(response).attempts == 3
    _check(wiremock, 3)


@pytest.mark.anyio
@on_each_loop
@with_each_fault
async def test_asynchronously_it_is_sent_with_the_same_key_too(
    fault: str, stack: Stack, wiremock: WireMock
) -> None:
    wiremock.script({"fault": fault}, CREATED)
    async with StackSetup(stack=stack).async_client() as client:
        response = await client.post(wiremock.url(), content=BODY)

    assert (response.status_code, info(response).attempts) == (201, 2)
    _check(wiremock, 2)


@with_each_fault
def test_a_fault_that_stays_leaves_the_outcome_open_and_the_pool_empty(
    fault: str, stack: Stack, wiremock: WireMock
) -> None:
    wiremock.script({"fault": fault})
    setup = StackSetup(stack=stack)
    inner = setup.connections()
    with setup.client(inner) as client:
        with pytest.raises(OutcomePending) as caught:
            client.post(wiremock.url(), content=BODY, extensions=named("invoice-1"))
        assert slots_in_use(inner) == 0
        wiremock.reset()
        wiremock.script(CREATED)
        response = client.post(wiremock.url(), content=BODY, extensions=named("invoice-1"))

    assert isinstance(caught.value, stack.http_error)
    assert caught.value.outcome is Outcome.UNKNOWN
    assert info(response).attempts == POLICY.attempts_max + 1
    assert info(response).key == caught.value.key


def test_it_fails_twice_and_then_creates(stack: Stack, wiremock: WireMock) -> None:
    wiremock.script(BUSY, BUSY, CREATED)
    with StackSetup(stack=stack).client() as client:
        response = client.post(wiremock.url(), content=BODY)

    assert (response.status_code, info(response).attempts) == (201, 3)
    _check(wiremock, 3)


def test_an_answer_that_dribbles_is_read_to_its_end(stack: Stack, wiremock: WireMock) -> None:
    wiremock.script({"fault": "EMPTY_RESPONSE"}, DRIBBLE)
    with StackSetup(stack=stack).client() as client:
        response = client.post(wiremock.url(), content=BODY)

    assert (response.status_code, response.json()) == (201, {"id": 1})
    _check(wiremock, 2)


def test_every_fault_in_turn_on_one_operation(stack: Stack, wiremock: WireMock) -> None:
    wiremock.script(*({"fault": fault} for fault in FAULTS[:3]), CREATED)
    with StackSetup(stack=stack).client() as client:
        response = client.post(wiremock.url(), content=BODY)

    assert (response.status_code, info(response).attempts) == (201, 4)
    _check(wiremock, 4)
